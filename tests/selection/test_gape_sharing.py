import math

import numpy as np

from contracts.selector import SelectorContract
from gape.core.protocols import Selector
from gape.core.types import Points
from gape.selection.local_search import Gape, local_search
from gape.selection.sharing import estimate

DEFAULT = Gape.for_corpus(4.0)


class TestGapeBySharing(SelectorContract):
    def make(self) -> Selector:
        return DEFAULT


def points(count: int) -> Points:
    return np.random.default_rng(1).normal(size=(count, 16)).astype(np.float32)


def test_it_searches_among_the_largest_estimates() -> None:
    votes = np.random.default_rng(0).integers(-8, 12, 300)
    weights = estimate(votes, points(300), 4.0).counts
    chosen = DEFAULT(votes, points(300), 40, np.random.default_rng(0))
    least = np.sort(weights)[-80]
    expected = local_search(
        points(300), weights, 40, separation=math.inf, threshold=float(np.nextafter(least, -math.inf))
    )
    np.testing.assert_array_equal(chosen.indices, expected.indices)
    assert chosen.candidates == 80
    assert chosen.certified
    assert len(chosen.indices) == 40
    assert weights[chosen.indices].min() >= least


def test_repeated_candidates_are_not_selected() -> None:
    some = points(30)
    votes = np.concatenate([np.full(30, 5), np.full(30, 90)])  # the second of two equal points has noise alone
    chosen = DEFAULT(votes, np.concatenate([some, some]), 20, np.random.default_rng(0))
    assert len(chosen.indices) == 20
    assert chosen.indices.max() < 30
