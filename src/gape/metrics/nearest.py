"""How far real records are from the nearest synthetic point."""

import numpy as np

from gape.core.types import Floats
from gape.metrics.arrays import Array, check_pair, dense_distances, is_tensor, row_blocks, row_distances
from gape.voting.nearest import nearest


def nearest_distances(real: Array, synthetic: Array) -> Floats:
    """Return the distance of every real record to its nearest synthetic point, (n,), exact.

    real: (n, d), synthetic: (m, d). Memory beside the inputs does not grow with n m.
    """
    X, Y = check_pair(real, synthetic)
    if is_tensor(X):
        blocks = (dense_distances(X[rows], Y) for rows in row_blocks(len(X), len(Y)))
        return np.concatenate([block.min(dim=1).values.cpu().numpy() for block in blocks])
    return row_distances(X, Y[nearest(X, Y)])


def mean_nearest_distance(real: Array, synthetic: Array) -> float:
    """Mean over the real records of the distance to the nearest synthetic point: the k-median cost.

    Zero if and only if every real record is among the synthetic points. Blind to synthetic points that are near no
    record: adding any point never makes it worse.
    """
    return float(nearest_distances(real, synthetic).mean())
