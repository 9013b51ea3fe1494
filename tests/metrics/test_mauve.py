import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import beta, rel_entr

from gape.core.errors import InputError
from gape.core.types import Points
from gape.metrics import frontier_area, mauve

RNG = np.random.default_rng(0)


def cloud(count: int, at: float = 0.0, seed: int = 0) -> Points:
    return at + np.random.default_rng(seed).standard_normal((count, 4), dtype=np.float32)


class TestFrontier:
    @pytest.mark.parametrize("scale", [1.0, 5.0])
    @pytest.mark.parametrize("seed", range(6))
    def test_area_is_that_of_adaptive_quadrature(self, seed: int, scale: float) -> None:
        rng = np.random.default_rng(seed)
        P, Q = rng.dirichlet(np.full(8, 0.5), size=2)
        P[:2], Q[4:6] = 0, 0  # each has cells that the other lacks
        P, Q = P / P.sum(), Q / Q.sum()

        def point(mixture: float) -> tuple[float, float]:
            R = mixture * P + (1 - mixture) * Q
            return float(np.exp(-scale * rel_entr(Q, R).sum())), float(np.exp(-scale * rel_entr(P, R).sum()))

        def slice_of_area(mixture: float) -> float:
            R = mixture * P + (1 - mixture) * Q
            x, y = point(mixture)
            return y * x * scale * float(np.sum(Q[R > 0] * (Q - P)[R > 0] / R[R > 0]))  # y |dx/dl|

        area, _ = quad(slice_of_area, 0, 1, limit=500)
        # y = 1 from the axis to where l = 1, which is a step away wherever Q has what P lacks.
        assert frontier_area(P, Q, scale) == pytest.approx(area, rel=2e-5)

    @pytest.mark.parametrize("scale", [1.0, 2.0, 5.0])
    def test_of_distributions_with_nothing_in_common_is_a_beta_function(self, scale: float) -> None:
        area = frontier_area(np.array([0.3, 0.7, 0.0]), np.array([0.0, 0.0, 1.0]), scale)
        assert area == pytest.approx(scale * beta(scale + 1, scale), rel=1e-5)

    def test_of_the_same_distribution_is_one(self) -> None:
        P = RNG.dirichlet(np.ones(9))
        assert frontier_area(P, P) == pytest.approx(1.0, abs=1e-12)

    def test_does_not_depend_on_which_is_which(self) -> None:
        P, Q = RNG.dirichlet(np.ones(9), size=2)
        assert frontier_area(P, Q) == pytest.approx(frontier_area(Q, P), rel=1e-5)


class TestMauve:
    def test_falls_with_the_distance_between_the_sets(self) -> None:
        values = [mauve(cloud(400), cloud(400, at, 1), np.random.default_rng(0)) for at in (0.0, 1.0, 2.0, 9.0)]
        assert values[0] > 0.9
        assert values == sorted(values, reverse=True)
        assert values[-1] == pytest.approx(5 * beta(6, 5), rel=1e-5)

    def test_is_one_for_the_same_points_and_repeats_itself(self) -> None:
        assert mauve(cloud(100), cloud(100)[::-1], np.random.default_rng(3)) == pytest.approx(1.0)
        twice = [mauve(cloud(100), cloud(90, 1.0, 1), np.random.default_rng(3)) for _ in range(2)]
        assert twice[0] == twice[1]

    def test_sees_nothing_within_a_cell(self) -> None:
        assert mauve(cloud(50), cloud(50, 9.0), RNG, cells=1) == pytest.approx(1.0)

    def test_takes_one_point_each(self) -> None:
        assert mauve([[0.0]], [[0.0]], RNG) == pytest.approx(1.0)
        assert mauve([[0.0]], [[1.0]], RNG) == pytest.approx(5 * beta(6, 5), rel=1e-5)

    def test_refuses_parameters_out_of_range(self) -> None:
        with pytest.raises(InputError, match="cells must be at least 1"):
            mauve([[0.0]], [[1.0]], RNG, cells=0)
        with pytest.raises(InputError, match="scale positive"):
            mauve([[0.0]], [[1.0]], RNG, scale=0.0)
