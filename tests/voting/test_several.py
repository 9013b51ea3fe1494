import numpy as np
import pytest

from gape.core.errors import InputError
from gape.core.types import Points
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest
from gape.voting.several import reference_several_nearest, several_nearest


def drawn(n: int, d: int, seed: int = 0) -> Points:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 7, 40])
@pytest.mark.parametrize(("n", "v", "d"), [(50, 60, 3), (300, 700, 17), (3, 40, 200)])
def test_it_finds_what_the_definition_finds(n: int, v: int, d: int, count: int) -> None:
    X, Y = drawn(n, d), drawn(v, d, seed=1)
    assert np.array_equal(several_nearest(X, Y, count), reference_several_nearest(X, Y, count))


def test_ties_go_to_the_first_and_repeated_candidates_count_once() -> None:
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2).astype(np.float32)
    Y = np.concatenate([grid, grid[::-1]])
    X = grid + np.float32(0.5)
    found = several_nearest(X, Y, 9)
    assert np.array_equal(found, reference_several_nearest(X, Y, 9))
    assert found.max() < len(grid)


def test_points_that_float32_cannot_tell_apart_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    X = (1000 + rng.normal(size=(200, 30))).astype(np.float32)
    Y = X[:1] + (1e-3 * rng.normal(size=(500, 30))).astype(np.float32)
    assert np.array_equal(several_nearest(X, Y, 5), reference_several_nearest(X, Y, 5))


def test_all_different_candidates_are_found_where_there_are_fewer() -> None:
    Y = np.array([[0.0], [1.0], [0.0]], dtype=np.float32)
    assert several_nearest(np.array([[0.9]], dtype=np.float32), Y, 5).tolist() == [[1, 0]]


def test_the_first_is_the_nearest() -> None:
    X, Y = drawn(100, 8), drawn(90, 8, seed=1)
    assert np.array_equal(several_nearest(X, Y, 6)[:, 0], nearest(X, Y))


def test_no_votes_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 candidate, got 0"):
        several_nearest(drawn(2, 2), drawn(2, 2), 0)


class TestElectorate:
    def test_every_record_casts_all_its_votes_each_for_another_candidate(self) -> None:
        X, Y = drawn(40, 4), drawn(30, 4, seed=1)
        electorate = LocalElectorate(X, votes_per_unit=3, votes_per_record=3)
        counts = electorate.count(Y, 1)
        assert counts.sum() == 3 * len(X)
        for moved in range(5):  # what one record adds has entries of 0 and 1: an L2 norm of sqrt(3)
            others = LocalElectorate(np.delete(X, moved, axis=0), votes_per_unit=3, votes_per_record=3)
            own = counts - others.count(Y, 1)
            assert sorted(own)[-4:] == [0, 1, 1, 1]
            assert own.sum() == 3

    def test_votes_of_a_user_that_coincide_count_once(self) -> None:
        X = np.array([[0.0], [0.1], [5.0]], dtype=np.float32)
        Y = np.array([[0.0], [1.0], [5.0], [6.0]], dtype=np.float32)
        electorate = LocalElectorate(X, units=["a", "a", "b"], votes_per_unit=4, votes_per_record=2)
        assert electorate.count(Y, 1).tolist() == [1, 1, 1, 1]

    def test_votes_that_do_not_divide_are_refused(self) -> None:
        with pytest.raises(InputError, match="must be a multiple of votes_per_record"):
            LocalElectorate(drawn(4, 2), units=list("aabb"), votes_per_unit=3, votes_per_record=2)

    def test_a_record_casts_no_more_than_its_own(self) -> None:
        with pytest.raises(InputError, match=r"must equal votes_per_record, 2, .* got 4; give units as well"):
            LocalElectorate(drawn(4, 2), votes_per_unit=4, votes_per_record=2)
