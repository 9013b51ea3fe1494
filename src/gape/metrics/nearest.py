"""How far real records are from the nearest synthetic point."""

import numpy as np

from gape.core.types import Floats
from gape.metrics.arrays import Array, check_pair, dense_distances, is_tensor, row_blocks, row_distances
from gape.voting.nearest import nearest


def nearest_distances(real: Array, synthetic: Array) -> Floats:
    """Return the exact distance of each real record to its nearest synthetic point, (n,).

    real: (n, d), synthetic: (m, d). Memory besides the inputs does not grow with n m.
    """
    X, Y = check_pair(real, synthetic)
    if is_tensor(X):
        blocks = (dense_distances(X[rows], Y) for rows in row_blocks(len(X), len(Y)))
        return np.concatenate([block.min(dim=1).values.cpu().numpy() for block in blocks])
    return row_distances(X, Y[nearest(X, Y)])


def mean_nearest_distance(real: Array, synthetic: Array) -> float:
    """Return the mean distance of real records to their nearest synthetic point: the k-median cost.

    It is zero if and only if every real record is among the synthetic points. It ignores synthetic points far from all
    records: adding a point never makes it worse.
    """
    return float(nearest_distances(real, synthetic).mean())
