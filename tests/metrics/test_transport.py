import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import kron
from scipy.stats import wasserstein_distance

from gape.core.errors import InputError
from gape.core.types import Floats, Points
from gape.metrics import transport
from gape.metrics.transport import energy, frechet, sinkhorn1, wasserstein1
from metrics.pairs import SEEDS, all_distances, random_pair


def by_linear_program(real: Points, synthetic: Points) -> float:
    n, m = len(real), len(synthetic)
    rows, columns = kron(np.eye(n), np.ones((1, m))), kron(np.ones((1, n)), np.eye(m))
    costs = all_distances(real, synthetic).ravel()
    # One constraint follows from the others, and HiGHS judges its rounding harshly.
    solved = linprog(
        costs,
        A_eq=np.concatenate([rows.toarray(), columns.toarray()])[:-1],
        b_eq=np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])[:-1],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(solved.fun)


class TestWasserstein1:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_the_optimum_of_the_linear_program(self, seed: int) -> None:
        real, synthetic = random_pair(seed)
        assert wasserstein1(real, synthetic) == pytest.approx(by_linear_program(real, synthetic), rel=1e-6, abs=1e-8)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_the_same_for_costs_that_are_not_held(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        real, synthetic = random_pair(seed)
        held = wasserstein1(real, synthetic)
        monkeypatch.setattr(transport, "_HELD", 0)
        monkeypatch.setattr(transport, "_ROWS", 7)
        assert wasserstein1(real, synthetic) == pytest.approx(held, rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("width", [2, 50])
    @pytest.mark.parametrize("shift", [0.0, 100.0])
    def test_is_the_best_assignment_of_sets_of_one_size(self, width: int, shift: float) -> None:
        rng = np.random.default_rng(0)
        real, synthetic = (rng.standard_normal((300, width), dtype=np.float32) for _ in range(2))
        synthetic += np.float32(shift)
        costs = all_distances(real, synthetic)
        assert wasserstein1(real, synthetic) == pytest.approx(costs[linear_sum_assignment(costs)].mean(), rel=1e-9)

    def test_is_that_of_the_quantiles_on_a_line(self) -> None:
        rng = np.random.default_rng(1)
        real, synthetic = rng.standard_normal(400, dtype=np.float32), rng.exponential(size=250).astype(np.float32)
        found = wasserstein1(real[:, None], synthetic[:, None])
        assert found == pytest.approx(wasserstein_distance(real, synthetic), rel=1e-6)

    def test_counts_how_often_a_point_occurs(self) -> None:
        assert wasserstein1([[0.0], [0.0], [0.0], [1.0]], [[0.0], [1.0]]) == pytest.approx(0.25)

    def test_is_exactly_zero_for_the_same_points_in_another_order(self) -> None:
        points = np.random.default_rng(2).standard_normal((200, 20))
        assert wasserstein1(points, points[::-1]) == 0.0

    def test_does_not_depend_on_which_set_is_which(self) -> None:
        real, synthetic = random_pair(5)
        assert wasserstein1(real, synthetic) == pytest.approx(wasserstein1(synthetic, real), rel=1e-12)


def plain_sinkhorn(costs: Floats, blur: float) -> float:
    """OT with relative entropy to the product of the marginals, by the textbook's two lines, for very long."""
    f, g = (np.zeros(count) for count in costs.shape)
    for _ in range(20_000):
        before = f
        f = -blur * (np.logaddexp.reduce((g - costs) / blur, axis=1) - np.log(len(g)))
        g = -blur * (np.logaddexp.reduce((f[:, None] - costs) / blur, axis=0) - np.log(len(f)))
        if np.abs(f - before).max() < 1e-12:
            break
    plan = np.exp((f[:, None] + g - costs) / blur) / costs.size
    entropy = np.sum(plan * np.log(np.maximum(plan * costs.size, 1e-300)))
    return float(np.sum(plan * costs) + blur * entropy)  # the primal value, where ours is the dual


def plain_divergence(real: Points, synthetic: Points, blur: float) -> float:
    pairs = ((real, synthetic), (real, real), (synthetic, synthetic))
    between, left, right = (plain_sinkhorn(all_distances(*pair), blur) for pair in pairs)
    return between - left / 2 - right / 2


class TestSinkhorn1:
    @pytest.mark.parametrize("blur", [0.3, 2.0])
    @pytest.mark.parametrize("seed", SEEDS[:18])
    def test_is_what_the_textbook_loop_finds(self, seed: int, blur: float) -> None:
        real, synthetic = random_pair(seed, most=15)
        found = sinkhorn1(real, synthetic, blur, iterations=20_000)
        assert found.converged
        assert found.blur == blur
        assert float(found) == pytest.approx(plain_divergence(real, synthetic, blur), rel=1e-6, abs=1e-8)

    def test_is_the_same_for_distances_that_are_not_held(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real, synthetic = random_pair(0)
        held = sinkhorn1(real, synthetic)
        monkeypatch.setattr("gape.metrics.sinkhorn._HELD", 0)
        monkeypatch.setattr("gape.metrics.sinkhorn._BLOCK", 20)
        assert sinkhorn1(real, synthetic).value == pytest.approx(held.value, rel=1e-9)

    def test_goes_from_w1_to_half_the_energy_distance_as_the_blur_grows(self) -> None:
        rng = np.random.default_rng(3)
        real, synthetic = rng.standard_normal((20, 3)), rng.standard_normal((15, 3)) + 1
        sharp = sinkhorn1(real, synthetic, 0.002, tolerance=1e-3, iterations=20_000)
        assert float(sharp) == pytest.approx(wasserstein1(real, synthetic), rel=0.01)
        between, left, right = (
            all_distances(*pair).mean() for pair in ((real, synthetic), (real, real), (synthetic, synthetic))
        )
        assert float(sinkhorn1(real, synthetic, 1e5)) == pytest.approx(between - left / 2 - right / 2, rel=1e-3)

    def test_is_zero_for_the_same_points_and_the_distance_for_one_each(self) -> None:
        points = np.random.default_rng(4).standard_normal((50, 4))
        assert float(sinkhorn1(points, points[::-1])) == pytest.approx(0.0, abs=1e-9)
        assert float(sinkhorn1([[0.0, 0.0]], [[3.0, 4.0]])) == pytest.approx(5.0)

    def test_says_when_it_has_not_converged(self) -> None:
        rng = np.random.default_rng(5)
        short = sinkhorn1(rng.standard_normal((40, 2)), rng.standard_normal((30, 2)), 0.01, iterations=3)
        assert (short.converged, short.iterations) == (False, 3)

    @pytest.mark.parametrize("blur", [0.0, -1.0, float("nan"), float("inf")])
    def test_refuses_a_blur_that_is_none(self, blur: float) -> None:
        with pytest.raises(InputError, match="blur must be positive"):
            sinkhorn1([[0.0]], [[1.0]], blur)

    def test_refuses_limits_that_are_none(self) -> None:
        with pytest.raises(InputError, match="tolerance must be positive"):
            sinkhorn1([[0.0]], [[1.0]], iterations=0)


class TestEnergy:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_is_its_definition(self, seed: int) -> None:
        real, synthetic = random_pair(seed)
        n, m = len(real), len(synthetic)
        if min(n, m) < 2:
            with pytest.raises(InputError, match="at least 2 points"):
                energy(real, synthetic)
            return
        of_pairs = [
            all_distances(*sets)[~np.eye(len(sets[0]), dtype=bool)].mean() for sets in [(real,) * 2, (synthetic,) * 2]
        ]
        expected = 2 * all_distances(real, synthetic).mean() - sum(of_pairs)
        assert energy(real, synthetic) == pytest.approx(expected, rel=1e-6, abs=1e-6)

    def test_is_unbiased_and_not_fooled_by_points_in_the_middle_as_w1_is(self) -> None:
        rng = np.random.default_rng(4)
        draws = [rng.standard_normal((2, 40, 30)) for _ in range(100)]
        of_real = [energy(real, other) for real, other in draws]
        assert abs(np.mean(of_real)) < 3 * np.std(of_real) / 10
        of_middle = [energy(real, other / 2) for real, other in draws]
        assert min(of_middle) > max(of_real)
        real, other = draws[0]
        assert wasserstein1(real, other / 2) < wasserstein1(real, other)


class TestFrechet:
    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_textbook_formula(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        real = rng.standard_normal((3000, 6)) @ rng.standard_normal((6, 6))
        synthetic = (rng.standard_normal((40, 6)) + 1) @ rng.standard_normal((6, 6))
        covariances = [np.cov(points, rowvar=False) for points in (real, synthetic)]
        means = np.sum((real.mean(axis=0) - synthetic.mean(axis=0)) ** 2)
        expected = means + np.trace(
            covariances[0] + covariances[1] - 2 * np.real(sqrtm(covariances[0] @ covariances[1]))
        )
        assert frechet(real, synthetic) == pytest.approx(expected, rel=1e-5)

    def test_is_the_closed_form_of_gaussians_with_common_axes(self) -> None:
        # Each point with its mirror images has exactly the moments below.
        signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T * np.sqrt(7 / 8)
        real, synthetic = signs * [1, 2, 4] + 5, signs * [3, 2, 0.5] + [5, 6, 7]
        assert frechet(real, synthetic) == pytest.approx(0 + 1 + 4 + (1 - 3) ** 2 + 0 + (4 - 0.5) ** 2, rel=1e-6)

    def test_stays_exact_where_covariances_are_singular(self) -> None:
        rng = np.random.default_rng(1)
        flat = np.zeros((20, 200))
        flat[:, :3] = rng.standard_normal((20, 3))
        expected = frechet(flat[:, :3], 2 * flat[:, :3] + 1)
        assert frechet(flat, 2 * flat + 1) == pytest.approx(expected + 197, rel=1e-9)

    def test_takes_one_point_for_a_set_without_spread(self) -> None:
        assert frechet([[0.0, 0.0]], [[3.0, 4.0]]) == pytest.approx(25.0)
        assert frechet([[1.0], [3.0]], [[2.0]]) == pytest.approx(2.0)
        assert frechet([[1.0], [3.0]], [[3.0], [1.0]]) == 0.0
