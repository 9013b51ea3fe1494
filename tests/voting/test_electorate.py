from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.electorate import ElectorateContract
from gape.core.errors import InputError
from gape.voting.electorate import LocalElectorate

CANDIDATES = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]], dtype=np.float32)


def at(*places: float) -> np.ndarray:
    return np.array(places, dtype=np.float32)[:, None]


class TestRecords(ElectorateContract):
    def make(self) -> LocalElectorate:
        return LocalElectorate(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32))


class TestUsers(ElectorateContract):
    def make(self) -> LocalElectorate:
        rng = np.random.default_rng(1)
        units = [f"user {i}" for i in rng.integers(0, 12, 50)]
        return LocalElectorate(rng.normal(size=(50, 3)).astype(np.float32), units=units, votes_per_unit=3)


def test_every_record_has_one_vote() -> None:
    counts = LocalElectorate(at(0.1, 0.2, 3.9, 2.2)).count(CANDIDATES, 1)
    assert counts.tolist() == [2, 0, 1, 0, 1]


def test_a_user_speaks_through_its_records_in_turn() -> None:
    electorate = LocalElectorate(at(0, 1, 2, 4, 4), units=["a", "a", "a", "b", "b"])
    votes = [electorate.count(CANDIDATES, turn).tolist() for turn in (1, 2, 3, 4)]
    assert votes == [[1, 0, 0, 0, 1], [0, 1, 0, 0, 1], [0, 0, 1, 0, 1], [1, 0, 0, 0, 1]]


def test_a_users_votes_for_one_candidate_count_once() -> None:
    electorate = LocalElectorate(at(2, 2, 2, 3), units=["a", "a", "a", "a"], votes_per_unit=4)
    assert electorate.count(CANDIDATES, 1).tolist() == [0, 0, 1, 1, 0]


@given(
    others=st.lists(st.tuples(st.integers(0, 5), st.floats(0, 4)), max_size=20),
    one=st.lists(st.floats(0, 4), min_size=1, max_size=40),
    other=st.lists(st.floats(0, 4), min_size=1, max_size=40),
    most=st.integers(1, 4),
    turn=st.integers(1, 9),
    where=st.integers(0, 20),
)
def test_replacing_everything_a_user_has_moves_at_most_its_votes(
    others: list[tuple[int, float]], one: list[float], other: list[float], most: int, turn: int, where: int
) -> None:
    """Whatever the number of its records: each bin by at most one vote, and at most `most` up and `most` down."""

    def count(mine: list[float]) -> np.ndarray:
        rows = [(str(user), place) for user, place in others]
        rows[where:where] = [("me", place) for place in mine]
        units, places = [user for user, _ in rows], [place for _, place in rows]
        return LocalElectorate(at(*places), units=units, votes_per_unit=most).count(CANDIDATES, turn)

    moved = count(one) - count(other)
    assert np.abs(moved).max() <= 1
    assert (moved > 0).sum() <= most
    assert (moved < 0).sum() <= most


def test_a_user_with_a_thousand_records_weighs_as_much_as_a_user_with_one() -> None:
    rng = np.random.default_rng(2)
    few = LocalElectorate(at(1, 2), units=["a", "b"]).count(CANDIDATES, 1)
    places = np.concatenate([[1], rng.uniform(0, 4, 999), [2]])
    many = LocalElectorate(at(*places), units=["a"] * 1000 + ["b"]).count(CANDIDATES, 1)
    assert few.sum() == many.sum() == 2


@pytest.mark.parametrize("units", [None, ["a", "a", "b"]])
def test_the_fingerprint_knows_the_records_but_not_their_order(units: list[str] | None) -> None:
    salt = b"s" * 32
    mark = LocalElectorate(at(1, 2, 3), units=units).fingerprint(salt)
    swapped = LocalElectorate(at(2, 1, 3), units=units).fingerprint(salt)
    assert mark == swapped
    assert mark != LocalElectorate(at(1, 2, 3.5), units=units).fingerprint(salt)
    assert mark != LocalElectorate(at(1, 2, 3), units=units).fingerprint(b"t" * 32)


def test_units_are_part_of_the_fingerprint() -> None:
    salt = b"s" * 32
    marks = {LocalElectorate(at(1, 2), units=units).fingerprint(salt) for units in (None, ["a", "a"], ["a", "b"])}
    assert len(marks) == 3


def test_bad_arguments_are_refused_without_private_values() -> None:
    with pytest.raises(InputError, match=r"must equal votes_per_record, 1, .* got 2; give units"):
        LocalElectorate(at(1, 2), votes_per_unit=2)
    with pytest.raises(InputError, match="at least 1"):
        LocalElectorate(at(1, 2), units=["a", "b"], votes_per_unit=0)
    with pytest.raises(InputError, match="each of the 2 records, got 3"):
        LocalElectorate(at(1, 2), units=["secret", "b", "c"])
    with pytest.raises(InputError, match="NaN") as caught:
        LocalElectorate(at(float("nan"), 123.25))
    assert "123.25" not in str(caught.value)
    assert "123.25" not in repr(LocalElectorate(at(123.25)))


def test_equal_units_of_other_types_are_one() -> None:
    points, candidates = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    units: Any = [7, 7.0]
    assert LocalElectorate(points, units=units).count(candidates, 1).sum() == 1
