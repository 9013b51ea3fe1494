"""The search behind `local_search`: a selected set, the flow that is optimal for it, and what both rule out.

Three bounds decide nearly every swap without a flow of its own.

- With the *flow* into the negative weights held, F(S') <= F(S) + the change of a k-median with the weights that go to
  the selected points: a swap that pays there pays for certain.
- With the *potentials* v of the negative weights held, F(S') >= sum_x w_x min(d_S'(x), detour_x) - sum_y |w_y| v_y, where
  detour_x = min_y c(x, y) + v_y: a swap that does not pay there cannot pay. Potentials found for one selected set are
  valid, if weaker, for every other.
- The same with the potentials that are optimal *without* one selected point, for the swaps of that point: the strongest.

The swaps in between are decided by re-optimising the flow, and a swap is made only if the objective itself falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gape.selection import flow, swaps
from gape.selection.objective import SignedPoints
from gape.types import Floats, Indices

# Swaps must lower the objective by this share of it. A certificate is stated for 1e-9; the bounds round at 1e-13.
_LEAST_GAIN = 1e-10

# The detours cost a pass over all distances, as much as trying a few candidates by the flow.
_PATIENCE = 8

# Potentials without a selected point serve all candidates, but only until the next swap: first see some fail.
_STEADY = 0


class Effort(IntEnum):
    """How far to go for one candidate. The cheap efforts come first, so that proofs are not made in vain."""

    FLOW_HELD = 0  # take a swap that pays with the flow into the negative weights held
    CANDIDATE_ADDED = 1  # or with the flow re-optimised for the candidate beside all of the selected
    PROOF = 2  # or at all


@dataclass(frozen=True)
class Progress:
    """How far a search is: `settled` of the candidates have been tried with this effort since the last swap."""

    effort: Effort
    cost: float
    swaps: int
    settled: int
    candidates: int


class Search:
    """Local search over the rows of a candidates-to-sources distance matrix."""

    def __init__(self, signed: SignedPoints, candidates: Indices, start: Indices) -> None:
        """Start from the candidates at the positions `start`."""
        self.supply = signed.supply
        self.to_candidates = signed.costs(candidates, signed.sources)  # (c, p)
        self.chosen = start.copy()  # rows of to_candidates
        self.absent = 4.0 * signed.scale  # stands for the distance to a second selected point where there is none
        self.ranks = swaps.ranks(self.to_candidates, self.chosen, self.absent)
        costs = signed.costs(signed.sources, signed.sinks)
        self.net = flow.network(costs, signed.supply, signed.demand, self.ranks.first)
        flow.optimise(self.net)
        self.added, self.trial = flow.twin(self.net), flow.twin(self.net)
        self.swaps = 0
        self.unlimited = np.full_like(signed.supply, np.inf)
        self.removed = _Removed(self)
        self._renew_detours()
        self._renew_bounds()
        self.best = (self.chosen.copy(), self.cost)  # whole at every instant, for an interrupted search

    def run(self, *, certify: bool, progress: Callable[[Progress], None] | None = None) -> None:
        """Swap as long as it pays: with the flow held, then with it re-optimised, then until that is proved."""
        everyone = len(self.to_candidates)
        candidate = 0
        for effort in Effort if certify else (Effort.FLOW_HELD,):
            settled = 0
            while settled < everyone:
                if candidate not in self.members and self._improve_with(candidate, effort):
                    settled = 0
                else:
                    settled += 1
                    self.failures += 1
                candidate = (candidate + 1) % everyone
                if progress:
                    progress(Progress(effort, self.cost, self.swaps, settled, everyone))

    def _renew_detours(self) -> None:
        self.detours = flow.detours(self.net, np.arange(len(self.supply)))
        sources = np.minimum(self.ranks.first, self.detours)
        self.rebate = float(self.supply @ sources - flow.total_cost(self.net))
        self.detours_of = self.swaps

    def _renew_bounds(self) -> None:
        self.failures = 0
        self.members = set(self.chosen.tolist())
        self.cost = float(flow.total_cost(self.net))
        self.target = self.cost - _LEAST_GAIN * self.cost
        self.held = flow.root_flow(self.net)
        size = len(self.chosen)
        self.upper_removals = swaps.removal_changes(self.ranks, self.held, self.unlimited, size)
        self.lower_removals = swaps.removal_changes(self.ranks, self.supply, self.detours, size)
        self.lower_cost = float(self.supply @ np.minimum(self.ranks.first, self.detours)) - self.rebate

    def _improve_with(self, candidate: int, effort: Effort) -> bool:
        """Swap `candidate` in for a selected point if that pays; at full effort, False proves that it does not."""
        row = self.to_candidates[candidate]
        upper = self.cost + swaps.swap_changes(self.ranks, row, self.held, self.unlimited, self.upper_removals)
        slot = int(np.argmin(upper))
        if upper[slot] < self.target:
            return self._accept(candidate, slot)
        if effort == Effort.FLOW_HELD:
            return False
        if self.detours_of != self.swaps and self.failures >= _PATIENCE:
            self._renew_detours()
            self._renew_bounds()
        changes = swaps.swap_changes(self.ranks, row, self.supply, self.detours, self.lower_removals)
        slots = np.flatnonzero(self.lower_cost + changes < self.target)
        slots = self.removed.not_excluded(row, slots)
        return bool(len(slots)) and self._improve_by_flow(candidate, slots, effort)

    def _improve_by_flow(self, candidate: int, slots: Indices, effort: Effort) -> bool:
        """Decide the swaps of `candidate` with `slots` by the flow: first add it, then remove each in turn."""
        row = self.to_candidates[candidate]
        ranks = swaps.with_candidate(self.ranks, row)
        flow.copy_tree(self.net, self.added)
        flow.set_root_costs(self.added, ranks.first)
        flow.optimise(self.added)
        with_it = float(flow.total_cost(self.added))
        size = len(self.chosen)
        upper = with_it + swaps.removal_changes(ranks, flow.root_flow(self.added), self.unlimited, size)
        slot = int(np.argmin(upper))
        if upper[slot] < self.target:
            return self._accept(candidate, slot)
        if effort == Effort.CANDIDATE_ADDED:
            return False
        losing = np.flatnonzero(np.isin(ranks.near, slots))
        limits = np.full_like(row, np.inf)
        limits[losing] = flow.detours(self.added, losing)
        lower = with_it + swaps.removal_changes(ranks, self.supply, limits, size)
        for slot in slots[np.argsort(lower[slots], kind="stable")]:
            if lower[slot] >= self.target:
                return False
            if self.failures >= _STEADY and not len(self.removed.not_excluded(row, np.array([slot]), renew=True)):
                continue
            losers = np.flatnonzero(ranks.near == slot)
            loss = self.supply[losers] * (np.minimum(ranks.second, limits) - np.minimum(ranks.first, limits))[losers]
            flow.copy_tree(self.added, self.trial)
            if not flow.reaches(self.trial, losers[np.argsort(-loss, kind="stable")], ranks.second, self.target):
                return self._accept(candidate, int(slot))
        return False

    def _accept(self, candidate: int, slot: int) -> bool:
        """Make the swap and re-optimise the flow; undo it if the objective itself did not fall."""
        out, before = self.chosen[slot], self.cost
        flow.copy_tree(self.net, self.trial)
        self._place(candidate, slot)
        flow.optimise(self.net)
        fell = bool(flow.total_cost(self.net) < before)
        if not fell:
            self._place(out, slot)
            flow.copy_tree(self.trial, self.net)
        self.swaps += fell
        self._renew_bounds()
        self.best = (self.chosen.copy(), self.cost)
        return fell

    def _place(self, candidate: int, slot: int) -> None:
        self.chosen[slot] = candidate
        swaps.swap(self.ranks, self.to_candidates, self.chosen, slot, self.absent)
        flow.set_root_costs(self.net, self.ranks.first)


class _Removed:
    """The optimal potentials without each selected point, and what they rule out."""

    def __init__(self, search: Search) -> None:
        size, p = len(search.chosen), len(search.supply)
        self.search = search
        self.found_at = np.full(size, -1)  # how many swaps had been made when the potentials were found
        self.summed_at = np.full(size, -1)
        self.potentials = np.zeros((size, p))
        self.rebates = np.full(size, np.inf)  # sum_y |w_y| v_y: the part of the bound that no swap changes
        self.sums = np.zeros(size)  # sum_x w_x min(d(x), potential_x) with the slot removed

    def not_excluded(self, row: Floats, slots: Indices, *, renew: bool = False) -> Indices:
        """Return the slots whose swap for the candidate at `row` these potentials do not rule out."""
        search = self.search
        if renew:
            for slot in slots[self.found_at[slots] != search.swaps]:
                self._find(slot)
        known = slots[np.isfinite(self.rebates[slots])]
        if not len(known):
            return slots
        outdated = known[self.summed_at[known] != search.swaps]
        swaps.capped_sums(search.ranks, outdated, search.supply, self.potentials, self.sums)
        self.summed_at[outdated] = search.swaps
        sums = swaps.replaced_sums(search.ranks, row, known, search.supply, self.potentials, self.sums)
        excluded = known[sums - self.rebates[known] >= search.target]
        return np.setdiff1d(slots, excluded, assume_unique=True)

    def _find(self, slot: int) -> None:
        search = self.search
        flow.copy_tree(search.net, search.trial)
        flow.set_root_costs(search.trial, swaps.without(search.ranks, slot))
        flow.optimise(search.trial)
        self.found_at[slot] = search.swaps
        self.summed_at[slot] = -1
        self.potentials[slot] = search.trial.potential[: len(search.supply)]
        self.rebates[slot] = search.supply @ self.potentials[slot] - flow.total_cost(search.trial)
