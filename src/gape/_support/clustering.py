"""k-means, with which several parts summarise points."""

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Floats, Indices, Points

_BLOCK = 2**22  # distances held at once, in float64: 32 MB


def k_means(points: Points | Floats, k: int, rng: np.random.Generator, steps: int = 25) -> Floats:
    """Return centres, (k, d), that make the mean squared distance of points to the nearest one locally least.

    Lloyd's algorithm, at most `steps` rounds of it, from a k-means++ start. A centre without points goes, and
    there are never more than there are different points, so there may be fewer than k.
    """
    if k < 1 or not len(points):
        raise InputError(f"k-means needs a point and a centre at least, got {len(points)} points and k = {k}")
    x = np.asarray(points, dtype=np.float64)
    centres = x[_plus_plus(x, k, rng)]
    for _ in range(steps):
        own, _ = assign(x, centres)
        sums = np.zeros_like(centres)
        np.add.at(sums, own, x)
        sizes = np.bincount(own, minlength=len(centres))
        moved = sums[sizes > 0] / sizes[sizes > 0, None]
        if moved.shape == centres.shape and np.allclose(moved, centres):
            break
        centres = moved
    return centres


def assign(points: Points | Floats, centres: Floats) -> tuple[Indices, Floats]:
    """Return the nearest centre of every point, the first of equally near ones, and the distance to it."""
    own, gaps = np.empty(len(points), dtype=np.int64), np.empty(len(points))
    step = max(1, _BLOCK // len(centres))
    for start in range(0, len(points), step):
        away = distances(points[start : start + step], centres)
        own[start : start + step] = away.argmin(axis=1)
        gaps[start : start + step] = away.min(axis=1)
    return own, gaps


def _plus_plus(x: Floats, k: int, rng: np.random.Generator) -> list[int]:
    """Draw places of the first centres, each with a chance in proportion to its squared distance from those before."""
    places = [int(rng.integers(len(x)))]
    squared = np.full(len(x), np.inf)
    while len(places) < k:
        squared = np.minimum(squared, distances(x, x[places[-1:]])[:, 0] ** 2)
        if not squared.sum() > 0:
            break
        places.append(int(rng.choice(len(x), p=squared / squared.sum())))
    return places
