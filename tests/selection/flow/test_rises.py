import numpy as np
import pytest

from gape.core.types import Floats
from gape.selection.flow import rises, swaps
from gape.selection.flow import simplex as flow
from gape.selection.flow.tree import Network
from selection.flow.problems import Problem, problems

INF = float("inf")


@pytest.fixture(params=[1, 3, 16], ids=lambda count: f"{count} near arcs")
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """With few near arcs most limits are set by the others."""
    monkeypatch.setattr("gape.selection.flow.near.NEAR", request.param)
    return int(request.param)


class Selected:
    """A problem whose root costs are the distances to a selected set, drawn at random."""

    def __init__(self, problem: Problem, size: int) -> None:
        self.problem = problem
        self.distances = problem.draw((size + 4, len(problem.supply)))
        self.chosen = np.arange(size)
        self.absent = 2.0 * problem.ties
        self.reserve = swaps.reserve(self.distances, self.chosen)
        self.ranks = swaps.ranks(self.reserve, self.absent)
        self.net = problem.solved(self.ranks.first)

    def place(self, candidate: int, slot: int) -> None:
        self.chosen[slot] = candidate
        swaps.swap(self.ranks, self.reserve, self.distances, self.chosen, slot, self.absent)
        flow.set_root_costs(self.net, self.ranks.first)
        flow.optimise(self.net)

    def loss(self, slot: int) -> float:
        return self.problem.optimum(swaps.without(self.ranks, slot)) - flow.total_cost(self.net)


def potentials(net: Network, found: rises.Rises, slot: int) -> Floats:
    """Return the optimal potentials plus the rises of a slot, without the root's."""
    risen = net.potential[:-1].copy()
    entries = slice(found.starts[slot], found.starts[slot + 1])
    risen[found.nodes[entries]] += found.values[entries]
    return risen


@pytest.mark.usefixtures("near")
class TestRemovals:
    @pytest.mark.parametrize("proof", [True, False])
    def test_found_rises_give_the_exact_cost_of_a_removal(self, proof: bool) -> None:  # noqa: FBT001
        costly = 0
        for problem in problems(seed=20, count=150):
            selected = Selected(problem, size=3)
            removed = rises.Removals(problem.supply, problem.demand, 3)
            removed.renew(selected.net, selected.ranks, [flow.twin(selected.net)], 0, proof=proof)
            for slot in range(3):
                assert removed.rises.gains[slot] == selected.loss(slot)
                costly += selected.loss(slot) > 0
        assert costly > 100

    def test_repaired_rises_are_feasible_and_bound_the_cost_of_a_removal(self) -> None:
        exact = lower = 0
        for problem in problems(seed=21, count=200):
            selected = Selected(problem, size=3)
            (p, _), net = problem.costs.shape, selected.net
            removed = rises.Removals(problem.supply, problem.demand, 3)
            removed.renew(net, selected.ranks, [flow.twin(net)], 0, proof=True)
            for swap in range(1, 4):
                slot = int(problem.rng.integers(3))
                selected.place(2 + swap, slot)
                left = rises.leeway_left(net, net.potential[p:-1])
                slots = np.arange(3)
                rises.repair(net, selected.ranks, removed.rises, left, problem.supply, problem.demand, slots)
                for other in range(3):
                    risen = potentials(net, removed.rises, other)
                    assert np.all(risen >= net.potential[:-1])
                    assert np.all(risen[:p] <= swaps.without(selected.ranks, other))
                    assert np.all(risen[:p, None] <= problem.costs + risen[p:])
                    gain = float(problem.supply @ risen[:p] - problem.demand @ risen[p:]) - flow.total_cost(net)
                    assert removed.rises.gains[other] == gain <= selected.loss(other)
                    exact += gain == selected.loss(other)
                    lower += gain < selected.loss(other)
        assert exact > 300
        assert lower > 100

    def test_worn_rises_are_found_anew(self) -> None:
        for problem in problems(seed=22, count=100):
            selected = Selected(problem, size=3)
            removed = rises.Removals(problem.supply, problem.demand, 3)
            for swap in range(4):
                if swap:
                    selected.place(2 + swap, swap - 1)
                    removed.forget(swap - 1)
                    removed.doubt(np.ones(3, dtype=np.int64))
                removed.renew(selected.net, selected.ranks, [flow.twin(selected.net)], swap, proof=True)
                for slot in range(3):
                    assert removed.rises.gains[slot] == selected.loss(slot)

    def test_the_view_by_source_is_the_view_by_slot(self) -> None:
        for problem in problems(seed=23, count=50):
            selected = Selected(problem, size=3)
            removed = rises.Removals(problem.supply, problem.demand, 3)
            removed.renew(selected.net, selected.ranks, [flow.twin(selected.net)], 0, proof=True)
            p, found = len(problem.supply), removed.rises
            by_slot, by_source = np.zeros((3, p)), np.zeros((3, p))
            for slot in range(3):
                by_slot[slot] = (potentials(selected.net, found, slot) - selected.net.potential[:-1])[:p]
            for x in range(p):
                entries = slice(found.source_starts[x], found.source_starts[x + 1])
                by_source[found.source_slots[entries], x] = found.source_values[entries]
            np.testing.assert_array_equal(by_slot, by_source)
            np.testing.assert_array_equal(found.highest, by_slot.max(axis=0))


@pytest.mark.usefixtures("near")
def test_limits_are_the_largest_potentials_that_violate_no_arc() -> None:
    for problem in problems(seed=9, count=200):
        rng, (p, q) = problem.rng, problem.costs.shape
        net = problem.solved(problem.draw((p,)))
        net = flow.anchored(net)
        for reach in (0.25, 2.0, 200.0):
            sinks = net.potential[p : p + q] + reach * np.round(rng.uniform(-1, 1, q), 3)
            left = rises.leeway_left(net, sinks)
            for x in rng.permutation(p)[: rng.integers(1, p + 1)]:
                highest = float(net.potential[x] + reach * rng.uniform(0, 1))
                expected = min(highest, (problem.costs[x] + sinks).min(initial=INF))
                assert rises.limit(net, x, highest, sinks, left) == expected
