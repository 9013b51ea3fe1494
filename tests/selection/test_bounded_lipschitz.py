from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import linprog
from scipy.sparse import coo_array

import strategies
from contracts.selector import SelectorContract
from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Selector
from gape.core.types import Floats, Points
from gape.selection.bounded_lipschitz import (
    BoundedLipschitz,
    BoundedLipschitzProjection,
    bounded_lipschitz_distance,
    bounded_lipschitz_projection,
)

SPREADS = (0.01, 0.3, 1.0, 4.0)
TOTALS = ("below", "one", "above", "as drawn")


def linear_program(points: Points, weights: Floats, *, project: bool) -> float:
    """max weights @ f - t over 1-Lipschitz f in [-1, 1], where t >= f if `project` and t = 0 otherwise.

    The definition of the distance, and, exchanging min and max, of the distance to the nearest probability vector.
    """
    v = len(weights)
    rho = distances(points, points)
    left, right = np.nonzero((rho < 2) & ~np.eye(v, dtype=bool))
    pairs, everyone = np.arange(len(left)), np.arange(v)
    rows = np.concatenate([pairs, pairs, len(pairs) + everyone, len(pairs) + everyone])
    columns = np.concatenate([left, right, everyone, np.full(v, v)])
    signs = np.concatenate([np.ones(len(pairs)), -np.ones(len(pairs)), np.ones(v), -np.ones(v)])
    bounds = [(-1, 1)] * v + [(-1, 1) if project else (0, 0)]
    limits = np.concatenate([rho[left, right], np.full(v, 0.0 if project else 1.0)])
    matrix = coo_array((signs, (rows, columns)), shape=(len(limits), v + 1)).tocsr()
    solution = linprog(np.append(-weights, 1.0), A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
    assert solution.status == 0
    return -float(solution.fun)


def draw(rng: np.random.Generator, count: int) -> tuple[Points, Floats]:
    """Draw signed weights of any kind, with a total below, at or above 1, on points near and far apart."""
    points = strategies.random_points(rng, count, str(rng.choice(strategies.LAYOUTS)))
    points *= np.float32(rng.choice(SPREADS))
    drawn = strategies.random_weights(rng, count, str(rng.choice(strategies.WEIGHTINGS)))
    weights = drawn / max(1.0, float(np.abs(drawn).sum())) * rng.choice([0.3, 1.0, 3.0, 20.0])
    total = rng.choice(TOTALS)
    if total != "as drawn":
        weights[0] += {"below": 0.7, "one": 1.0, "above": 1.6}[total] - weights.sum()
    return points, weights


def check(points: Points, weights: Floats) -> BoundedLipschitzProjection:
    """Check a projection against what can be said of it without solving anything."""
    result = bounded_lipschitz_projection(points, weights)
    p, f = result.probabilities, result.witness
    accuracy = 1e-11 * (1 + float(np.abs(weights).sum()))
    assert p.shape == f.shape == weights.shape
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-14)
    assert np.abs(f).max() <= 1
    assert np.all(np.abs(f[:, None] - f) <= distances(points, points) * (1 + 1e-8) + 1e-12)
    assert abs(result.gap) <= accuracy
    assert float(weights @ f - f.max()) == pytest.approx(result.distance, abs=accuracy)
    assert float((weights - p) @ f) == pytest.approx(result.distance, abs=accuracy)
    assert 0 <= result.created <= 1
    if result.created < 1:  # what is not created is kept, and nobody keeps more than there was, but for its share
        kept = p * (1 - result.created)
        assert np.all(kept <= np.maximum(weights, 0) + accuracy)
    return result


class TestAgainstTheLinearProgram:
    @pytest.mark.parametrize("seed", range(8))
    def test_the_projection_of_random_weights(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        created: Counter[bool] = Counter()
        for _ in range(60):
            points, weights = draw(rng, int(rng.integers(1, 61)))
            result = check(points, weights)
            assert result.distance == pytest.approx(linear_program(points, weights, project=True), abs=1e-7)
            rest = weights - result.probabilities
            assert bounded_lipschitz_distance(points, rest) == pytest.approx(result.distance, abs=1e-9)
            created[result.created > 0] += 1
        assert min(created[True], created[False]) > 5

    @pytest.mark.parametrize("seed", range(8))
    def test_the_distance_of_random_weights(self, seed: int) -> None:
        rng = np.random.default_rng(100 + seed)
        for _ in range(60):
            points, weights = draw(rng, int(rng.integers(1, 61)))
            expected = linear_program(points, weights, project=False)
            assert bounded_lipschitz_distance(points, weights) == pytest.approx(expected, abs=1e-7)

    @pytest.mark.parametrize(("count", "layout"), [(150, "duplicates"), (200, "cloud"), (300, "lattice")])
    def test_hundreds_of_points(self, count: int, layout: str) -> None:
        rng = np.random.default_rng(count)
        points = np.float32(0.3) * strategies.random_points(rng, count, layout)
        votes = strategies.random_weights(rng, count, "noisy")
        weights = votes / (2 * count)
        result = check(points, weights)
        assert result.distance == pytest.approx(linear_program(points, weights, project=True), abs=1e-7)
        expected = linear_program(points, weights - result.probabilities, project=False)
        assert result.distance == pytest.approx(expected, abs=1e-7)

    @given(strategies.instances())
    @settings(max_examples=200)
    def test_instances_that_shrink(self, instance: strategies.Instance) -> None:
        weights = np.asarray(instance.weights, dtype=np.float64)
        result = check(instance.points, weights)
        assert result.distance == pytest.approx(linear_program(instance.points, weights, project=True), abs=1e-7)


class TestByHand:
    line = np.array([[0.0], [0.5], [3.0]], dtype=np.float32)

    def distance(self, *signed: float) -> float:
        return bounded_lipschitz_distance(self.line, np.array(signed))

    def projection(self, *weights: float) -> BoundedLipschitzProjection:
        return check(self.line, np.array(weights))

    def test_near_mass_is_moved_and_far_mass_is_destroyed_and_created(self) -> None:
        assert self.distance(1, -1, 0) == 0.5
        assert self.distance(1, 0, -1) == 2.0
        assert self.distance(0, 2, -1) == 3.0

    def test_the_distance_of_measures_of_one_sign_is_their_mass(self) -> None:
        assert self.distance(1, 0.25, 2) == 3.25
        assert self.distance(-1, -0.25, -2) == 3.25
        assert self.distance(0, 0, 0) == 0.0

    def test_a_negative_weight_takes_from_its_neighbour(self) -> None:
        result = self.projection(1.0, -0.5, 0.5)
        assert result.distance == pytest.approx(0.25, abs=1e-12)
        np.testing.assert_allclose(result.probabilities, [0.5, 0.0, 0.5], atol=1e-12)
        assert result.created == 0.0

    def test_mass_beyond_one_is_destroyed(self) -> None:
        result = self.projection(2.0, 0.0, 2.0)
        assert result.distance == 3.0
        assert result.probabilities.sum() == 1.0

    def test_missing_mass_is_created_in_proportion_to_what_is_kept(self) -> None:
        result = self.projection(0.25, 0.5, -0.125)
        np.testing.assert_allclose(result.probabilities, [1 / 3, 2 / 3, 0.0], atol=1e-15)
        assert result.created == 0.25
        assert result.distance == 0.375

    def test_without_positive_weight_it_goes_evenly_to_the_largest(self) -> None:
        result = self.projection(-0.5, -0.25, -0.25)
        np.testing.assert_array_equal(result.probabilities, [0.0, 0.5, 0.5])
        assert result.created == 1.0
        assert result.distance == 2.0
        np.testing.assert_allclose(self.projection(0, 0, 0).probabilities, 1 / 3)

    def test_weights_of_any_magnitude(self) -> None:
        for magnitude in (1e-300, 1e-12, 1e-3, 1e3, 1e12):
            self.projection(magnitude, -0.7 * magnitude, 0.3 * magnitude)


@pytest.mark.parametrize("layout", strategies.LAYOUTS)
def test_a_probability_vector_is_its_own_projection(layout: str) -> None:
    rng = np.random.default_rng(1)
    points = strategies.random_points(rng, 40, layout)
    weights = rng.dirichlet(np.full(40, 0.3))
    result = check(points, weights)
    assert result.distance == pytest.approx(0, abs=1e-14)
    np.testing.assert_allclose(result.probabilities, weights, rtol=0, atol=1e-14)


def test_it_is_no_farther_than_the_distribution_that_the_noise_was_added_to() -> None:
    rng = np.random.default_rng(2)
    points = rng.uniform(0, 0.7, (2000, 2)).astype(np.float32)
    truth = rng.multinomial(1000, rng.dirichlet(np.full(2000, 0.3))) / 1000
    weights = truth + np.rint(rng.normal(0, 5, 2000)) / 1000
    result = bounded_lipschitz_projection(points, weights)
    assert abs(result.gap) < 1e-10
    assert result.distance <= bounded_lipschitz_distance(points, weights - truth)


class TestSelector(SelectorContract):
    repeats = True

    def make(self) -> Selector:
        return BoundedLipschitz(records=100)

    def test_draws_follow_the_projection(self) -> None:
        votes, points = self.candidates(7)
        projection = bounded_lipschitz_projection(points, votes / 100)
        result = BoundedLipschitz(100)(votes, points, 40_000, np.random.default_rng(0))
        shares = np.bincount(result.indices, minlength=len(votes)) / 40_000
        np.testing.assert_allclose(shares, projection.probabilities, rtol=0, atol=0.0125)  # 5 standard deviations
        assert not shares[projection.probabilities == 0].any()
        assert (result.distance, result.gap) == (projection.distance, projection.gap)
        assert result.created == projection.created

    def test_a_crowd_of_small_noisy_votes_does_not_outweigh_a_cluster(self) -> None:
        """Subsampling would draw mostly from the noise; in the bounded-Lipschitz distance it cancels itself."""
        rng = np.random.default_rng(0)
        points = np.concatenate([np.zeros((1, 2)), 0.9 + 0.01 * rng.standard_normal((400, 2))]).astype(np.float32)
        votes = np.concatenate([[1000], np.rint(rng.normal(0, 5, 400))]).astype(np.int64)
        drawn = BoundedLipschitz(1000)(votes, points, 1000, rng).indices
        assert np.maximum(votes, 0)[0] / np.maximum(votes, 0).sum() < 0.6
        assert (drawn == 0).mean() > 0.85


class TestRefusals:
    @pytest.mark.parametrize(
        ("shape", "weights"), [((3, 2), [1.0, 2.0]), ((3,), [1.0, 2.0, 3.0]), ((0, 2), []), ((2, 2), [[1.0], [2.0]])]
    )
    def test_shapes_that_do_not_match(self, shape: tuple[int, ...], weights: list[float]) -> None:
        with pytest.raises(InputError, match="one weight per point"):
            bounded_lipschitz_projection(np.zeros(shape, dtype=np.float32), np.array(weights))

    def test_values_that_are_not_finite(self) -> None:
        with pytest.raises(InputError, match="finite"):
            bounded_lipschitz_distance(np.zeros((2, 1), dtype=np.float32), np.array([1.0, np.nan]))
        with pytest.raises(InputError, match="finite"):
            bounded_lipschitz_distance(np.array([[0.0], [np.inf]], dtype=np.float32), np.ones(2))

    def test_weights_too_large_to_be_exact(self) -> None:
        with pytest.raises(InputError, match="divide votes"):
            bounded_lipschitz_distance(np.zeros((2, 1), dtype=np.float32), np.array([1e15, -1e15]))

    @pytest.mark.parametrize("records", [0, -3, 2.5])
    def test_records_that_are_no_number_of_records(self, records: int) -> None:
        with pytest.raises(InputError, match="records"):
            BoundedLipschitz(records)

    def test_a_selection_of_nothing(self) -> None:
        with pytest.raises(InputError, match="size"):
            BoundedLipschitz(5)(
                np.ones(2, dtype=np.int64), np.zeros((2, 1), dtype=np.float32), 0, np.random.default_rng(0)
            )
