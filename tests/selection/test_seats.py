import math

import numpy as np

from gape.core.protocols import Candidates
from gape.core.types import NoisyVotes, Points, Samples, as_samples
from gape.generators.labels import PerLabel, labelled
from gape.selection.local_search import Gape, LocalSearchResult
from gape.selection.seats import fill_seats


def line(*places: float) -> Points:
    return np.array(places, dtype=np.float32)[:, None]


def test_seats_follow_the_votes() -> None:
    points = line(0, 0.1, 0.2, 0.3, 0.4, 10, 10.1, 10.2, 10.3, 10.4)
    weights = np.array([5.0, 4, 3, 2, 1, 50, 40, 30, 20, 10])
    chosen = fill_seats(points, weights, np.array([0, 5]), 6)
    # Averages: 15 / 3 on the left against 150 / 3, 150 / 5, 150 / 7 and 150 / 9 on the right.
    assert sorted(chosen) == [0, 5, 6, 7, 8, 9]
    assert sorted(fill_seats(points, weights, np.array([0, 5]), 7)) == [0, 1, 5, 6, 7, 8, 9]


def test_nobody_without_votes_gets_a_seat() -> None:
    chosen = fill_seats(line(0, 1, 2, 3), np.array([3.0, 0, 0, 1]), np.array([0]), 4)
    assert chosen.tolist() == [0, 3]


def test_equal_centres_stay_apart() -> None:
    chosen = fill_seats(line(0, 0, 1, 2), np.array([3.0, 2, 1, 1]), np.array([0, 1]), 3)
    assert sorted(chosen) == [0, 1, 2]


def test_who_is_not_accepted_leaves_the_seat_to_the_next() -> None:
    points = line(0, 0.1, 0.2, 10, 10.1, 10.2)
    weights = np.array([5.0, 4, 3, 50, 40, 30])
    taken: list[int] = []

    def not_4(place: int) -> bool:
        taken.append(place)
        return place != 4

    chosen = fill_seats(points, weights, np.array([0, 3]), 3, not_4)
    assert taken == [3, 0, 4, 5]  # centres by their weight, then the largest votes of the party that is due
    assert sorted(chosen) == [0, 3, 5]


def test_a_centre_that_is_not_accepted_is_none_and_its_votes_go_to_the_nearest() -> None:
    points = line(0, 0.1, 10, 10.1)
    weights = np.array([9.0, 8, 2, 1])
    chosen = fill_seats(points, weights, np.array([0, 1, 2]), 3, lambda place: place != 1)
    assert sorted(chosen) == [0, 2, 3]


def test_points_without_weight_fill_seats_that_would_stay_empty() -> None:
    chosen = fill_seats(line(0, 1, 2, 3), np.array([3.0, 0, 0, 1]), np.array([0]), 3, lambda place: place != 3)
    assert chosen.tolist() == [0, 1, 2]


class TestDistinct:
    """GAPE with texts of which some are near copies."""

    RULE = Gape(math.inf, 0.0, signed=False, centres=0.5, distinct=True)

    @staticmethod
    def problem() -> tuple[Samples, NoisyVotes, Points]:
        """Ten families of four near copies each, all around one place, and votes that favour the first families."""
        rng = np.random.default_rng(3)
        places = rng.normal(size=(10, 4)) * 3
        points = np.repeat(places, 4, axis=0) + 0.01 * rng.normal(size=(40, 4))
        texts = [f"family {i // 4} tells the same story as ever, version {i}" for i in range(40)]
        votes = np.repeat(np.arange(100, 0, -10), 4) + rng.integers(5, size=40)
        return as_samples(texts), votes.astype(np.int64), points.astype(np.float32)

    def test_of_near_copies_one_survives(self) -> None:
        texts, votes, points = self.problem()
        found = self.RULE.among(Candidates(texts, np.zeros(len(texts))))(votes, points, 8, np.random.default_rng(0))
        assert len({index // 4 for index in found.indices}) == len(found.indices) == 8
        plain = Gape(math.inf, 0.0, signed=False, centres=0.5)(votes, points, 8, np.random.default_rng(0))
        assert len({index // 4 for index in plain.indices}) < 8
        assert isinstance(found, LocalSearchResult)
        assert found.copies > 0

    def test_where_there_are_too_few_distinct_ones_near_copies_fill_the_set(self) -> None:
        texts, votes, points = self.problem()
        found = self.RULE.among(Candidates(texts, np.zeros(len(texts))))(votes, points, 14, np.random.default_rng(0))
        assert len(set(found.indices.tolist())) == 14
        assert {index // 4 for index in found.indices} == set(range(10))

    def test_the_rule_of_the_paper_looks_at_no_sample(self) -> None:
        texts, _, _ = self.problem()
        rule = Gape(math.inf, 0.0)
        assert rule.among(Candidates(texts, np.zeros(len(texts)))) is rule

    def test_each_label_keeps_its_own_texts_distinct(self) -> None:
        texts, votes, points = self.problem()
        labels = [["odd", "even"][index % 2] for index in range(40)]
        samples = labelled(labels, texts)
        marks = np.array([[2.0 * (label == "odd"), 2.0 * (label == "even")] for label in labels], dtype=np.float32)
        rule = PerLabel(self.RULE, ("odd", "even")).among(Candidates(samples, np.zeros(len(samples))))
        found = rule(votes, np.concatenate([points, marks], axis=1), 12, np.random.default_rng(0))
        chosen = [(labels[index], index // 4) for index in found.indices]
        assert len(set(chosen)) == len(chosen) == 12


def test_gape_finds_centres_and_fills_the_other_seats() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 3)).astype(np.float32)
    votes = rng.integers(-5, 40, size=200)
    rule = Gape(math.inf, 0.0, signed=False, centres=0.5)
    found = rule(votes, points, 20, rng)
    alone = Gape(math.inf, 0.0, signed=False)(votes, points, 10, rng)
    assert len(set(found.indices.tolist())) == 20
    assert found.indices[:10].tolist() == alone.indices.tolist()
    assert found.cost == alone.cost
    assert (votes[found.indices] > 0).all()
