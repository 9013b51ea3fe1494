"""How alike two tables are, column by column and pair by pair: total variation of how values are spread.

Cells are given by which value they have, or which part of its range, (n, columns): small whole numbers.
"""

from itertools import combinations

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Indices


def column_distances(real: Indices, made: Indices) -> Floats:
    """Return for every column what share of the cells would have to change for both to be spread alike."""
    _check(real, made)
    return np.array([_apart(real[:, place], made[:, place]) for place in range(real.shape[1])])


def pair_distance(real: Indices, made: Indices) -> float:
    """Return the same for pairs of columns, which also tells whether what goes together does, on average."""
    _check(real, made)
    sizes = np.maximum(real.max(axis=0), made.max(axis=0)) + 1
    found = [
        _apart(*(each[:, one] * sizes[other] + each[:, other] for each in (real, made)))
        for one, other in combinations(range(real.shape[1]), 2)
    ]
    return float(np.mean(found)) if found else 0.0


def _apart(real: Indices, made: Indices) -> float:
    size = int(max(real.max(), made.max())) + 1
    shares = [np.bincount(each, minlength=size) / len(each) for each in (real, made)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _check(real: Indices, made: Indices) -> None:
    if not len(real) or not len(made) or real.shape[1:] != made.shape[1:] or real.ndim != 2:
        raise InputError(f"tables need rows and the same columns, got shapes {real.shape} and {made.shape}")
