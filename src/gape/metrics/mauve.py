"""MAUVE: how alike two distributions are, from the frontier of the two ways in which they can differ.

Pillutla et al. (2021), written from the paper's definition. With P and Q the shares of real and of synthetic points in
the cells of a joint k-means, R = l P + (1 - l) Q and c > 0, the divergence frontier is the curve

    (exp(-c KL(Q | R)), exp(-c KL(P | R))),   0 < l < 1,

and MAUVE is the area under it: 1 where P = Q, near 0 where they have no cell in common. The cells are those of points
as they are, not of their principal components, so the figures are like those of other programs but not the same.
"""

import numpy as np

from gape._support.clustering import assign, k_means
from gape.core.errors import InputError
from gape.core.types import Floats
from gape.metrics.arrays import Array, check_pair, on_host

_STEPS = 2000  # of the mixture l; the area is then exact to six digits
_LLOYD = 100  # rounds at most


def mauve(
    real: Array, synthetic: Array, rng: np.random.Generator, *, cells: int | None = None, scale: float = 5.0
) -> float:
    """Area under the divergence frontier of the two sets, quantised in `cells`, by default a tenth of the smaller set.

    `scale` is the paper's c. The value moves with the number of cells, with the sizes of the sets and a little with
    `rng`, which starts the k-means: compare only what was computed alike. It does not see anything within a cell.

    real: (n, d), synthetic: (m, d).
    """
    X, Y = map(on_host, check_pair(real, synthetic))
    if cells is None:
        cells = max(2, min(len(X), len(Y)) // 10)
    if cells < 1 or not 0 < scale < np.inf:
        raise InputError(
            f"cells must be at least 1 and scale positive and finite, got {cells} and {scale}; use the defaults"
        )
    owner, _ = assign(points := np.concatenate([X, Y]), k_means(points, cells, rng, _LLOYD))
    P, Q = (np.bincount(part, minlength=cells) / len(part) for part in (owner[: len(X)], owner[len(X) :]))
    return frontier_area(P, Q, scale)


def frontier_area(P: Floats, Q: Floats, scale: float = 5.0) -> float:
    """Area under the divergence frontier of two probability vectors of the same cells, (k,)."""
    mixture = np.linspace(0.0, 1.0, _STEPS + 1)[:, None]
    R = mixture * P + (1 - mixture) * Q  # (steps + 1, k)
    with np.errstate(divide="ignore"):
        log_R = np.log(R)
    x, y = (np.exp(-scale * _divergences(side, log_R)) for side in (Q, P))
    # From l = 1, where y = 1, the frontier goes on level to the left; x rises as l falls.
    x, y = np.append(x, 0.0)[::-1], np.append(y, 1.0)[::-1]
    return float(np.trapezoid(y, x))


def _divergences(P: Floats, log_R: Floats) -> Floats:
    """KL(P | R) for every row R, infinite where R lacks what P has."""
    held = P > 0
    divergences: Floats = P[held] @ np.log(P[held]) - log_R[:, held] @ P[held]
    return np.maximum(divergences, 0.0)
