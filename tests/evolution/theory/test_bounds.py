"""The lemmas by Monte Carlo, and the terms of the bound against direct computation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import diags, vstack
from scipy.stats import norm

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Floats
from gape.evolution.theory import (
    contraction,
    contraction_term,
    error_bound,
    expected_contraction,
    finest_level,
    gaussian_complexity,
    noise_term,
    plan_gape,
    plan_worst_case,
    sampling_term,
)
from gape.metrics.transport import wasserstein1
from gape.selection.bounded_lipschitz import bounded_lipschitz_distance

GAUSSIAN = float(norm.ppf(2 / 3)) ** 2  # c of a Gaussian: a third of it lies sqrt(c) deviations above its mean
DRAWS = 40_000

Steps = Callable[[float, int, np.random.Generator], Floats]  # s^2, draws -> (draws, d), of mean 0 and trace s^2


def isotropic(dimension: int) -> Steps:
    return lambda scale, draws, rng: rng.normal(size=(draws, dimension)) * math.sqrt(scale / dimension)


def uneven(scale: float, draws: int, rng: np.random.Generator) -> Floats:
    """The first axis has a tenth of the variance, the other ten the rest."""
    variances = scale * np.array([0.1, *[0.09] * 10])
    return np.asarray(rng.normal(size=(draws, 11)) * np.sqrt(variances))


def three_steps(scale: float, draws: int, rng: np.random.Generator) -> Floats:
    """The lemma's own worst case on a line: exactly a third of the steps go towards the target."""
    return np.asarray(math.sqrt(1.5 * scale) * rng.integers(-1, 2, size=(draws, 1)))


def rare_jumps(scale: float, draws: int, rng: np.random.Generator) -> Floats:
    """A line beside a second axis with rare large jumps, which Markov's inequality in the proof has to allow for."""
    along = math.sqrt(0.75 * scale) * rng.integers(-1, 2, size=draws)  # half of the variance: lambda = 2
    jumps = rng.choice([-1.0, 0.0, 1.0], size=draws, p=[0.02, 0.96, 0.02]) * math.sqrt(scale / 2 / 0.04)
    return np.stack([along, jumps], axis=1)


CASES = {
    "line": (isotropic(1), 1.0, GAUSSIAN),
    "plane": (isotropic(2), 2.0, GAUSSIAN),
    "20 dimensions": (isotropic(20), 20.0, GAUSSIAN),
    "100 dimensions": (isotropic(100), 100.0, GAUSSIAN),
    "uneven": (uneven, 10.0, GAUSSIAN),
    "three steps": (three_steps, 1.0, 1.5),
    "rare jumps": (rare_jumps, 2.0, 1.5),
}


def squared_after(steps: Steps, scale: float, distance: float, seed: int, draws: int = DRAWS) -> Floats:
    """Squared distances to a target at `distance` along the first axis, after one step each from the origin."""
    moved = steps(scale, draws, np.random.default_rng(seed))
    moved[:, 0] -= distance
    return np.asarray(np.sum(moved**2, axis=1))


class TestContraction:
    def test_by_hand(self) -> None:
        bound = contraction(2.0, 4, 0.5)
        assert bound.scales == (0.5 * 4 / 1600, 0.5 * 4 / 800)
        assert bound.squared_factor == 1 - 0.005
        assert bound.bound == pytest.approx(2 * math.sqrt(0.995))
        assert bound.probability == 0.25
        assert bound.failure(3) == 0.75**3

    @pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("distance", [0.01, 3.0])
    @pytest.mark.parametrize("case", CASES)
    def test_a_quarter_of_the_variations_come_nearer(self, case: str, distance: float, place: float) -> None:
        steps, rank, c = CASES[case]
        bound = contraction(distance, rank, c)
        scale = bound.scales[0] + place * (bound.scales[1] - bound.scales[0])
        near = np.mean(squared_after(steps, scale, distance, seed=1) <= bound.squared_factor * distance**2)
        assert near >= bound.probability + 4 * math.sqrt(0.25 * 0.75 / DRAWS)

    def test_the_conditions_of_the_lemma_are_needed(self) -> None:
        # At ten thousand times the scale, in 100 dimensions, or of a generator that hardly moves towards the target.
        steps, rank, c = CASES["100 dimensions"]
        bound = contraction(1.0, rank, c)
        assert np.mean(squared_after(steps, 1e4 * bound.scales[1], 1.0, 1) <= bound.bound**2) < 0.2
        better = contraction(1.0, 1.0, c)  # as if its effective rank were 1
        assert np.mean(squared_after(steps, better.scales[1], 1.0, 1) <= better.bound**2) < 0.2

    def test_the_constant_is_within_a_factor_of_what_holds(self) -> None:
        # Three steps: a third comes nearer by exactly sqrt(1.5) s, so the lemma's 1/25 can be at most this.
        bound = contraction(1.0, 1.0, 1.5)
        for scale in bound.scales:
            nearer = 1 - (1 - math.sqrt(1.5 * scale)) ** 2
            assert 1.5 / 25 <= nearer <= 4 * 1.5 / 25

    def test_copies_of_the_theorem_make_failure_rare(self) -> None:
        plan = plan_gape(
            2000, 1.0, 1e-5, samples=4, separation=100.0, diameter=0.02, effective_rank=2, anticoncentration=0.18,
            failure_probability=0.1, rounds=3,
        )  # fmt: skip
        assert contraction(1.0, 2, 0.18).failure(plan.copies) <= 0.1 / (3 * 3 * 2000)

    @pytest.mark.parametrize("arguments", [(0.0, 1, 1), (1.0, 0.5, 1), (1.0, 1, 2.5), (1.0, 1, 0), (math.inf, 1, 1)])
    def test_refusals(self, arguments: tuple[float, float, float]) -> None:
        with pytest.raises(InputError, match="must be"):
            contraction(*arguments)


class TestAllScales:
    def test_by_hand(self) -> None:
        assert finest_level(0.1, 2, 0.5) == 17  # log2(400 / 0.005) = log2 80000 = 16.29
        assert expected_contraction(0.5, 0.1, 2, 0.5) == pytest.approx(0.25 * (1 - 0.0025))
        assert expected_contraction(0.1, 0.2, 2, 0.5) == pytest.approx(0.04)
        with pytest.raises(InputError, match="diameter 1"):
            expected_contraction(1.5, 0.1, 2, 0.5)

    @pytest.mark.parametrize("distance", [0.02, 0.2, 0.9])
    @pytest.mark.parametrize("case", ["line", "plane", "20 dimensions", "three steps"])
    def test_the_best_candidate_comes_nearer_on_average(self, case: str, distance: float) -> None:
        steps, rank, c = CASES[case]
        alpha, draws = 0.01, 10_000
        best = np.full(draws, distance**2)  # the sample itself stays a candidate
        for level in range(finest_level(alpha, rank, c) + 1):
            best = np.minimum(best, squared_after(steps, 2.0**-level, distance, level, draws))
        bound = expected_contraction(distance, alpha, rank, c)
        assert best.mean() + 4 * best.std() / math.sqrt(draws) <= bound < distance**2

    def test_one_scale_alone_does_not_do(self) -> None:
        steps, rank, c = CASES["20 dimensions"]
        best = np.minimum(0.02**2, squared_after(steps, 1.0, 0.02, 0))
        assert best.mean() > expected_contraction(0.02, 0.01, rank, c)


@pytest.mark.parametrize("dimension", [1, 3])
def test_term_a_holds_for_a_round_of_variations(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    width = 1 / math.sqrt(dimension)  # a cube of diameter 1
    records, samples = rng.uniform(0, width, size=(30, dimension)), rng.uniform(0, width / 4, size=(5, dimension))
    alpha = 0.02
    rank, c = float(dimension), GAUSSIAN
    after = []
    for _ in range(20):
        steps = [
            samples + isotropic(dimension)(2.0**-level, len(samples), rng)
            for level in range(finest_level(alpha, rank, c) + 1)
        ]
        candidates = np.concatenate([samples, *steps])
        voted = candidates[distances(records, candidates).argmin(axis=1)]  # the histogram, a row for each vote
        after.append(wasserstein1(records, voted))
    bound = contraction_term(wasserstein1(records, samples), alpha, rank, c)
    assert np.mean(after) + 4 * np.std(after) / math.sqrt(len(after)) <= bound
    assert bound == pytest.approx((1 - c / (200 * rank)) * wasserstein1(records, samples) + alpha)


def line_complexity(points: Floats, trials: int, seed: int, repeats: int = 1) -> Floats:
    """sup_f (1/n) sum xi_i f(z_i) on a line over bounded 1-Lipschitz f, by linear programming, for each draw of xi.

    Each point counts as `repeats` of the z_i, whose xi_i add up.
    """
    n, rng = len(points), np.random.default_rng(seed)
    slope = diags([np.ones(n - 1), -np.ones(n - 1)], [0, 1], shape=(n - 1, n))  # only neighbours bind on a line
    gaps = np.diff(points)
    found = []
    for _ in range(trials):
        xi = math.sqrt(repeats) * rng.standard_normal(n)
        solved = linprog(-xi / (n * repeats), vstack([slope, -slope]), np.concatenate([gaps, gaps]), bounds=(-1, 1))
        assert solved.success
        found.append(-solved.fun)
    return np.array(found)


class TestGaussianComplexity:
    @pytest.mark.parametrize(("n", "k"), [(10**5, 1.0), (10**7, 2.0), (10**9, 3.0), (10**13, 4.5)])
    def test_it_is_the_infimum_of_the_chaining_bound(self, n: int, k: float) -> None:
        # On a grid: the integral by the trapezoid rule, the infimum by trying every lower end.
        radii = np.geomspace(1e-4, 1.0, 200_001)
        integrand = np.sqrt((5 / radii) ** k * np.log(8 / radii) / n)
        pieces = (integrand[1:] + integrand[:-1]) / 2 * np.diff(radii)
        integral = np.append(np.cumsum(pieces[::-1])[::-1], 0.0)
        least = 12 * np.min(radii + integral)
        assert least < 1
        assert gaussian_complexity(n, k) == pytest.approx(least, rel=1e-5)

    def test_it_falls_at_the_rate_of_the_proposition(self) -> None:
        for k, slope in ((1, -1 / 2), (3, -1 / 3), (4, -1 / 4)):
            n = 10**16
            fall = math.log(gaussian_complexity(100 * n, k) / gaussian_complexity(n, k)) / math.log(100)
            assert slope - 0.005 <= fall <= slope + 0.04  # a little slower: logarithms

    def test_few_points_or_many_dimensions_say_nothing(self) -> None:
        assert gaussian_complexity(10, 2) == 1
        assert gaussian_complexity(10**12, 768) == 1
        with pytest.raises(InputError, match="a line has dimension 1"):
            gaussian_complexity(0, 1)
        with pytest.raises(InputError, match="a line has dimension 1"):
            gaussian_complexity(5, math.inf)

    def test_it_bounds_what_functions_on_a_line_reach(self) -> None:
        for repeats in (100, 10_000):
            reached = line_complexity(np.linspace(0, 1, 200), trials=60, seed=0, repeats=repeats).mean()
            bound = gaussian_complexity(200 * repeats, 1)
            assert bound < 1
            # Above what is reached, at every n by the same factor: the price of the constants of chaining.
            assert reached <= bound <= 200 * reached


class TestNoiseAndSampling:
    def test_by_hand(self) -> None:
        complexity = gaussian_complexity(10**7, 2)
        assert noise_term(10**7, 1e-6, 2) == pytest.approx(10 * complexity)
        assert sampling_term(10**7, 2) == pytest.approx(math.sqrt(2 * math.pi) * complexity)

    def test_noise_on_a_histogram_costs_n_sigma_times_the_complexity(self) -> None:
        # Lemma "noisy-histogram-error" for given points, both sides by Monte Carlo and by two solvers.
        n, sigma, trials = 40, 0.03, 200
        points = np.sort(np.random.default_rng(0).uniform(size=n))
        rng = np.random.default_rng(1)
        places = points[:, None].astype(np.float32)
        moved = [bounded_lipschitz_distance(places, sigma * rng.standard_normal(n)) for _ in range(trials)]
        complexity = line_complexity(points, trials, seed=2)
        gap = np.mean(moved) - n * sigma * complexity.mean()
        spread = math.hypot(np.std(moved), n * sigma * complexity.std()) / math.sqrt(trials)
        assert abs(gap) <= 4 * spread
        assert np.mean(moved) <= noise_term(n, sigma, 1)

    @pytest.mark.parametrize("n", [50, 400])
    def test_draws_are_as_near_as_the_lemma_says(self, n: int) -> None:
        # Lemma "subsampling-error" with the complexity itself instead of its bound, for the uniform law on [0, 1].
        rng = np.random.default_rng(n)
        grid = np.linspace(0.0005, 0.9995, 1000)
        away = [np.abs(np.mean(np.sort(rng.uniform(size=n)) < grid[:, None], axis=1) - grid).mean() for _ in range(200)]
        complexity = line_complexity(np.linspace(0, 1, n), trials=60, seed=n).mean()
        assert np.mean(away) <= math.sqrt(2 * math.pi) * complexity
        assert np.mean(away) <= sampling_term(n, 1)
        assert np.mean(away) * 10 >= math.sqrt(2 * math.pi) * complexity  # and no more than ten times too careful


class TestErrorBound:
    def test_it_is_what_the_recursion_comes_to(self) -> None:
        plan = plan_worst_case(10**9, 1.0, 1e-9, doubling_dimension=2, effective_rank=2, anticoncentration=1.5)
        bound = error_bound(plan, start=0.7)
        gamma = 1.5 / 400
        added = 2 * noise_term(plan.candidates, plan.sigma, 2) + sampling_term(plan.samples, 2)
        error = 0.7
        for _ in range(plan.rounds):
            error = contraction_term(error, plan.resolution, 2, 1.5) + added
        summed = bound.start + bound.resolution + bound.noise + bound.sampling
        # The paper bounds the geometric series by its limit, which adds (1 - gamma)^T / gamma of what a round adds.
        rest = (1 - gamma) ** plan.rounds / gamma * (plan.resolution + added)
        assert summed == pytest.approx(error + rest, rel=1e-9)

    def test_constants_leave_nothing_at_practical_sizes_and_something_far_beyond(self) -> None:
        constants = {"doubling_dimension": 2, "effective_rank": 1, "anticoncentration": 2}
        small = error_bound(plan_worst_case(10**6, 1.0, 1e-9, **constants))
        assert small.total == 1
        assert not small.says_something
        large = error_bound(plan_worst_case(10**19, 1.0, 1e-22, **constants))
        assert large.says_something
        assert large.total == pytest.approx(large.start + large.resolution + large.noise + large.sampling)
