"""What every selector promises."""

from typing import ClassVar

import numpy as np
import pytest

import strategies
from gape.core.protocols import Selection, Selector
from gape.core.types import NoisyVotes, Points


class SelectorContract:
    """Inherit, and make one that takes any votes; say if it draws with replacement."""

    repeats: ClassVar[bool] = False

    def make(self) -> Selector:
        raise AssertionError("inherit and make one")

    def select(self, votes: NoisyVotes, points: Points, size: int, seed: int = 0) -> Selection:
        return self.make()(votes, points, size, np.random.default_rng(seed))

    @staticmethod
    def candidates(seed: int, count: int = 30) -> tuple[NoisyVotes, Points]:
        """Noisy votes of both signs for points that include duplicates."""
        rng = np.random.default_rng(seed)
        points = strategies.random_points(rng, count, "duplicates")
        return rng.integers(-5, 12, count), points

    @pytest.mark.parametrize("size", [1, 2, 7, 30])
    def test_selects_at_least_one_and_at_most_size_candidates(self, size: int) -> None:
        for seed in range(10):
            votes, points = self.candidates(seed)
            indices = self.select(votes, points, size).indices
            assert indices.ndim == 1
            assert indices.dtype == np.int64
            assert 1 <= len(indices) <= size
            assert indices.min() >= 0
            assert indices.max() < len(votes)
            assert self.repeats or len(set(indices.tolist())) == len(indices)

    @pytest.mark.parametrize("weighting", ["noisy", "positive", "negative", "deficit", "balanced", "sparse"])
    @pytest.mark.parametrize("layout", strategies.LAYOUTS)
    def test_answers_whatever_the_noise_did(self, weighting: str, layout: str) -> None:
        rng = np.random.default_rng(0)
        for count in (1, 2, 9):
            points = strategies.random_points(rng, count, layout)
            votes = strategies.random_weights(rng, count, weighting).astype(np.int64)
            indices = self.select(votes, points, max(1, count - 1)).indices
            assert set(indices.tolist()) <= set(range(count))
            assert len(indices)

    def test_no_votes_at_all_is_no_error(self) -> None:
        points = strategies.random_points(np.random.default_rng(0), 5, "cloud")
        assert len(self.select(np.zeros(5, dtype=np.int64), points, 2).indices)

    def test_a_candidate_with_all_the_votes_is_selected(self) -> None:
        points = strategies.random_points(np.random.default_rng(0), 20, "cloud")
        votes = np.zeros(20, dtype=np.int64)
        votes[13] = 1_000
        assert 13 in self.select(votes, points, 3).indices

    def test_the_same_seed_selects_the_same(self) -> None:
        votes, points = self.candidates(4)
        once, again = (self.select(votes, points, 6, seed=8) for _ in range(2))
        np.testing.assert_array_equal(once.indices, again.indices)

    def test_what_it_was_given_is_left_alone(self) -> None:
        votes, points = self.candidates(2)
        votes.setflags(write=False)
        points.setflags(write=False)
        assert len(self.select(votes, points, 5).indices)  # a write would have raised
