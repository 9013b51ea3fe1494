"""Distances between tables, by hand."""

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.metrics.tables import column_distances, pair_distance


def test_columns_by_hand() -> None:
    real, made = np.array([[0, 1], [0, 2], [1, 1], [1, 2]]), np.array([[0, 1], [0, 1]])
    np.testing.assert_allclose(column_distances(real, made), [0.5, 0.5])
    np.testing.assert_allclose(column_distances(real, real[::-1]), [0, 0])
    np.testing.assert_allclose(column_distances(real, real + 5), [1, 1])


def test_pairs_tell_what_goes_together() -> None:
    real, made = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [1, 0]])
    np.testing.assert_allclose(column_distances(real, made), [0, 0])
    assert pair_distance(real, made) == 1
    assert pair_distance(real, np.concatenate([real, made])) == pytest.approx(0.5)
    three = [np.column_stack([each, each[:, 0]]) for each in (real, made)]
    assert pair_distance(*three) == pytest.approx(2 / 3)  # of three pairs one agrees


def test_one_column_has_no_pairs() -> None:
    assert pair_distance(np.zeros((3, 1), dtype=int), np.ones((2, 1), dtype=int)) == 0


@pytest.mark.parametrize("shapes", [((0, 2), (3, 2)), ((3, 2), (0, 2)), ((3, 2), (3, 1)), ((3,), (3,))])
def test_tables_that_do_not_compare_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    real, made = (np.zeros(shape, dtype=np.int64) for shape in shapes)
    for measure in (column_distances, pair_distance):
        with pytest.raises(InputError, match="tables must have rows and the same number of columns"):
            measure(real, made)
