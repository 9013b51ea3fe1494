"""The search behind `local_search`: a selected set, the flow that is optimal for it, and what both rule out.

Three bounds decide nearly every swap without a flow of its own.

- With the *flow* into the negative weights held, F(S') <= F(S) + the change of a k-median with the weights that go to
  the selected points: a swap that pays there pays for certain.
- With the *potentials* v of the negative weights held, F(S') >= sum_x w_x min(d_S'(x), detour_x) - sum_y |w_y| v_y,
  where detour_x = min_y c(x, y) + v_y: a swap that does not pay there cannot pay. Potentials found for one selected
  set are valid, if weaker, for every other.
- The same with the potentials that are optimal *without* one selected point, for the swaps of that point: the
  strongest.

The swaps in between are decided by re-optimising the flow, and a swap is made only if the objective itself falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gape.selection import flow, swaps
from gape.selection.detours import detours, joint_gain, limits, renew_detours
from gape.selection.effort import LEAST_GAIN, Effort, Progress
from gape.selection.objective import SignedPoints
from gape.types import Floats, Indices

# The detours cost a pass over all distances, as much as trying a few candidates by the flow.
_PATIENCE = 8

# Near arcs are chosen anew, which takes as long as a hundred flows, when so many nodes have used up their leeway.
_STRAYED = 100

# How many of the most promising points are looked at for one candidate, before all of them are.
_TRIES = 3


class Search:
    """Local search over the rows of a candidates-to-sources distance matrix."""

    def __init__(
        self, signed: SignedPoints, candidates: Indices, start: Indices, precision: type[np.floating[Any]] = np.float64
    ) -> None:
        """Start from the candidates at the positions `start`, with distances held in float64 or float32."""
        self.supply, self.demand = signed.supply, signed.demand
        self.to_candidates = signed.costs(candidates, signed.sources, precision)  # (c, p)
        self.chosen = start.copy()  # rows of to_candidates
        self.absent = 4.0 * signed.scale  # stands for the distance to a second selected point where there is none
        self.ranks = swaps.ranks(self.to_candidates, self.chosen, self.absent)
        costs = signed.costs(signed.sources, signed.sinks, precision)
        self.net = flow.network(costs, signed.supply, signed.demand, self.ranks.first)
        flow.optimise(self.net)
        self.swaps = 0
        self._anchor()
        self.detours = detours(self.net)
        self.unlimited = np.full_like(signed.supply, np.inf)
        self.log = swaps.RankLog()
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

    def _anchor(self) -> None:
        """Choose the near arcs anew, for the potentials as they are."""
        self.net = flow.anchored(self.net)
        self.added, self.trial = flow.twin(self.net), flow.twin(self.net)

    def _renew_detours(self) -> None:
        renew_detours(self.net, self.detours)
        sources = np.minimum(self.ranks.first, self.detours.lengths)
        self.rebate = float(self.supply @ sources - flow.total_cost(self.net))
        self.detours_of = self.swaps

    def _renew_bounds(self) -> None:
        self.failures = 0
        self.members = set(self.chosen.tolist())
        self.cost = float(self.net.objective[0])
        self.target = self.cost - LEAST_GAIN * self.cost
        self.held = flow.root_flow(self.net)
        size = len(self.chosen)
        self.upper_removals = swaps.removal_changes(self.ranks, self.held, self.unlimited, size)
        self.lower_removals = swaps.removal_changes(self.ranks, self.supply, self.detours.lengths, size)
        self.lower_cost = float(self.supply @ np.minimum(self.ranks.first, self.detours.lengths)) - self.rebate

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
        changes = swaps.swap_changes(self.ranks, row, self.supply, self.detours.lengths, self.lower_removals)
        slots = np.flatnonzero(self.lower_cost + changes < self.target)
        slots = slots[self.removed.bounds(row, slots) < self.target]
        return bool(len(slots)) and self._improve_by_flow(candidate, slots, effort)

    def _improve_by_flow(self, candidate: int, slots: Indices, effort: Effort) -> bool:
        """Decide the swaps of `candidate` with `slots` by the flow: first add it, then remove each in turn."""
        row = self.to_candidates[candidate]
        ranks = swaps.with_candidate(self.ranks, row)
        flow.copy_tree(self.net, self.added)
        flow.set_root_costs(self.added, ranks.first)
        flow.optimise(self.added)
        with_it = float(self.added.objective[0])
        size = len(self.chosen)
        upper = with_it + swaps.removal_changes(ranks, flow.root_flow(self.added), self.unlimited, size)
        slot = int(np.argmin(upper))
        if upper[slot] < self.target:
            return self._accept(candidate, slot)
        if effort == Effort.CANDIDATE_ADDED:
            return False
        if effort == Effort.BEST_PAIRS:
            return self._improve_with_best_pair(candidate, ranks, with_it, upper, slots)
        losing = np.flatnonzero(np.isin(ranks.near, slots))
        caps = np.full_like(row, np.inf)
        caps[losing] = limits(self.added, losing, ranks.second[losing], self.added.potential[len(row) : -1])
        lower = with_it + swaps.removal_changes(ranks, self.supply, caps, size)
        upper = np.minimum(upper, with_it + self.removed.changes)
        return self._improve_with_any(candidate, ranks, upper, slots[lower[slots] < self.target])

    def _improve_with_best_pair(
        self, candidate: int, ranks: swaps.Ranks, with_it: float, upper: Floats, slots: Indices
    ) -> bool:
        """Remove a slot that is near the added candidate, or one of those that cost the least to remove.

        The objective is supermodular in the selected set (arcs into one node of a network are substitutes), so
        that adding and removing, each by itself, bound the swap from above.
        """
        for slot in slots[np.argsort(upper[slots], kind="stable")][:_TRIES].tolist():
            if self._pays_without(slot, ranks):
                return self._accept(candidate, slot)
        predicted = np.full(len(self.chosen), np.inf)
        predicted[slots] = with_it + self.removed.changes[slots]
        for _ in range(_TRIES):
            slot = int(np.argmin(predicted))
            while predicted[slot] < self.target and self.removed.found_at[slot] != self.swaps:
                self.removed.find(slot)
                predicted[slot] = with_it + self.removed.changes[slot]
                slot = int(np.argmin(predicted))
            if predicted[slot] >= self.target:
                return False
            if self._pays_without(slot, ranks):
                return self._accept(candidate, slot)
            predicted[slot] = np.inf
        return False

    def _improve_with_any(self, candidate: int, ranks: swaps.Ranks, upper: Floats, slots: Indices) -> bool:
        """Remove one after the other of `slots` beside the added candidate; False proves that none pays.

        Added up, the falls of potentials with the candidate and their rises without the slot violate no arc but those
        from sources that rise to sinks that fall, and such sources rise only as far as these allow. That bounds the
        objective from below, exactly where the two do not meet. The rises may have been found for an earlier set.
        """
        row, removed = self.to_candidates[candidate], self.removed
        lowest = np.minimum(self.added.potential, self.net.potential)[:-1]
        p = len(self.supply)
        base = float(self.supply @ lowest[:p] - self.demand @ lowest[p:])
        # The most promising slot is the one with the least middle between its bounds from above and from below.
        middle = removed.bounds(row, slots) + np.minimum(upper[slots], self.cost)
        for slot in slots[np.argsort(middle, kind="stable")].tolist():
            removed.refresh(slot)
            gain = joint_gain(self.net, self.ranks, slot, row, removed.rises[slot], lowest, self.supply, self.demand)
            if base + gain < self.target:
                if self._pays_without(slot, ranks):
                    return self._accept(candidate, slot)
                removed.failures[slot] += 1
        return False

    def _pays_without(self, slot: int, ranks: swaps.Ranks) -> bool:
        """Say whether the objective falls below the target when a slot goes from where a candidate was added."""
        losers = np.flatnonzero(ranks.near == slot)
        loss = self.supply[losers] * (ranks.second[losers] - ranks.first[losers])
        flow.copy_tree(self.added, self.trial)
        return not flow.reaches(self.trial, losers[np.argsort(-loss, kind="stable")], ranks.second, self.target)

    def _accept(self, candidate: int, slot: int) -> bool:
        """Make the swap and re-optimise the flow; undo it if the objective itself did not fall."""
        out, before = self.chosen[slot], self.cost
        flow.copy_tree(self.net, self.trial)
        self._place(candidate, slot)
        flow.optimise(self.net)
        self.net.objective[0] = flow.total_cost(self.net)
        fell = bool(self.net.objective[0] < before)
        if not fell:
            self._place(out, slot)
            flow.copy_tree(self.trial, self.net)
        self.swaps += fell
        if flow.strayed(self.net) > _STRAYED:
            self._anchor()
        self._renew_bounds()
        self.best = (self.chosen.copy(), self.cost)
        return fell

    def _place(self, candidate: int, slot: int) -> None:
        self.chosen[slot] = candidate
        before = swaps.copy_of(self.ranks)
        swaps.swap(self.ranks, self.to_candidates, self.chosen, slot, self.absent)
        self.log.write(before, self.ranks)
        flow.set_root_costs(self.net, self.ranks.first)


class _Removed:
    """The optimal potentials without each selected point, and what they rule out."""

    def __init__(self, search: Search) -> None:
        size, p = len(search.chosen), len(search.supply)
        self.search = search
        self.found_at = np.full(size, -1)  # how many swaps had been made when the potentials were found
        self.failures = np.zeros(size, dtype=np.int64)  # swaps tried in vain since then
        self.summed_at = np.full(size, -1)  # the length of the log when the sum was up to date; -1: never
        self.rises = np.zeros((size, p + len(search.demand)))  # of all potentials, when the slot is removed
        self.potentials = np.zeros((size, p))
        self.rebates = np.full(size, np.inf)  # sum_y |w_y| v_y: the part of the bound that no swap changes
        self.changes = np.full(size, -np.inf)  # of the objective, when the slot is removed; unknown: worth finding out
        self.sums = np.zeros(size)  # sum_x w_x min(d(x), potential_x) with the slot removed

    def bounds(self, row: Floats, slots: Indices) -> Floats:
        """Bound from below the objective with the candidate at `row` in the place of each slot; -inf if unknown."""
        search = self.search
        result = np.full(len(slots), -np.inf)
        is_known = np.isfinite(self.rebates[slots])
        known = slots[is_known]
        if len(known):
            self._sum(known)
            sums = swaps.replaced_sums(search.ranks, row, known, search.supply, self.potentials, self.sums)
            result[is_known] = sums - self.rebates[known]
        return result

    def _sum(self, slots: Indices) -> None:
        """Bring the sums of `slots` up to date: by what has changed since, if that is less than everything."""
        search, log = self.search, self.search.log
        outdated = slots[self.summed_at[slots] != log.length]
        behind = np.where(self.summed_at[outdated] < 0, np.inf, log.length - self.summed_at[outdated])
        is_long = behind > len(search.supply) / 4
        swaps.capped_sums(search.ranks, outdated[is_long], search.supply, self.potentials, self.sums)
        log.add_to(self.sums, outdated[~is_long], self.summed_at, search.supply, self.potentials)
        self.summed_at[outdated] = log.length

    def refresh(self, slot: int) -> None:
        """Find the potentials without `slot` if it is worth it.

        To find them takes as long as to try some swaps by the flow, and serves as long as no swap is made.
        """
        if self.found_at[slot] < 0 or (self.found_at[slot] != self.search.swaps and self.failures[slot] >= _TRIES):
            self.find(slot)

    def find(self, slot: int) -> None:
        """Re-optimise the flow without `slot`."""
        search = self.search
        flow.copy_tree(search.net, search.trial)
        flow.set_root_costs(search.trial, swaps.without(search.ranks, slot))
        flow.optimise(search.trial)
        self.found_at[slot], self.summed_at[slot], self.failures[slot] = search.swaps, -1, 0
        self.rises[slot] = np.maximum(search.trial.potential - search.net.potential, 0.0)[:-1]
        self.potentials[slot] = search.trial.potential[: len(search.supply)]
        cost = float(search.trial.objective[0])
        self.rebates[slot] = search.supply @ self.potentials[slot] - cost
        self.changes[slot] = cost - search.cost
