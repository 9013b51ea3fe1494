"""Trees of regions, and rows that are weighted by them."""

import numpy as np
import pytest
from experiments.tables.regions import WAYS, Tree, made

from gape.modalities import Schema
from gape.modalities.rows.columns import Choices, Numbers

SCHEMA = Schema({"age": Numbers(0, 99), "kind": Choices(("a", "b", "c")), "size": Numbers(0, 9)})


def test_leaves_divide_rows_evenly_and_are_the_same_for_all_rows() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 8, (4_000, 4))
    tree = Tree.of(rows, [True, True, False, False], 16, rng)
    leaves = tree.leaf(rows)
    assert tree.leaves == 16
    assert np.bincount(leaves, minlength=16).min() > 4_000 / 16 / 4
    assert tree.leaf(rows[:100]).tolist() == leaves[:100].tolist()


@pytest.mark.parametrize("way", WAYS)
def test_rows_have_the_columns_of_the_records(way: str) -> None:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 60, 1_500)
    voters = np.stack([age, age // 20, rng.integers(0, 5, 1_500)], axis=1).astype(np.float64)
    rows = made(SCHEMA, voters, WAYS[way], 8.0, 0)
    assert rows.shape == (1_500, 3)
    assert np.mean(rows[:, 0] < 60) > 0.95
    assert np.mean(rows[:, 1] == rows[:, 0] // 20) > 0.85
    assert np.bincount(rows[:, 1].astype(int), minlength=3).min() > 400
