import math

import numpy as np
import pytest

from contracts.selector import SelectorContract
from gape.core.protocols import Candidates, Selector
from gape.core.types import Floats, Points, as_samples
from gape.selection.ranking import ranking
from gape.selection.regions import RegionalRanking, by_region


class TestContract(SelectorContract):
    def make(self) -> Selector:
        return RegionalRanking()


def line(*places: float) -> Points:
    return np.array(places, dtype=np.float32)[:, None]


def select(rule: Selector, votes: list[int], points: Points, size: int) -> list[int]:
    chosen: list[int] = rule(np.array(votes), points, size, np.random.default_rng(0)).indices.tolist()
    return chosen


def test_a_small_group_far_away_keeps_a_seat_that_ranking_would_not_give_it() -> None:
    points = line(*np.linspace(0, 1, 8), 9.0, 9.1)
    votes = [90, 80, 70, 60, 50, 40, 30, 20, 18, 19]
    assert select(RegionalRanking(regions=2), votes, points, 4) == [0, 9, 1, 2]
    assert ranking(np.array(votes), 4).tolist() == [0, 1, 2, 3]


def test_with_one_region_it_is_ranking() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        points, votes = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(1, 100, 60)
        expected = ranking(votes, 12).tolist()
        assert select(RegionalRanking(regions=1), votes.tolist(), points, 12) == expected


def test_each_region_has_its_most_votes_and_the_rest_are_the_most_anywhere() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        weights: Floats = rng.integers(0, 9, 40).astype(np.float64)
        regions = rng.integers(0, 7, 40)
        order = by_region(weights, regions)
        present = set(regions.tolist())
        first, rest = order[: len(present)], order[len(present) :]
        assert sorted(order) == list(range(40))
        assert {int(regions[index]) for index in first} == present
        for index in first:
            assert weights[index] == weights[regions == regions[index]].max()
        assert (np.diff(weights[first]) <= 0).all()
        assert (np.diff(weights[rest]) <= 0).all()


@pytest.mark.parametrize(("distinct", "expected"), [(False, [0, 3, 1]), (True, [0, 3, 2])])
def test_near_copies_are_passed_over_and_counted(expected: list[int], *, distinct: bool) -> None:
    points = line(0.0, 0.1, 0.2, 9.0)
    copy = "one two three four five six seven eight"
    texts = as_samples([f"{copy} nine", f"ten {copy}", "another text altogether", "far away from them"])
    rule = RegionalRanking(regions=2, distinct=distinct).among(Candidates(texts, np.zeros(4)))
    chosen = rule(np.array([9, 8, 7, 1]), points, 3, np.random.default_rng(0))
    assert chosen.indices.tolist() == expected
    assert chosen.copies == int(distinct)  # type: ignore[attr-defined]


def test_near_copies_fill_a_set_that_would_stay_incomplete() -> None:
    texts = as_samples(["the very same text"] * 3)
    rule = RegionalRanking(distinct=True).among(Candidates(texts, np.zeros(3)))
    assert select(rule, [1, 5, 3], line(0, 1, 2), 2) == [1, 2]


def test_negative_votes_count_as_none() -> None:
    assert select(RegionalRanking(), [-5, 4, 0, -9], line(0, 1, 2, 3), 2) == [1, 0]


def test_no_more_regions_than_survivors() -> None:
    points = np.random.default_rng(2).normal(size=(300, 2)).astype(np.float32)
    votes = np.random.default_rng(3).integers(0, 50, 300)
    chosen = RegionalRanking()(votes, points, 10, np.random.default_rng(0))
    assert len(set(chosen.indices.tolist())) == 10
    assert chosen.certified
    assert math.isfinite(chosen.cost)
