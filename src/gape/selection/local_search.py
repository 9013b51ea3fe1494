"""GAPE's selection: local search over the candidates above a threshold (Algorithm 5), exact.

The objective F(S) is the flow of `objective.flow_cost`. Two bounds, each evaluated for all swaps of one candidate
in one pass over its distances (as FasterPAM does for k-median), decide nearly every swap without a flow:

- with the *flow* into the negative weights held, F(S') <= F(S) + the change of a k-median with the weights that
  go to the selected points: a swap that pays there pays for certain;
- with the *potentials* of the negative weights held, F(S') >= F(S) + the change of a k-median in which a point
  costs at most its detour through them: a swap that does not pay there cannot pay.

The swaps in between are decided by re-optimising the flow. A candidate is done when all of its swaps are ruled
out, and the result is certified when all candidates in turn are done without a change.
"""

from dataclasses import dataclass

import numpy as np

from gape._compiled import compiled
from gape.errors import InputError
from gape.protocols import Selection
from gape.selection import flow
from gape.selection.objective import SignedPoints, flow_cost, signed_points
from gape.types import Floats, Indices, NoisyVotes, Points

# Swaps must lower the objective by this share of it. A certificate is stated for 1e-9; the bounds round at 1e-13.
_LEAST_GAIN = 1e-10


@dataclass(frozen=True)
class LocalSearchResult(Selection):
    """The selected candidates, with what the search did and what it proved."""

    cost: float  # the objective of the selected; infinite where the negative weight exceeds the positive
    swaps: int
    certified: bool  # no single swap lowers the objective by more than 1e-9 of it (distances rounded to 40 bits)
    candidates: int  # how many candidates were above the threshold; none: the one returned is arbitrary


def local_search(
    points: Points, weights: NoisyVotes | Floats, size: int, *, separation: float, threshold: float
) -> LocalSearchResult:
    """Select at most `size` points S with weight above `threshold` such that no single swap lowers F(S).

    F is the minimum-cost flow of `flow_cost` with distances truncated at separation / 3 (Algorithm 5). Where no
    point is above the threshold, or the weights sum to less than zero, the votes say nothing: the paper returns
    any one point, and this returns the one with the largest weight. The start is AugPE's choice, the largest
    weights, so the result is never worse than ranking in this objective. `points` is (v, d), `weights` (v,).
    """
    signed = signed_points(points, weights, separation)
    w = np.asarray(weights, dtype=np.float64)
    if size < 1:
        raise InputError(f"size must be at least 1, got {size}")
    if np.isnan(threshold):
        raise InputError("threshold must be a number, got nan; use 0 to search all candidates with positive votes")
    candidates = np.flatnonzero(w > threshold)
    if not len(candidates) or not signed.feasible:
        only = np.array([np.argmax(w)])
        cost = flow_cost(points, w, only, separation)
        return LocalSearchResult(only, cost, swaps=0, certified=True, candidates=len(candidates))
    start = np.argsort(-w[candidates], kind="stable")[:size]
    if len(candidates) <= size or not len(signed.sources):
        cost = flow_cost(points, w, candidates[start], separation)
        return LocalSearchResult(candidates[start], cost, swaps=0, certified=True, candidates=len(candidates))
    search = _Search(signed, candidates, start)
    swaps = search.run()
    chosen = candidates[search.chosen]
    return LocalSearchResult(chosen, search.cost, swaps, certified=True, candidates=len(candidates))


@dataclass(frozen=True)
class Gape:
    """GAPE's selector (Algorithm 4): local search over the candidates with more than `threshold` noisy votes."""

    separation: float
    threshold: float

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the search is deterministic)
    ) -> LocalSearchResult:
        """Select by local search."""
        return local_search(points, votes, size, separation=self.separation, threshold=self.threshold)


class _Search:
    """The selected set, the flow that is optimal for it, and the bounds that both give."""

    def __init__(self, signed: SignedPoints, candidates: Indices, start: Indices) -> None:
        self.supply = signed.supply
        self.everyone = np.arange(len(signed.supply))
        self.to_candidates = signed.costs(candidates, signed.sources)  # (candidates, p)
        self.chosen = start.copy()  # rows of to_candidates
        self.absent = 4.0 * signed.scale  # stands for the distance to a second selected point where there is one
        self._rank_selected()
        costs = signed.costs(signed.sources, signed.sinks)
        self.net = flow.network(costs, signed.supply, signed.demand, self.first)
        flow.optimise(self.net)
        self.added, self.trial = flow.twin(self.net), flow.twin(self.net)
        self.version = 0
        self.removals = _Removals(len(start), len(signed.supply))
        self._renew_bounds()

    def run(self) -> int:
        """Swap until every candidate in turn has been shown to pay with no selected point; return the swaps."""
        swaps, done, candidate = 0, 0, 0
        everyone = len(self.to_candidates)
        while done < everyone:
            if candidate not in self.members and self._improve_with(candidate):
                swaps, done = swaps + 1, 0
            else:
                done += 1
            candidate = (candidate + 1) % everyone
        return swaps

    def _rank_selected(self) -> None:
        self.members = set(self.chosen.tolist())
        self.near, self.first, self.second = _two_nearest(self.to_candidates, self.chosen, self.absent)

    def _renew_bounds(self) -> None:
        self.cost = float(flow.total_cost(self.net))
        self.least_gain = _LEAST_GAIN * self.cost
        self.held = flow.root_flow(self.net)
        self.detours = flow.detours(self.net, self.everyone)
        self.unlimited = np.full_like(self.detours, np.inf)
        size = len(self.chosen)
        ranks = (self.near, self.first, self.second)
        self.upper_removals = _removals(*ranks, self.held, self.unlimited, size)
        self.lower_removals = _removals(*ranks, self.supply, self.detours, size)

    def _improve_with(self, candidate: int) -> bool:
        """Swap `candidate` in for the selected point that pays, or prove that none does."""
        row = self.to_candidates[candidate]
        ranks = (self.near, self.first, self.second)
        upper = _swap_changes(row, *ranks, self.held, self.unlimited, self.upper_removals)
        slot = int(np.argmin(upper))
        if upper[slot] < -self.least_gain:
            return self._accept(candidate, slot)
        lower = _swap_changes(row, *ranks, self.supply, self.detours, self.lower_removals)
        slots = np.flatnonzero(lower < -self.least_gain)
        slots = np.array(
            [slot for slot in slots.tolist() if not self.removals.exclude(row, slot, self)], dtype=np.int64
        )
        return bool(len(slots)) and self._improve_by_flow(candidate, slots)

    def _improve_by_flow(self, candidate: int, slots: Indices) -> bool:
        """Decide the swaps of `candidate` with `slots` by the flow: first add it, then remove each in turn."""
        row = self.to_candidates[candidate]
        near, first, second = _with_candidate(row, self.near, self.first, self.second)
        flow.copy_tree(self.net, self.added)
        flow.set_root_costs(self.added, first)
        flow.optimise(self.added)
        with_it = float(flow.total_cost(self.added))
        target = self.cost - self.least_gain
        held = flow.root_flow(self.added)
        upper = with_it + _removals(near, first, second, held, self.unlimited, len(self.chosen))
        slot = int(np.argmin(upper))
        if upper[slot] < target:
            return self._accept(candidate, slot)
        losing = np.flatnonzero(np.isin(near, slots))
        limits = flow.detours(self.added, losing)
        loss = np.zeros_like(first)  # bound from below on what each source loses with its nearest selected point
        loss[losing] = np.minimum(second[losing], limits) - np.minimum(first[losing], limits)
        loss *= self.supply
        lower = with_it + np.bincount(near[losing], weights=loss[losing], minlength=len(self.chosen))
        for slot in slots[np.argsort(lower[slots], kind="stable")]:
            if lower[slot] >= target:
                return False
            if self.removals.version[slot] != self.version:
                self.removals.renew(slot, self)
                if self.removals.exclude(row, slot, self):
                    continue
            flow.copy_tree(self.added, self.trial)
            losers = np.flatnonzero(near == slot)
            losers = losers[np.argsort(-loss[losers], kind="stable")]
            if not flow.reaches(self.trial, losers, second, target):
                return self._accept(candidate, int(slot))
        return False

    def _accept(self, candidate: int, slot: int) -> bool:
        """Make the swap and re-optimise the flow; undo it if the objective itself did not fall."""
        removed, before = self.chosen[slot], self.cost
        self.chosen[slot] = candidate
        self._rank_selected()
        flow.copy_tree(self.net, self.trial)
        flow.set_root_costs(self.net, self.first)
        flow.optimise(self.net)
        fell = bool(flow.total_cost(self.net) < before)
        if not fell:
            self.chosen[slot] = removed
            self._rank_selected()
            flow.copy_tree(self.trial, self.net)
        self.version += fell
        self._renew_bounds()
        return fell


class _Removals:
    """What the optimal potentials without each selected point say about every swap of that point."""

    def __init__(self, size: int, sources: int) -> None:
        self.version = np.full(size, -1)  # the version of the selected set at which a row was computed
        self.potentials = np.zeros((size, sources))
        self.rebate = np.full(size, np.inf)  # sum_y |w_y| v_y: the part of the bound that no swap changes

    def renew(self, slot: int, search: _Search) -> None:
        """Re-optimise the flow without `slot`."""
        flow.copy_tree(search.net, search.trial)
        flow.set_root_costs(search.trial, np.where(search.near == slot, search.second, search.first))
        flow.optimise(search.trial)
        self.version[slot] = search.version
        self.potentials[slot] = search.trial.potential[: len(search.supply)]
        self.rebate[slot] = search.supply @ self.potentials[slot] - flow.total_cost(search.trial)

    def exclude(self, row: Floats, slot: int, search: _Search) -> bool:
        """Say whether these potentials rule out a swap of `slot`; those of an earlier selected set are valid too.

        Lowering the potential of a source to a new, smaller distance keeps them dual feasible.
        """
        ranks = (search.near, search.first, search.second)
        bound = _swapped(row, *ranks, slot, search.supply, self.potentials[slot]) - float(self.rebate[slot])
        return bound >= search.cost - search.least_gain


@compiled
def _swapped(
    row: Floats, near: Indices, first: Floats, second: Floats, slot: int, weights: Floats, caps: Floats
) -> float:
    """Return sum_x weight_x min(d(x), cap_x) with a candidate in the place of one selected slot."""
    total = 0.0
    for x in range(row.shape[0]):
        distance = second[x] if near[x] == slot else first[x]
        total += weights[x] * min(row[x], distance, caps[x])
    return total


@compiled
def _two_nearest(to_candidates: Floats, chosen: Indices, absent: float) -> tuple[Indices, Floats, Floats]:
    """Return for every source its nearest selected slot, that distance, and the distance to the second."""
    p = to_candidates.shape[1]
    near = np.zeros(p, dtype=np.int64)
    first = np.full(p, absent)
    second = np.full(p, absent)
    for slot in range(chosen.shape[0]):
        row = to_candidates[chosen[slot]]
        for x in range(p):
            if row[x] < first[x]:
                second[x] = first[x]
                first[x] = row[x]
                near[x] = slot
            elif row[x] < second[x]:
                second[x] = row[x]
    return near, first, second


@compiled
def _with_candidate(row: Floats, near: Indices, first: Floats, second: Floats) -> tuple[Indices, Floats, Floats]:
    """Return the ranks after adding a candidate; -1 marks the sources whose nearest point it becomes."""
    near, first, second = near.copy(), first.copy(), second.copy()
    for x in range(row.shape[0]):
        if row[x] < first[x]:
            near[x] = -1
            second[x] = first[x]
            first[x] = row[x]
        elif row[x] < second[x]:
            second[x] = row[x]
    return near, first, second


@compiled
def _removals(near: Indices, first: Floats, second: Floats, weights: Floats, caps: Floats, size: int) -> Floats:
    """Return the change of sum_x weight_x min(d(x), cap_x) when each selected slot is removed, (size,)."""
    changes = np.zeros(size)
    for x in range(near.shape[0]):
        if near[x] >= 0:
            changes[near[x]] += weights[x] * (min(second[x], caps[x]) - min(first[x], caps[x]))
    return changes


@compiled
def _swap_changes(
    row: Floats,
    near: Indices,
    first: Floats,
    second: Floats,
    weights: Floats,
    caps: Floats,
    removals: Floats,
) -> Floats:
    """Return the change of sum_x weight_x min(d(x), cap_x) when a candidate replaces each selected slot."""
    changes = removals.copy()
    gain = 0.0
    for x in range(row.shape[0]):
        if row[x] < first[x]:
            nearest, cap = min(first[x], caps[x]), caps[x]
            gain += weights[x] * (min(row[x], cap) - nearest)
            changes[near[x]] -= weights[x] * (min(second[x], cap) - nearest)
        elif row[x] < second[x]:
            changes[near[x]] += weights[x] * (min(row[x], caps[x]) - min(second[x], caps[x]))
    return changes + gain
