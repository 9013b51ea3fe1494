"""Rows as points: every column counts alike, and what is near is near."""

import itertools

import numpy as np
import pytest

from gape.core.types import as_samples
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.schema import Choices, Numbers, Schema

SCHEMA = Schema(
    {
        "age": Numbers(0, 64, missing=True),
        "sex": Choices(("f", "m")),
        "job": Choices(("a", "b", "c"), missing=True),
        "hours": Numbers(0.0, 1.0, 2),
    }
)


def apart(one: tuple[object, ...], other: tuple[object, ...]) -> float:
    points = RowEmbedder(SCHEMA).embed(as_samples([SCHEMA.row(row, "row") for row in (one, other)]))
    return float(np.linalg.norm(points[0] - points[1]))


@pytest.mark.parametrize(
    ("one", "other", "columns"),
    [
        ((3, "f", "a", 0), (3, "f", "a", 0), 0),
        ((3, "f", "a", 0), (3, "m", "a", 0), 1),
        ((3, "f", "a", 0), (3, "m", None, 0), 2),
        ((0, "f", "a", 0), (64, "m", "b", 1), 4),
        ((0, "f", "a", 0), (16, "f", "a", 0), 1 / 4),  # a quarter of the range
        ((8, "f", "a", 0), (40, "f", "a", 0), 1 / 2),
        ((None, "f", "a", 0), (None, "f", "a", 0), 0),
        ((None, "f", "a", 0), (0, "f", "a", 0), 1),
        ((None, "f", "a", 0), (64, "f", "a", 0), 1),
        ((None, "f", "a", 0), (32, "f", "a", 0), 1),
    ],
)
def test_distances_squared_are_the_share_of_columns_that_differ(
    one: tuple[object, ...], other: tuple[object, ...], columns: float
) -> None:
    assert apart(one, other) ** 2 == pytest.approx(columns / 4, abs=1e-6)


def test_nearer_numbers_are_nearer() -> None:
    distances = [apart((0, "f", "a", 0), (age, "f", "a", 0)) for age in range(65)]
    assert all(near < far for near, far in itertools.pairwise(distances))


def test_points_are_float32_of_norm_one_at_most() -> None:
    rows = itertools.product((0, 64, None), ("f", "m"), ("a", None), (0, 1))
    points = RowEmbedder(SCHEMA).embed(as_samples([SCHEMA.row(row, "row") for row in rows]))
    assert points.dtype == np.float32
    assert points.shape == (24, 17 + 2 + 4 + 16)
    assert (np.linalg.norm(points, axis=1) <= 1 + 1e-6).all()


def test_a_column_of_weight_three_counts_as_three_columns() -> None:
    schema = Schema({"x": Choices(("a", "b")), "y": Choices(("a", "b"))}, {"y": 3.0})
    start, one, other = RowEmbedder(schema).embed(as_samples([schema.row(row, "row") for row in ("aa", "ba", "ab")]))
    assert np.linalg.norm(start - one) ** 2 == pytest.approx(1 / 4, abs=1e-6)
    assert np.linalg.norm(start - other) ** 2 == pytest.approx(3 / 4, abs=1e-6)
