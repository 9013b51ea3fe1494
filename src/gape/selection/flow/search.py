"""The search behind `local_search`: a selected set, its optimal flow, and the swaps that both rule out.

A swap pays if it lowers the objective F. Two bounds decide nearly every swap without a flow of its own.

- With the *flow* into the negative weights held fixed, F(S') <= F(S) + the change of a k-median with the weights that
  go to the selected points: a swap that pays there certainly pays.
- With *potentials* that are feasible for S', F(S') >= their dual objective: a swap that does not pay there cannot pay.
  They are combined from those with the candidate and those without the selected point (`pairs.py`, `rises.py`).

The swaps in between are decided by re-optimising the flow, and a swap is made only if the objective itself falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gape._support.compiled import in_threads, threads
from gape.core.types import Indices
from gape.selection.flow import pairs, swaps
from gape.selection.flow import simplex as flow
from gape.selection.flow.effort import LEAST_GAIN, Effort, SearchProgress
from gape.selection.flow.objective import SignedPoints
from gape.selection.flow.rises import Removals

# Near arcs are chosen again when this many nodes have used up their leeway. Choosing takes as long as hundreds of
# flows, so it happens late while each swap takes one flow, and early when many swaps are tried.
_STRAYED_HELD, _STRAYED = 2000, 100

# Candidates examined before the swaps found for them are made: few while many pay, more and more while none does.
_FEWEST, _MOST = 32, 1024
_PIECE = 8  # candidates in one piece of work

_TRIES = 3  # swaps of one candidate tried by the flow, unless there is something to prove
_OPTIONS = 8  # slots remembered for one candidate, as another candidate may take the first in the meantime
_SWAPS_TRIED = 4  # number of these slots that are tried


class Search:
    """Local search over the rows of a candidates-to-sources distance matrix; the same on any number of threads."""

    def __init__(
        self, signed: SignedPoints, candidates: Indices, start: Indices, precision: type[np.floating[Any]] = np.float64
    ) -> None:
        """Start from the candidates at the positions `start`, with distances kept in float64 or float32."""
        self.supply, self.demand = signed.supply, signed.demand
        self.to_candidates = signed.costs(candidates, signed.sources, precision)  # (c, p)
        self.chosen = start.copy()  # rows of to_candidates
        self.is_free = np.ones(len(candidates), dtype=np.bool_)
        self.is_free[start] = False
        self.absent = 4.0 * signed.scale  # the distance to a second selected point if there is none
        self.reserve = swaps.reserve(self.to_candidates, self.chosen)
        self.ranks = swaps.ranks(self.reserve, self.absent)
        costs = signed.costs(signed.sources, signed.sinks, precision)
        self.net = flow.network(costs, signed.supply, signed.demand, self.ranks.first)
        flow.optimise(self.net)
        self.swaps = 0
        self.most_strayed = _STRAYED_HELD
        self.unlimited = np.full_like(signed.supply, np.inf)
        self.rises_without = Removals(self.supply, self.demand, len(start))
        self._anchor()
        self._renew_bounds()
        self.best = (self.chosen.copy(), self.cost)  # replaced in one step, so that an interrupted search can use it

    def run(self, *, certify: bool, progress: Callable[[SearchProgress], None] | None = None) -> None:
        """Swap while it pays: with the flow held, then with the flow re-optimised, then until no swap provably pays."""
        total = len(self.to_candidates)
        # Without negative weights there is no flow to hold, and the first effort is already a proof.
        for effort in Effort if certify and len(self.demand) else (Effort.FLOW_HELD,):
            self._begin(effort)
            candidate = settled = 0
            fewest = 1 if effort == Effort.FLOW_HELD else _FEWEST
            count = fewest
            while settled < total:
                batch = (candidate + np.arange(min(count, total - settled))) % total
                made = self._improve_with(batch[self.is_free[batch]], effort)
                settled = 0 if made else settled + len(batch)
                count = fewest if made or effort == Effort.FLOW_HELD else min(2 * count, _MOST)
                candidate = (candidate + len(batch)) % total
                if progress:
                    progress(SearchProgress(effort, self.cost, self.swaps, settled, total))

    def _begin(self, effort: Effort) -> None:
        self.most_strayed = _STRAYED_HELD if effort == Effort.FLOW_HELD else _STRAYED
        if flow.strayed(self.net) > self.most_strayed:
            self._anchor()

    def _anchor(self) -> None:
        """Choose the near arcs again, for the current potentials."""
        self.net = flow.anchored(self.net)
        self.before = flow.twin(self.net)
        self.works = [pairs.work(self.net, len(self.chosen)) for _ in range(threads())]

    def _renew_bounds(self) -> None:
        self.cost = float(self.net.objective[0])
        self.target = self.cost - LEAST_GAIN * self.cost
        self.held = flow.root_flow(self.net)
        self.removal_changes = swaps.removal_changes(self.ranks, self.held, self.unlimited, len(self.chosen))

    def _improve_with(self, candidates: Indices, effort: Effort) -> int:
        """Swap in the candidates that pay, and count them. With the last effort, 0 proves that none does."""
        slots = self._at_held_flow(candidates) if effort == Effort.FLOW_HELD else self._slots(candidates, effort)
        taken: set[int] = set()
        for candidate, options in zip(candidates.tolist(), slots.tolist(), strict=True):
            for slot in [option for option in options if option >= 0 and option not in taken][:_SWAPS_TRIED]:
                if self._accept(candidate, slot):
                    taken.add(slot)
                    break
        return len(taken)

    def _at_held_flow(self, candidates: Indices) -> Indices:
        """Return for each candidate the slot with which it pays if the flow is held, or -1; (k, 1)."""
        slots = np.full((len(candidates), 1), -1)
        for i, candidate in enumerate(candidates):
            row = self.to_candidates[candidate]
            changes = swaps.swap_changes(self.ranks, row, self.held, self.unlimited, self.removal_changes)
            slot = int(np.argmin(changes))
            if self.cost + changes[slot] < self.target:
                slots[i] = slot
        return slots

    def _slots(self, candidates: Indices, effort: Effort) -> Indices:
        """Return for each candidate the slots with which it may pay, best first, then -1; (k, options)."""
        if effort > Effort.CANDIDATE_ADDED:
            trials = [work.trial for work in self.works]
            self.rises_without.renew(self.net, self.ranks, trials, self.swaps, proof=effort == Effort.PROOF)
        tries = len(self.chosen) if effort == Effort.PROOF else _TRIES
        rises = self.rises_without.rises
        at = pairs.position(self.net, self.ranks, rises, self.supply, self.demand, self.target, tries)
        kernel = pairs.slots_at_held_flow if effort == Effort.CANDIDATE_ADDED else pairs.slots
        slots = np.full((len(candidates), _OPTIONS), -1)

        def find(work: pairs.Work, first: int) -> None:
            piece = slice(first, first + _PIECE)
            rows = self.to_candidates[candidates[piece]].astype(np.float64, copy=False)  # one type, compiled once
            kernel(at, work, rows, slots[piece])

        in_threads(find, self.works, range(0, len(candidates), _PIECE))
        for work in self.works:
            self.rises_without.doubt(work.failures)
            work.failures[:] = 0
        return slots

    def _accept(self, candidate: int, slot: int) -> bool:
        """Make the swap and re-optimise the flow. Undo it unless the objective itself falls below the target."""
        out = int(self.chosen[slot])
        flow.copy_tree(self.net, self.before)
        self._fill(slot, candidate)
        flow.optimise(self.net)
        self.net.objective[0] = flow.total_cost(self.net)
        fell = bool(self.net.objective[0] < self.target)
        if fell:
            self.swaps += 1
            self.rises_without.forget(slot)
        else:
            self._fill(slot, out)
            flow.copy_tree(self.before, self.net)
        if flow.strayed(self.net) > self.most_strayed:
            self._anchor()
        self._renew_bounds()
        self.best = (self.chosen.copy(), self.cost)
        return fell

    def _fill(self, slot: int, candidate: int) -> None:
        """Put a candidate into a slot of the selected set."""
        self.is_free[self.chosen[slot]] = True
        self.is_free[candidate] = False
        self.chosen[slot] = candidate
        swaps.swap(self.ranks, self.reserve, self.to_candidates, self.chosen, slot, self.absent)
        flow.set_root_costs(self.net, self.ranks.first)
