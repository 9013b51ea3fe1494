"""How similar two tables are: total variation distances of the marginals of single columns and of pairs of columns.

A table is an array of small non-negative integers, (n, columns): the index of each cell's value, or of its bin.
"""

from itertools import combinations

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Indices


def column_distances(real: Indices, synthetic: Indices) -> Floats:
    """Return, for each column, the share of cells that would have to change for both marginals to agree."""
    _check_tables(real, synthetic)
    return np.array([_marginal_distance(real[:, j], synthetic[:, j]) for j in range(real.shape[1])])


def pair_distance(real: Indices, synthetic: Indices) -> float:
    """Return the mean of the same distance over pairs of columns, which also reflects their dependence."""
    _check_tables(real, synthetic)
    sizes = np.maximum(real.max(axis=0), synthetic.max(axis=0)) + 1
    pairs = [
        _marginal_distance(*(table[:, i] * sizes[j] + table[:, j] for table in (real, synthetic)))
        for i, j in combinations(range(real.shape[1]), 2)
    ]
    return float(np.mean(pairs)) if pairs else 0.0


def _marginal_distance(real: Indices, synthetic: Indices) -> float:
    size = int(max(real.max(), synthetic.max())) + 1
    shares = [np.bincount(column, minlength=size) / len(column) for column in (real, synthetic)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _check_tables(real: Indices, synthetic: Indices) -> None:
    if not len(real) or not len(synthetic) or real.shape[1:] != synthetic.shape[1:] or real.ndim != 2:
        raise InputError(
            f"tables must have rows and the same number of columns, got shapes {real.shape} and {synthetic.shape}"
        )
