import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from gape.core.errors import InputError
from gape.core.types import Indices
from gape.selection.flow import simplex as flow
from gape.selection.flow.objective import flow_cost
from gape.selection.reference import reference_flow_costs
from selection.flow.problems import problems

INF = float("inf")


def check_against_the_linear_program(*cases: tuple[strategies.Instance, Indices]) -> list[float]:
    """Check the cost of each selected set; return the costs."""
    problems = [(instance.points, instance.weights, selected, instance.separation) for instance, selected in cases]
    costs = [flow_cost(*problem) for problem in problems]
    for (instance, _), cost, expected in zip(cases, costs, reference_flow_costs(problems), strict=True):
        assert cost == pytest.approx(expected, rel=1e-9, abs=instance.rounding), instance
        assert math.isinf(cost) == (instance.total < 0), instance
    return costs


def compare_many(seed: int, count: int) -> tuple[int, int]:
    """Compare `count` random instances; return how many were feasible, and how many cost something."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        instance = strategies.random_instance(rng, int(rng.integers(1, 26)))
        cases.append((instance, strategies.random_selected(rng, len(instance.weights))))
    costs = check_against_the_linear_program(*cases)
    return sum(cost < INF for cost in costs), sum(0 < cost < INF for cost in costs)


class TestAgainstTheLinearProgram:
    @pytest.mark.parametrize("seed", range(10))
    def test_random_instances(self, seed: int) -> None:
        feasible, costly = compare_many(seed, 320)
        assert feasible > 200
        assert costly > 120

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(100, 200))
    def test_many_more_random_instances(self, seed: int) -> None:
        feasible, costly = compare_many(seed, 320)
        assert feasible > 180
        assert costly > 110

    @given(strategies.instances(), st.data())
    @settings(max_examples=300, deadline=None)
    def test_instances_that_shrink(self, instance: strategies.Instance, data: st.DataObject) -> None:
        count = len(instance.weights)
        chosen = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
        check_against_the_linear_program((instance, np.array(chosen)))

    @pytest.mark.parametrize("layout", strategies.LAYOUTS)
    @pytest.mark.parametrize("weighting", strategies.WEIGHTINGS)
    @pytest.mark.parametrize("separation", strategies.SEPARATIONS)
    def test_every_combination_of_kinds(self, layout: str, weighting: str, separation: str) -> None:
        rng = np.random.default_rng(1)
        instances = [
            strategies.random_instance(rng, 15, layouts=(layout,), weightings=(weighting,), separations=(separation,))
            for _ in range(2)
        ]
        sets = (np.array([3]), np.arange(15), np.array([8, 2, 5]))
        check_against_the_linear_program(*itertools.product(instances, sets))

    @pytest.mark.parametrize("seed", range(4))
    def test_hundreds_of_points(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        instance = strategies.random_instance(
            rng, 200, layouts=("cloud", "lattice"), weightings=("integer", "real", "balanced")
        )
        (cost,) = check_against_the_linear_program((instance, np.arange(10)))
        assert 0 < cost < INF

    @pytest.mark.parametrize("apart", [1e3, 1e6])
    def test_tight_clusters_far_apart_lose_no_more_than_the_rounding_of_costs(self, apart: float) -> None:
        rng = np.random.default_rng(0)
        cases = []
        for _ in range(20):
            centres = apart * rng.standard_normal((3, 2))
            points = (centres[np.arange(18) % 3] + rng.standard_normal((18, 2))).astype(np.float32)
            weights = strategies.random_weights(rng, 18, "integer")
            weights[0] += 30
            cases.append((strategies.Instance(points, weights, INF), np.arange(3)))
        check_against_the_linear_program(*cases)


class TestByHand:
    """Cases whose cost can be read off."""

    line = np.array([[0.0], [1.0], [3.0], [10.0]], dtype=np.float32)

    def cost(self, weights: list[float], selected: list[int], separation: float = INF) -> float:
        return flow_cost(self.line, np.array(weights), np.array(selected), separation)

    def test_without_negative_weight_it_is_k_median(self) -> None:
        assert self.cost([2, 5, 1, 4], [1, 3]) == pytest.approx(2 * 1 + 1 * 2, rel=1e-11)

    def test_negative_weight_must_be_cancelled_from_afar(self) -> None:
        assert self.cost([0, 0, 1, -1], [2]) == pytest.approx(7, rel=1e-11)

    def test_negative_weight_is_cancelled_where_it_costs_least(self) -> None:
        # The demand at 1 takes one unit from 0: half as far as from 3, and free either way at the selected 0.
        assert self.cost([2, -1, 2, 0], [0, 2]) == pytest.approx(1, rel=1e-11)
        # With only 10 selected it takes a unit from 0, which saves the longer way.
        assert self.cost([2, -1, 2, 0], [3]) == pytest.approx(1 + 10 + 2 * 7, rel=1e-11)

    def test_distances_are_truncated_at_a_third_of_the_separation(self) -> None:
        assert self.cost([1, 1, 1, 1], [0], separation=6.0) == pytest.approx(0 + 1 + 2 + 2, rel=1e-11)

    def test_selected_points_may_have_any_weight(self) -> None:
        assert self.cost([1, -1, 0, 0], [1]) == pytest.approx(1, rel=1e-11)
        assert self.cost([1, 0, 0, 0], [2]) == pytest.approx(3, rel=1e-11)

    def test_selecting_a_point_twice_changes_nothing(self) -> None:
        assert self.cost([2, -1, 2, 5], [2, 2]) == self.cost([2, -1, 2, 5], [2])

    def test_more_negative_than_positive_weight_is_infeasible(self) -> None:
        assert self.cost([2, -1, -2, 0], [0]) == INF
        assert self.cost([-1, 0, 0, 0], [0]) == INF

    def test_no_weight_costs_nothing(self) -> None:
        assert self.cost([0, 0, 0, 0], [2]) == 0

    def test_one_point(self) -> None:
        one = np.zeros((1, 3), dtype=np.float32)
        assert flow_cost(one, np.array([4]), np.array([0]), 1.0) == 0


class TestErrors:
    points = np.zeros((3, 2), dtype=np.float32)
    weights = np.array([1, 2, 3])

    @pytest.mark.parametrize("separation", [0.0, -1.0, float("nan")])
    def test_separation(self, separation: float) -> None:
        with pytest.raises(InputError, match=f"separation must be positive, got {separation}"):
            flow_cost(self.points, self.weights, np.array([0]), separation)

    def test_shapes(self) -> None:
        with pytest.raises(InputError, match=r"got \(3, 2\) and \(2,\)"):
            flow_cost(self.points, self.weights[:2], np.array([0]), 1.0)
        with pytest.raises(InputError, match="v >= 1"):
            flow_cost(self.points[:0], self.weights[:0], np.array([0]), 1.0)
        with pytest.raises(InputError, match=r"got \(3,\)"):
            flow_cost(self.points[:, 0], self.weights, np.array([0]), 1.0)

    @pytest.mark.parametrize("bad", [float("nan"), INF])
    def test_numbers_that_are_not_finite(self, bad: float) -> None:
        with pytest.raises(InputError, match="finite"):
            flow_cost(np.full((3, 2), bad, dtype=np.float32), self.weights, np.array([0]), 1.0)
        with pytest.raises(InputError, match="finite"):
            flow_cost(self.points, np.array([1.0, bad, 0.0]), np.array([0]), 1.0)

    def test_selected(self) -> None:
        with pytest.raises(InputError, match="non-empty"):
            flow_cost(self.points, self.weights, np.array([], dtype=np.int64), 1.0)
        with pytest.raises(InputError, match=r"0\.\.2, got 0\.\.3"):
            flow_cost(self.points, self.weights, np.array([0, 3]), 1.0)
        with pytest.raises(InputError, match=r"0\.\.2, got -1\.\.1"):
            flow_cost(self.points, self.weights, np.array([1, -1]), 1.0)


@pytest.fixture(params=[1, 3, 16], ids=lambda count: f"{count} near arcs")
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """With few near arcs most pivots are found, and most proofs are made, among the others."""
    monkeypatch.setattr("gape.selection.flow.near.NEAR", request.param)
    return int(request.param)


@pytest.mark.usefixtures("near")
class TestNetwork:
    def test_a_cold_start_ends_in_a_certified_optimum(self) -> None:
        for problem in problems(seed=0, count=300):
            root_costs = problem.draw((len(problem.supply),))
            problem.certify(problem.solved(root_costs), root_costs)

    def test_a_warm_start_ends_where_a_cold_start_does(self) -> None:
        changed = 0
        for problem in problems(seed=1, count=150):
            p = len(problem.supply)
            net = problem.solved(problem.draw((p,)))
            for _ in range(12):
                before = flow.total_cost(net)
                touched = problem.rng.random(p) < problem.rng.choice([0.2, 1.0])
                root_costs = np.where(touched, problem.draw((p,)), net.root_costs)
                flow.set_root_costs(net, root_costs)
                flow.optimise(net)
                problem.certify(net, root_costs)
                assert flow.total_cost(net) == problem.optimum(root_costs)
                changed += flow.total_cost(net) != before
                if problem.rng.random() < 0.2:
                    net = flow.anchored(net)
        assert changed > 500

    def test_costs_held_in_float32_are_the_same_costs(self) -> None:
        for problem in problems(seed=9, count=100):
            p = len(problem.supply)
            net = problem.solved(problem.draw((p,)))
            rounded = flow.network(problem.costs.astype(np.float32), problem.supply, problem.demand, net.root_costs)
            flow.optimise(rounded)
            for _ in range(4):
                problem.certify(rounded, net.root_costs)
                np.testing.assert_array_equal(rounded.potential, net.potential)
                np.testing.assert_array_equal(rounded.parent, net.parent)
                flow.set_root_costs(net, problem.draw((p,)))
                flow.optimise(net)
                flow.set_root_costs(rounded, net.root_costs.copy())
                flow.optimise(rounded)

    def test_root_costs_may_rise_above_every_cost_of_the_start(self) -> None:
        for problem in problems(seed=2, count=100):
            p = len(problem.supply)
            net = problem.solved(np.zeros(p))
            for scale in (2.0**20, 0.0, 2.0**10):
                root_costs = scale * (1 + problem.draw((p,)))
                flow.set_root_costs(net, root_costs)
                flow.optimise(net)
                problem.certify(net, root_costs)

    def test_several_changes_before_one_optimisation(self) -> None:
        for problem in problems(seed=3, count=100):
            p = len(problem.supply)
            net = problem.solved(problem.draw((p,)))
            for _ in range(5):
                flow.set_root_costs(net, problem.draw((p,)))
            flow.optimise(net)
            problem.certify(net, net.root_costs.copy())

    def test_an_optimal_tree_needs_no_pivot(self) -> None:
        for problem in problems(seed=4, count=50):
            net = problem.solved(problem.draw((len(problem.supply),)))
            assert flow.optimise(net) == 0
            flow.set_root_costs(net, net.root_costs.copy())
            assert flow.optimise(net) == 0

    def test_reaches_answers_as_a_fresh_solve_does(self) -> None:
        answers = {True: 0, False: 0}
        for problem in problems(seed=5, count=400):
            rng, p = problem.rng, len(problem.supply)
            low = problem.draw((p,))
            net = problem.solved(low)
            raised = rng.permutation(p)[: rng.integers(0, p + 1)]
            high = low + problem.draw((p,))
            mixed = low.copy()
            mixed[raised] = high[raised]
            optimum = problem.optimum(mixed)
            before = problem.optimum(low)
            for target in (before, optimum, optimum + 1 / 16, (before + optimum) / 2, optimum - 1 / 16):
                trial = flow.twin(net)
                answer = flow.reaches(trial, raised, high, target)
                assert answer == (optimum >= target)
                answers[answer] += 1
                if not answer:
                    problem.certify(trial, mixed)
        assert min(answers.values()) > 300

    def test_a_twin_has_a_tree_of_its_own_and_takes_another(self) -> None:
        for problem in problems(seed=6, count=50):
            p = len(problem.supply)
            first, second = problem.draw((p,)), problem.draw((p,))
            net = problem.solved(first)
            twin = flow.twin(net)
            flow.set_root_costs(twin, second)
            flow.optimise(twin)
            problem.certify(net, first)
            problem.certify(twin, second)
            flow.copy_tree(net, twin)
            problem.certify(twin, first)
            flow.set_root_costs(twin, second)
            flow.optimise(twin)
            problem.certify(twin, second)
            problem.certify(net, first)

    def test_the_objective_is_kept_up_to_date(self) -> None:
        for problem in problems(seed=10, count=50):
            p = len(problem.supply)
            net = problem.solved(problem.draw((p,)))
            for _ in range(10):
                flow.set_root_costs(net, problem.draw((p,)))
                flow.optimise(net)
                assert net.objective[0] == flow.total_cost(net)


class TestGrids:
    def test_costs_move_by_less_than_a_trillionth_of_the_largest(self) -> None:
        costs = np.random.default_rng(0).uniform(0, 7, 1000)
        rounded = flow.on_grid(costs, 7.0)
        np.testing.assert_allclose(rounded, costs, rtol=0, atol=7e-12)
        np.testing.assert_array_equal(rounded, flow.on_grid(rounded, 7.0))
        np.testing.assert_array_equal(flow.on_grid(np.zeros(3), 0.0), np.zeros(3))

    def test_sums_on_the_grid_do_not_depend_on_their_order(self) -> None:
        rng = np.random.default_rng(0)
        weights = flow.weights_on_grid(rng.standard_normal(500) * 10.0 ** rng.integers(-6, 6, 500))
        assert {math.fsum(weights)} == {float(rng.permutation(weights).sum()) for _ in range(20)}

    def test_integers_are_left_as_they_are(self) -> None:
        weights = np.array([3.0, -70000.0, 0.0])
        np.testing.assert_array_equal(flow.weights_on_grid(weights), weights)
