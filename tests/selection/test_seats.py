import math

import numpy as np

from gape.selection.local_search import Gape
from gape.selection.seats import fill_seats
from gape.types import Points


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
