import numpy as np
import pytest

import strategies
from gape.core.errors import InputError
from gape.core.types import Counts, Points
from gape.selection import sharing
from gape.selection.sharing import estimate, nearest_others, reference_nearest_others
from gape.voting.nearest import nearest_votes


def clusters(rng: np.random.Generator, count: int, shares: tuple[float, ...], width: int = 24) -> Points:
    """Points of unit length round as many centres as there are shares; the centres are always the same."""
    centres = np.random.default_rng(5).normal(size=(len(shares), width))
    own = rng.choice(len(shares), count, p=np.array(shares) / sum(shares))
    points = centres[own] + 0.7 * rng.normal(size=(count, width))
    found: Points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return found


def election(seed: int, sigma: float, shares: tuple[float, ...]) -> tuple[Counts, Counts, Points]:
    """Noisy votes, the exact votes of as many records that did not vote, and the candidates, 100 or more a cluster."""
    rng = np.random.default_rng(seed)
    candidates = clusters(rng, 800, (1.0,) * len(shares))
    votes, others = (nearest_votes(clusters(rng, 4000, shares), candidates) for _ in range(2))
    return votes + np.rint(sigma * rng.normal(size=len(votes))).astype(np.int64), others, candidates


class TestNearestOthers:
    @pytest.mark.parametrize("width", [2, 40])
    @pytest.mark.parametrize("count", [1, 5, 128])
    def test_agree_with_the_reference(self, width: int, count: int) -> None:
        points = np.random.default_rng(width).normal(size=(1200, width)).astype(np.float32)
        found, expected = nearest_others(points, count), reference_nearest_others(points, count)
        ours, theirs = (np.linalg.norm(points[:, None] - points[near], axis=2) for near in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)  # two that float32 cannot tell apart may change places
        assert np.mean(found == expected) > 0.99
        assert not (found == np.arange(len(points))[:, None]).any()

    @pytest.mark.parametrize("v", [1, 2, 4])
    def test_all_others_where_there_are_fewer(self, v: int) -> None:
        points = strategies.random_points(np.random.default_rng(v), v, "cloud")
        near = nearest_others(points, 5)
        np.testing.assert_array_equal(near, reference_nearest_others(points, 5))
        assert near.shape == (v, v - 1)

    def test_threads_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points = np.random.default_rng(0).normal(size=(1500, 30)).astype(np.float32)
        monkeypatch.setattr(sharing, "cores", lambda: 1)
        alone = nearest_others(points, 20)
        monkeypatch.setattr(sharing, "cores", lambda: 4)
        np.testing.assert_array_equal(nearest_others(points, 20), alone)


class TestEstimate:
    @pytest.mark.parametrize("shares", [(1.0,) * 8, (50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 1.0, 0.0)])
    @pytest.mark.parametrize("sigma", [0.0, 5.0, 15.0])
    def test_nearer_to_the_votes_of_other_records_than_its_input(self, sigma: float, shares: tuple[float, ...]) -> None:
        for seed in range(3):
            votes, others, points = election(seed, sigma, shares)
            error = np.mean((estimate(votes, points, sigma).counts - others) ** 2)
            assert error < np.mean((np.maximum(votes, 0) - others) ** 2)
            assert error < np.var(others)  # which is the error of their mean

    def test_neighbours_without_votes_speak_against_a_candidate(self) -> None:
        shares = (1.0, 1.0, 0.0, 0.0)
        votes, others, points = election(0, 15.0, shares)
        found = estimate(votes, points, 15.0)
        empty = others[reference_nearest_others(points, 32)].sum(axis=1) == 0
        assert empty.sum() > 200
        assert found.counts[empty].mean() < 0.25 * found.mean
        assert found.of_neighbours.sum() > 0.3

    def test_the_formula(self) -> None:
        sigma = 6.0
        votes, _, points = election(1, sigma, (4.0, 2.0, 1.0))
        found = estimate(votes, points, sigma)
        near = reference_nearest_others(points, 128)
        popular = np.array([(near[:, :5] == i).sum() / 5 for i in range(len(points))])
        local = np.full(len(points), found.mean)
        for k, slope in zip((8, 32, 128), found.of_neighbours, strict=True):
            means = votes[near[:, :k]].mean(axis=1)
            least = (sigma**2 + found.mean) / k
            signal = max(0.0, means.var() * (1 - 2 * np.sqrt(2 * k / len(points))) - least)
            local += slope * signal / (signal + least) * (means - means.mean())
        predicted = np.maximum(local, 0) * (1 + found.of_popularity * (popular - 1))
        expected = predicted + found.trust * (votes - predicted)
        np.testing.assert_allclose(found.counts, np.maximum(expected, 0), atol=1e-9)
        assert found.mean == votes.mean()
        assert 0 < found.trust < 1

    def test_noise_alone_is_not_believed(self) -> None:
        rng = np.random.default_rng(3)
        points = clusters(rng, 800, (1.0,) * 8)
        votes = np.rint(100 * rng.normal(size=800)).astype(np.int64)
        found = estimate(votes, points, 100.0)
        assert found.trust < 0.01
        assert found.mean >= 100 / np.sqrt(800)
        np.testing.assert_array_equal(found.of_neighbours, np.zeros(3))
        assert found.counts.std() < 0.05 * votes.std()

    def test_the_order_of_candidates_does_not_matter(self) -> None:
        votes, _, points = election(2, 5.0, (3.0, 1.0))
        order = np.random.default_rng(0).permutation(len(votes))
        there, back = estimate(votes, points, 5.0), estimate(votes[order], points[order], 5.0)
        np.testing.assert_allclose(back.counts, there.counts[order], atol=1e-9)

    def test_a_repeated_point_gets_nothing_and_changes_nothing(self) -> None:
        votes, _, points = election(2, 5.0, (3.0, 1.0))
        alone = estimate(votes, points, 5.0).counts
        more = estimate(np.concatenate([votes, [900, 50]]), np.concatenate([points, points[[7, 7]]]), 5.0).counts
        np.testing.assert_array_equal(more, np.concatenate([alone, [0.0, 0.0]]))

    def test_no_votes_and_no_noise(self) -> None:
        points = strategies.random_points(np.random.default_rng(0), 9, "cloud")
        np.testing.assert_array_equal(estimate(np.zeros(9, dtype=np.int64), points, 0.0).counts, np.zeros(9))

    @pytest.mark.parametrize("sigma", [-1.0, np.inf, np.nan])
    def test_refuses_noise_that_is_none(self, sigma: float) -> None:
        with pytest.raises(InputError, match="sigma must be finite"):
            estimate(np.ones(3, dtype=np.int64), np.eye(3, dtype=np.float32), sigma)
