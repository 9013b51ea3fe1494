"""The paper's rule for R, the separation at a third of which GAPE truncates distances."""

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2, vq

from gape.core.errors import InputError
from gape.core.types import Points
from gape.voting.nearest import check_points

_LLOYD = 25  # steps of k-means
_FACTOR = 10.0


def paper_separation(points: Points, samples: int, *, seed: int = 0) -> float:
    """Return ten times the largest distance of a point to the nearest of `samples` k-means centres, (n, d) in all.

    `points` must be public, because the result depends on single points and has no privacy guarantee: embed public
    data of the same kind as the private data. The paper computes R on the private data itself, which costs privacy
    that its accounting does not cover.
    """
    x = check_points(points, "points").astype(np.float64)
    different = len(np.unique(x, axis=0))
    if not 1 <= samples < different:
        raise InputError(
            f"samples must be at least 1 and less than the {different} different points, got {samples}; give more "
            "public points"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an empty cluster, whose centre stays where it was
        centres, _ = kmeans2(x, samples, iter=_LLOYD, minit="++", rng=np.random.default_rng(seed))
    return _FACTOR * float(vq(x, centres)[1].max())
