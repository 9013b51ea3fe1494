"""Diagnostics against closed forms and brute force."""

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

from gape.core.errors import InputError
from gape.evaluation.diagnostics.measures import (
    doubling_dimension,
    intrinsic_dimension,
    moments,
    reachability,
    warm_start,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestIntrinsicDimension:
    def test_directions_of_equal_variance_count_alike(self) -> None:
        basis = np.linalg.qr(rng().normal(size=(40, 10)))[0]
        sample = rng(1).normal(size=40)
        variations = sample + np.concatenate([basis.T, -basis.T])  # 20 differences, ten singular values of sqrt 2
        found = intrinsic_dimension(sample, variations)
        assert found.dimension == 8
        np.testing.assert_allclose(found.singular_values[:10], np.sqrt(2))
        assert intrinsic_dimension(sample, variations, share=0.81).dimension == 9
        assert intrinsic_dimension(sample, variations, share=1.0).dimension == 10

    def test_a_common_shift_is_a_direction(self) -> None:
        sample = np.zeros(5)
        assert intrinsic_dimension(sample, np.ones((30, 5))).dimension == 1

    def test_singular_values_are_those_of_the_differences(self) -> None:
        sample, variations = rng().normal(size=6), rng(1).normal(size=(50, 6))
        gram = (variations - sample).T @ (variations - sample)
        found = intrinsic_dimension(sample, variations)
        np.testing.assert_allclose(found.singular_values**2, np.sort(np.linalg.eigvalsh(gram))[::-1])

    def test_variations_that_do_not_vary(self) -> None:
        with pytest.raises(InputError, match="equal to the sample"):
            intrinsic_dimension(np.ones(3), np.ones((4, 3)))

    @pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
    def test_a_share_that_is_none(self, share: float) -> None:
        with pytest.raises(InputError, match="share must"):
            intrinsic_dimension(np.zeros(2), np.eye(2), share)


class TestReachability:
    def test_an_isotropic_gaussian_has_its_dimension_for_rank(self) -> None:
        seen = reachability(rng().normal(size=(20_000, 12)), 5 * np.eye(12)[3], rng(1))
        assert seen.effective_rank.low <= 12 <= seen.effective_rank.high
        assert seen.effective_rank.high - seen.effective_rank.low < 1
        c = norm.ppf(2 / 3) ** 2  # 0.1855: where a third of a Gaussian begins
        assert seen.anticoncentration.low <= c <= seen.anticoncentration.high
        assert seen.reachable

    def test_the_rank_is_that_of_the_direction(self) -> None:
        variations = rng().normal(size=(20_000, 3)) * np.sqrt([6.0, 3.0, 1.0])
        for axis, rank in enumerate([10 / 6, 10 / 3, 10.0]):
            seen = reachability(variations + 2.0, 2.0 + 40 * np.eye(3)[axis], rng(1))
            assert seen.effective_rank.value == pytest.approx(rank, rel=0.05)

    def test_where_nothing_moves_nothing_is_reachable(self) -> None:
        flat = np.concatenate([rng().normal(size=(500, 2)), np.zeros((500, 1))], axis=1)
        target = flat.mean(axis=0) + np.array([0.0, 0.0, 1.0])
        seen = reachability(flat, target, rng(1))
        assert not seen.reachable
        assert np.isinf(seen.effective_rank.value)
        assert seen.anticoncentration.value == 0

    def test_rare_steps_do_not_anticoncentrate(self) -> None:
        along = np.where(np.arange(1000) < 100, 9.0, -1.0)  # mean 0; nine in ten go away from the target
        steps = np.stack([along, rng().normal(size=1000)], axis=1)
        seen = reachability(steps, np.array([100.0, steps[:, 1].mean()]), rng(1))
        assert seen.anticoncentration.value == 0
        assert not seen.reachable

    def test_the_constant_is_at_most_two(self) -> None:
        along = np.where(np.arange(900) < 301, 2.0, -1.005)
        steps = np.stack([along, np.zeros(900)], axis=1)
        assert reachability(steps, np.array([50.0, 0.0]), rng()).anticoncentration.value <= 2

    def test_it_is_the_same_for_the_same_seed(self) -> None:
        points = rng().normal(size=(60, 4))
        assert reachability(points, np.ones(4), rng(5)) == reachability(points, np.ones(4), rng(5))

    def test_refusals(self) -> None:
        with pytest.raises(InputError, match="at least 3"):
            reachability(np.eye(2), np.ones(2), rng())
        with pytest.raises(InputError, match="is the mean"):
            reachability(np.array([[1.0], [-1.0], [0.0]]), np.zeros(1), rng())


class TestMoments:
    def test_by_hand(self) -> None:
        seen = moments(np.array([1.0, 0.0]), np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0], [1.0, 1.0]]))
        assert seen.bias == 1.0  # the mean is (1, 1)
        assert seen.variance == pytest.approx(8 / 3)  # squared steps 2, 2, 4, 0 over N - 1
        assert seen.bias_error == pytest.approx(np.sqrt(8 / 3 / 4))
        assert seen.variance_error == pytest.approx(np.std([2, 2, 4, 0], ddof=1) / 2)

    def test_on_a_line_it_is_the_t_test(self) -> None:
        for seed in range(5):
            values = rng(seed).normal(size=30)
            seen = moments(np.array([0.4]), values[:, None])
            assert seen.p_value == pytest.approx(ttest_1samp(values, 0.4).pvalue, rel=1e-6)

    @pytest.mark.parametrize(
        "variances", [np.ones(200), np.array([1.0, *[0.01] * 99]), 0.5 ** np.arange(12)], ids=["many", "one", "falling"]
    )
    def test_without_bias_small_p_values_are_as_rare_as_they_say(self, variances: np.ndarray) -> None:
        trials = 800
        centre = rng(9).normal(size=len(variances))
        p_values = np.array(
            [
                moments(centre, centre + rng(seed).normal(size=(40, len(variances))) * np.sqrt(variances)).p_value
                for seed in range(trials)
            ]
        )
        for level in (0.01, 0.05, 0.2):
            spread = np.sqrt(level * (1 - level) / trials)
            assert level / 4 - spread <= np.mean(p_values < level) <= 1.6 * level + 4 * spread

    def test_a_bias_is_found_once_it_exceeds_its_error(self) -> None:
        shift = np.full(50, 0.1)  # of length 0.71, where the mean of 200 variations errs by sqrt(50 / 200) = 0.5
        seen = [moments(np.zeros(50), shift + rng(seed).normal(size=(200, 50))) for seed in range(20)]
        assert sum(found.biased for found in seen) >= 17
        fewer = [moments(np.zeros(50), shift + rng(seed).normal(size=(10, 50))) for seed in range(20)]
        assert sum(found.biased for found in fewer) <= 4

    def test_variations_that_are_all_alike(self) -> None:
        still, moved = moments(np.ones(3), np.ones((5, 3))), moments(np.zeros(3), np.ones((5, 3)))
        assert (still.biased, still.variance, still.p_value) == (False, 0.0, 1.0)
        assert (moved.biased, moved.variance, moved.p_value) == (True, 0.0, 0.0)
        with pytest.raises(InputError, match="at least 3"):
            moments(np.zeros(2), np.eye(2))


class TestWarmStart:
    def test_by_hand(self) -> None:
        start, targets = np.array([[0.0], [10.0]]), np.array([[1.0], [8.0], [14.0]])
        seen = warm_start(start, targets, separation=16.0)
        assert (seen.samples, seen.targets, seen.farthest, seen.separation_needed) == (2, 3, 4.0, 32.0)
        assert seen.share == pytest.approx(2 / 3)  # 1 and 8 lie within R/8 = 2 of a sample
        assert warm_start(start, targets, separation=32.0).share == 1

    def test_without_r_it_is_the_widest_that_the_points_allow(self) -> None:
        seen = warm_start(np.array([[0.0]]), np.array([[1.0], [5.0]]))
        assert seen.separation == 6.0  # twice from the mean, 2, to the farthest, 5
        assert seen.share == 0
        with pytest.raises(InputError, match="points that differ"):
            warm_start(np.ones((2, 1)), np.ones((3, 1)))


class TestDoublingDimension:
    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_it_grows_with_the_dimension_of_a_cube_whatever_surrounds_it(self, k: int) -> None:
        flat = rng().uniform(size=(1500, k))
        inside = flat @ np.linalg.qr(rng(1).normal(size=(20, k)))[0].T
        seen = doubling_dimension(inside, rng(2))
        assert seen.low <= seen.value <= seen.high
        assert k <= seen.high <= 3 * k + 1
        lower = doubling_dimension(rng().uniform(size=(1500, k + 2)), rng(2))
        assert seen.value < lower.value

    def test_a_line_by_hand(self) -> None:
        # Five points 0..4: all of them lie within 4 of an end, 0 and 4 are 4 apart, 2 is 2 from both: 0, 4 cover all.
        seen = doubling_dimension(np.arange(5.0)[:, None], rng(), centres=5)
        assert seen.high <= 2

    def test_points_that_coincide(self) -> None:
        with pytest.raises(InputError, match="coincide"):
            doubling_dimension(np.ones((4, 2)), rng())
        with pytest.raises(InputError, match="at least 2"):
            doubling_dimension(np.ones((1, 2)), rng())


@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros(3), np.array([[np.nan, 0.0]])])
def test_points_that_are_none(points: np.ndarray) -> None:
    with pytest.raises(InputError, match="finite rows"):
        doubling_dimension(points, rng())
