"""The class of rows of numbers, by noisy counts of pairs of numbers together with it.

The chances of each class in each row are scaled until, in every part of every pair of numbers, the rows have the
counted shares of classes (iterative proportional fitting). The results are the chances nearest to the given ones that
agree with the counts: a logistic regression on the parts. The numbers of the rows stay as they are.
"""

from collections.abc import Sequence

import numpy as np

from gape.core.types import Floats, Indices
from gape.modalities.rows.survey import Together

_PASSES = 10
_SMALL = 1e-6  # share of a class that is never smaller, so that it can grow again


def told_together(chances: Floats, rows: Indices, counted: Sequence[Together], total: float) -> Floats:
    """Return the chances of the classes in each row of cells, (n, classes), given those without the counts.

    Noise would be taken for structure where it is larger: counts are first drawn towards what is expected without them,
    by as much as their mean distance from it is noise.
    """
    kinds = chances.shape[1]
    chances = chances / chances.sum(axis=1, keepdims=True)
    groups, shares = [], []
    for table in counted:
        own = (parts[rows[:, column]] for parts, column in zip(table.parts[:2], table.columns[:2], strict=True))
        group = np.ravel_multi_index(tuple(own), table.counts.shape[:2])
        expected = _sums(chances, group, table.counts.size // kinds) * total / len(rows)
        away = table.counts.reshape(-1, kinds) - expected
        signal = max(0.0, float((away**2).mean()) - table.noise**2)
        counts = np.maximum(expected + away * signal / max(signal + table.noise**2, 1e-9), 0.0) + 1e-9
        groups.append(group)
        shares.append(counts / counts.sum(axis=1, keepdims=True) + _SMALL)
    for _ in range(_PASSES):
        for group, wanted in zip(groups, shares, strict=True):
            have = _sums(chances, group, len(wanted))
            have /= np.maximum(have.sum(axis=1, keepdims=True), 1e-12)
            chances *= (wanted / (have + _SMALL))[group]
            chances /= chances.sum(axis=1, keepdims=True)
    return chances


def _sums(chances: Floats, group: Indices, groups: int) -> Floats:
    """Return the sums of the chances of the rows of each group, (groups, classes)."""
    kinds = chances.shape[1]
    bins = (group[:, None] * kinds + np.arange(kinds)).ravel()
    sums: Floats = np.bincount(bins, weights=chances.ravel(), minlength=groups * kinds).astype(np.float64)
    return sums.reshape(groups, kinds)
