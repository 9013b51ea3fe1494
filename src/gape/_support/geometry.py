"""Euclidean distances between points, in float64, exact where points coincide."""

import numpy as np
from scipy.spatial.distance import cdist

from gape.core.types import Floats, Points

# Up to this width the direct sum of squares is as fast as a matrix product, and has no cancellation to correct.
_DIRECT_WIDTH = 32

# Below this share of the squared norms the expansion |x|^2 - 2xy + |y|^2 has lost half of its digits.
_CANCELLED = 1e-7


def distances(left: Points | Floats, right: Points | Floats) -> Floats:
    """Return the Euclidean distances rho(x, y), (len(left), len(right)), to a relative error below 1e-8.

    Identical points are at distance exactly zero.
    """
    a = np.asarray(left, dtype=np.float64)
    b = np.asarray(right, dtype=np.float64)
    if a.shape[1] <= _DIRECT_WIDTH:
        direct: Floats = cdist(a, b)
        return direct
    norms = np.sum(a * a, axis=1)[:, None] + np.sum(b * b, axis=1)[None, :]
    squared = norms - 2.0 * (a @ b.T)
    rows, columns = np.nonzero(squared <= _CANCELLED * norms)
    for start in range(0, len(rows), 4096):
        i, j = rows[start : start + 4096], columns[start : start + 4096]
        squared[i, j] = np.sum((a[i] - b[j]) ** 2, axis=1)
    result: Floats = np.sqrt(squared, out=squared)
    return result
