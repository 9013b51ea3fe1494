"""The selectors GAPE is compared with: ranking, subsampling, k-medoids."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare

import strategies
from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Indices, NoisyVotes, Points
from gape.selection.kmedoids import k_medoids
from gape.selection.ranking import ranking
from gape.selection.subsampling import subsampling


class TestRanking:
    def test_most_votes_first(self) -> None:
        assert ranking(np.array([3, -2, 9, 4]), 3).tolist() == [2, 3, 0]

    def test_ties_go_to_the_lowest_index(self) -> None:
        assert ranking(np.array([5, 7, 5, 7, 5]), 4).tolist() == [1, 3, 0, 2]
        assert ranking(np.zeros(40, dtype=np.int64), 9).tolist() == list(range(9))

    def test_everyone(self) -> None:
        assert ranking(np.array([-1, -3, -2]), 3).tolist() == [0, 2, 1]

    @given(arrays(np.int64, st.integers(1, 30), elements=st.integers(-4, 4)), st.data())
    @settings(max_examples=100)
    def test_equals_sorting_by_votes_then_index(self, votes: NoisyVotes, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, len(votes)))
        expected = sorted(range(len(votes)), key=lambda i: (-votes[i], i))[:size]
        assert ranking(votes, size).tolist() == expected

    @pytest.mark.parametrize("size", [0, -1, 4])
    def test_refuses_sizes_it_cannot_fill(self, size: int) -> None:
        with pytest.raises(InputError, match=f"between 1 and 3 of 3 candidates, got size {size};"):
            ranking(np.array([1, 2, 3]), size)


class TestSubsampling:
    votes = np.array([1, 0, 6, -4, 3, 0, 10])

    def test_draws_in_proportion_to_the_positive_votes(self) -> None:
        result = subsampling(self.votes, 40_000, np.random.default_rng(0))
        assert not result.uniform
        counts = np.bincount(result.indices, minlength=7)
        positive = self.votes > 0
        assert counts[~positive].sum() == 0
        expected = 40_000 * self.votes[positive] / self.votes[positive].sum()
        assert chisquare(counts[positive], expected).pvalue > 1e-4

    def test_never_picks_what_is_not_positive_while_anything_is(self) -> None:
        votes = np.array([0, -9, 1, -1, 0])
        for seed in range(20):
            assert set(subsampling(votes, 50, np.random.default_rng(seed)).indices.tolist()) == {2}

    @pytest.mark.parametrize("votes", [np.zeros(8, dtype=np.int64), np.full(8, -3), np.arange(-7, 1)])
    def test_is_uniform_over_all_where_nothing_is_positive_and_says_so(self, votes: NoisyVotes) -> None:
        result = subsampling(votes, 8_000, np.random.default_rng(1))
        assert result.uniform
        counts = np.bincount(result.indices, minlength=8)
        assert counts.min() > 0
        assert chisquare(counts).pvalue > 1e-4

    def test_draws_are_independent_of_each_other(self) -> None:
        # With two equal candidates the next draw agrees with the last half of the time.
        drawn = subsampling(np.array([1, 1]), 10_000, np.random.default_rng(2)).indices
        agreements = np.mean(drawn[1:] == drawn[:-1])
        assert abs(agreements - 0.5) < 0.025  # five standard deviations

    def test_more_draws_than_candidates(self) -> None:
        assert len(subsampling(np.array([2, 1]), 9, np.random.default_rng(0)).indices) == 9

    def test_the_seed_decides(self) -> None:
        first, again, other = (subsampling(self.votes, 30, np.random.default_rng(seed)).indices for seed in (5, 5, 6))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_votes_are_left_alone(self) -> None:
        votes = self.votes.copy()
        subsampling(votes, 5, np.random.default_rng(0))
        np.testing.assert_array_equal(votes, self.votes)

    def test_errors(self) -> None:
        with pytest.raises(InputError, match="got size 0 of 7"):
            subsampling(self.votes, 0, np.random.default_rng(0))
        with pytest.raises(InputError, match="got size 3 of 0"):
            subsampling(self.votes[:0], 3, np.random.default_rng(0))


def k_median(points: Points, votes: NoisyVotes, medoids: Indices) -> float:
    return float(np.maximum(votes, 0) @ distances(points, points[medoids]).min(axis=1))


def best_medoids(points: Points, votes: NoisyVotes, size: int) -> Indices:
    """Try every set of candidates with votes."""
    voted = np.flatnonzero(votes > 0)
    return min((np.array(s) for s in combinations(voted, size)), key=lambda s: k_median(points, votes, s))


def clustered(seed: int, clusters: int, each: int) -> tuple[Points, NoisyVotes]:
    rng = np.random.default_rng(seed)
    centres = 100 * np.arange(clusters)[:, None] * np.array([1.0, 0.5])
    points = np.repeat(centres, each, axis=0) + rng.standard_normal((clusters * each, 2))
    order = rng.permutation(len(points))
    return points[order].astype(np.float32), rng.integers(1, 6, len(points))


class TestKMedoids:
    @pytest.mark.parametrize("seed", range(20))
    def test_finds_the_optimum_of_well_separated_clusters(self, seed: int) -> None:
        points, votes = clustered(seed, clusters=2 + seed % 2, each=5)
        result = k_medoids(points, votes, 2 + seed % 2)
        best = best_medoids(points, votes, 2 + seed % 2)
        assert result.cost == pytest.approx(k_median(points, votes, best), rel=1e-12)
        assert set(result.indices.tolist()) == set(best.tolist())

    def test_finds_a_cluster_with_few_votes(self) -> None:
        rng = np.random.default_rng(0)
        points = rng.standard_normal((32, 2), dtype=np.float32)
        points[30:] += 80
        assert np.any(k_medoids(points, np.full(32, 2), 2).indices >= 30)

    def test_one_medoid_is_the_best_of_all(self) -> None:
        rng = np.random.default_rng(1)
        for _ in range(20):
            points, votes = strategies.random_points(rng, 12, "cloud"), rng.integers(0, 5, 12)
            result = k_medoids(points, votes, 1)
            best = best_medoids(points, votes, 1)
            assert result.cost == pytest.approx(k_median(points, votes, best), rel=1e-12)

    def test_the_cost_is_that_of_its_medoids_and_no_single_cluster_can_lower_it(self) -> None:
        rng = np.random.default_rng(2)
        for _ in range(50):
            points, votes = strategies.random_points(rng, 25, "cloud"), rng.integers(-3, 8, 25)
            result = k_medoids(points, votes, 4)
            assert result.cost == pytest.approx(k_median(points, votes, result.indices), rel=1e-12)
            assert 1 <= result.iterations < 300
            cluster = np.argmin(distances(points, points[result.indices]), axis=1)
            for position, medoid in enumerate(result.indices):
                members = np.flatnonzero((cluster == position) & (votes > 0))
                rho = distances(points[members], points[members])
                within = votes[members] @ rho
                assert within[members == medoid] == pytest.approx(within.min(), rel=1e-12)

    def test_how_negative_a_vote_is_means_nothing(self) -> None:
        rng = np.random.default_rng(3)
        for _ in range(20):
            points, votes = strategies.random_points(rng, 20, "cloud"), rng.integers(-9, 6, 20)
            result, floored = k_medoids(points, votes, 3), k_medoids(points, np.maximum(votes, 0), 3)
            np.testing.assert_array_equal(result.indices, floored.indices)
            assert result.cost == floored.cost

    @pytest.mark.parametrize("layout", ["duplicates", "one place", "lattice"])
    def test_medoids_are_distinct_even_where_points_coincide(self, layout: str) -> None:
        rng = np.random.default_rng(4)
        for _ in range(30):
            points, votes = strategies.random_points(rng, 12, layout), rng.integers(-3, 6, 12)
            size = int(rng.integers(1, 13))
            assert len(set(k_medoids(points, votes, size).indices.tolist())) == size

    def test_candidates_without_votes_are_the_last_resort(self) -> None:
        rng = np.random.default_rng(5)
        for layout in strategies.LAYOUTS * 10:
            points, votes = strategies.random_points(rng, 12, layout), rng.integers(-4, 5, 12)
            size = int(rng.integers(1, 13))
            voted_for = np.count_nonzero(votes[k_medoids(points, votes, size).indices] > 0)
            assert voted_for == min(size, np.count_nonzero(votes > 0))

    def test_everyone(self) -> None:
        points, votes = clustered(0, clusters=2, each=3)
        result = k_medoids(points, votes, 6)
        assert sorted(result.indices) == list(range(6))
        assert result.cost == 0

    def test_no_votes_still_gives_medoids(self) -> None:
        points, votes = clustered(0, clusters=2, each=3)
        result = k_medoids(points, -votes, 3)
        assert len(set(result.indices.tolist())) == 3
        assert result.cost == 0

    @pytest.mark.parametrize("size", [0, -2, 7])
    def test_refuses_sizes_it_cannot_fill(self, size: int) -> None:
        points, votes = clustered(0, clusters=2, each=3)
        with pytest.raises(InputError, match=f"between 1 and 6 of 6 candidates, got size {size};"):
            k_medoids(points, votes, size)
