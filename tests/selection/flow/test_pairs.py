import numpy as np
import pytest

from gape.core.types import Floats
from gape.selection.flow import pairs, rises, swaps
from gape.selection.flow import simplex as flow
from gape.selection.flow.tree import Network
from selection.flow.problems import Problem, problems

SIZE = 4


@pytest.fixture(params=[1, 3, 16], ids=lambda count: f"{count} near arcs", autouse=True)
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """With few near arcs most sources are held back by the others."""
    monkeypatch.setattr("gape.selection.flow.near.NEAR", request.param)
    return int(request.param)


class Swaps:
    """All swaps of candidates into a random selected set, by bounds and by flows of their own."""

    def __init__(self, problem: Problem, *, anchored: bool) -> None:
        self.problem = problem
        p = len(problem.supply)
        self.distances = problem.draw((SIZE + 5, p))
        absent = 2.0 * problem.ties
        self.ranks = swaps.ranks(swaps.reserve(self.distances, np.arange(SIZE)), absent)
        net = problem.solved(self.ranks.first)
        self.net: Network = flow.anchored(net) if anchored else net
        removed = rises.Removals(problem.supply, problem.demand, SIZE)
        removed.renew(self.net, self.ranks, [flow.twin(self.net)], 0, proof=True)
        self.rises = removed.rises
        self.work = pairs.work(self.net, SIZE)
        self.rows: Floats = self.distances[SIZE:]
        self.cost = float(flow.total_cost(self.net))
        self.objectives = np.array([[self.objective(row, slot) for slot in range(SIZE)] for row in self.rows])

    def objective(self, row: Floats, slot: int) -> float:
        return self.problem.optimum(np.minimum(swaps.without(self.ranks, slot), row))

    def at(self, target: float) -> pairs.Position:
        return pairs.position(
            self.net, self.ranks, self.rises, self.problem.supply, self.problem.demand, target, tries=SIZE
        )


@pytest.mark.parametrize("anchored", [True, False])
def test_a_slot_is_found_exactly_where_a_swap_pays(anchored: bool) -> None:  # noqa: FBT001
    pays = proved = 0
    for problem in problems(seed=30, count=150):
        swapped = Swaps(problem, anchored=anchored)
        levels = np.unique(swapped.objectives)
        for target in (swapped.cost, float(np.median(levels)), float(levels[0]), float(levels[0]) + 1 / 16):
            found = np.full((len(swapped.rows), 3), -1)
            pairs.slots(swapped.at(target), swapped.work, swapped.rows, found)
            for objectives, slots in zip(swapped.objectives, found, strict=True):
                if slots[0] >= 0:
                    assert objectives[slots[0]] < target
                    pays += 1
                else:
                    assert objectives.min() >= target
                    proved += 1
    assert pays > 500
    assert proved > 500


def test_every_bound_is_below_the_objective_and_each_is_above_the_one_before() -> None:
    tight = below = 0
    for problem in problems(seed=31, count=150):
        swapped = Swaps(problem, anchored=bool(problem.rng.random() < 0.5))
        at, work = swapped.at(swapped.cost), swapped.work
        for row, objectives in zip(swapped.rows, swapped.objectives, strict=True):
            pairs.bound_without_flow(at, work, row)
            assert np.all(work.lower <= objectives)
            with_it = pairs.add(at, work, row)
            assert with_it == problem.optimum(np.minimum(swapped.ranks.first, row))
            pairs.bound_with_flow(at, work, row, with_it)
            for slot in range(SIZE):
                bound = with_it + pairs.joint_gain(at, work, slot)
                assert work.lower[slot] <= bound <= objectives[slot]
                # Adding and removing, each by itself, bound the swap from above: the objective is supermodular.
                assert objectives[slot] <= with_it + swapped.rises.gains[slot]
                tight += bound == objectives[slot]
                below += bound < objectives[slot]
            assert not work.sink_rises.any()
    assert tight > 1000
    assert below > 50


def test_with_the_flow_held_what_pays_pays() -> None:
    pays = 0
    for problem in problems(seed=32, count=150):
        swapped = Swaps(problem, anchored=True)
        found = np.full((len(swapped.rows), 1), -1)
        pairs.slots_at_held_flow(swapped.at(swapped.cost), swapped.work, swapped.rows, found)
        for objectives, slot in zip(swapped.objectives, found[:, 0], strict=True):
            if slot >= 0:
                assert objectives[slot] < swapped.cost
                pays += 1
    assert pays > 100
