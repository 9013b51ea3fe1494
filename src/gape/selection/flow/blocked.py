"""The search in bounded memory, when the costs do not fit: it optimises the flow and the selected points in turn.

With the flow into the negative weights held fixed, the objective is a k-median with the weights that go to the selected
points, and any swap that lowers it lowers the objective. With the selected points held fixed, the objective is one
flow. Each is optimised while the other is held, until no swap is left. Costs are computed in blocks as they are needed,
and kept as far as memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gape.core.types import Costs, Floats, Indices
from gape.selection.flow import simplex as flow
from gape.selection.flow import swaps
from gape.selection.flow.effort import LEAST_GAIN, Effort, SearchProgress
from gape.selection.flow.objective import SignedPoints

_ROWS = 512  # rows of costs computed at once
_BYTES = 4  # of one cost


class BlockedSearch:
    """Local search at held flow, in bounded memory. If no weight is negative, its result is a proven local optimum."""

    def __init__(self, signed: SignedPoints, candidates: Indices, start: Indices, memory: float) -> None:
        """Start from the candidates at the positions `start`, and keep costs in at most `memory` bytes."""
        self.signed, self.candidates = signed, candidates
        self.supply = signed.supply
        self.chosen = start.copy()  # positions in candidates
        self.swaps = 0
        self.absent = 4.0 * signed.scale
        # All arcs and all rows of candidates are used several times: those that are kept are not computed again.
        p, q, c = len(signed.sources), len(signed.sinks), len(candidates)
        keep_arcs = _BYTES * p * q <= memory * 0.45
        keep_rows = _BYTES * c * p <= memory * 0.9 - _BYTES * p * q * keep_arcs
        sources = _Rows(signed, signed.sources, signed.sinks, keep=keep_arcs)
        self.to_candidates = _Rows(signed, candidates, signed.sources, keep=keep_rows)
        columns = sources.columns if keep_arcs else _Rows(signed, signed.sinks, signed.sources, keep=False)
        self.table = flow.ArcTable(sources, columns, signed.scale)
        first = self._nearest_chosen()
        self.net = flow.optimise_by(flow.network_of(self.table, signed.supply, signed.demand, first), self.table)
        self.cost = flow.total_cost(self.net)
        self.best = (self.chosen.copy(), self.cost)

    def run(self, *, certify: bool, progress: Callable[[SearchProgress], None] | None = None) -> None:  # noqa: ARG002
        """Swap at held flow and re-optimise the flow, until no swap pays."""
        while self._swap_at_held_flow(progress):
            flow.set_root_costs(self.net, self._nearest_chosen())
            self.net = flow.optimise_by(self.net, self.table)
            self.cost = flow.total_cost(self.net)
            self.best = (self.chosen.copy(), self.cost)
            if not len(self.signed.sinks):
                return  # no flow has changed, and no swap was left

    def _swap_at_held_flow(self, progress: Callable[[SearchProgress], None] | None) -> int:
        """Bring the k-median with the weights that go to the selected points to a local optimum; return the swaps."""
        held = flow.root_flow(self.net)
        kept = np.flatnonzero(held > 0)
        if not len(kept):  # the negative weights take everything
            return 0
        weights = held[kept]
        reserve = self._reserve(kept)
        ranks = swaps.ranks(reserve, self.absent)
        unlimited = np.full(len(kept), np.inf)
        removals = swaps.removal_changes(ranks, weights, unlimited, len(self.chosen))
        cost = self.cost
        made = settled = 0
        members = set(self.chosen.tolist())
        for candidate, row in self._endless_rows(kept):
            settled += 1
            if candidate not in members:
                changes = swaps.swap_changes(ranks, row, weights, unlimited, removals)
                slot = int(np.argmin(changes))
                if changes[slot] < -LEAST_GAIN * cost:
                    members.remove(int(self.chosen[slot]))
                    members.add(candidate)
                    self.chosen[slot] = candidate
                    orphans = swaps.replace_slot(ranks, reserve, row, slot, len(self.chosen), self.absent)
                    if len(orphans):
                        swaps.assign(ranks, reserve, orphans, self._reserve(kept[orphans]), self.absent)
                    removals = swaps.removal_changes(ranks, weights, unlimited, len(self.chosen))
                    cost += float(changes[slot])
                    made += 1
                    self.swaps += 1
                    settled = 0
            if progress:
                progress(SearchProgress(Effort.FLOW_HELD, cost, self.swaps, settled, len(self.candidates)))
            if settled >= len(self.candidates):
                break
        return made

    def _endless_rows(self, kept: Indices) -> Iterator[tuple[int, Costs]]:
        """Yield the distances of each candidate to the sources `kept`, in an endless cycle."""
        while True:
            for start in range(0, len(self.candidates), _ROWS):
                block = self.to_candidates(slice(start, start + _ROWS), kept)
                for offset, row in enumerate(block):
                    yield start + offset, row

    def _reserve(self, kept: Indices) -> swaps.Reserve:
        """Find the nearest chosen points of the sources `kept`, one block of sources at a time."""
        parts = []
        for start in range(0, len(kept), _ROWS):
            costs = self.to_candidates.block(self.chosen, kept[start : start + _ROWS])
            parts.append(swaps.reserve(costs, np.arange(len(self.chosen))))
        return swaps.joined(parts)

    def _nearest_chosen(self) -> Floats:
        return swaps.ranks(self._reserve(np.arange(len(self.supply))), self.absent).first


class _Rows:
    """Costs between two sets of points, one block of rows at a time; with `keep`, kept in float32."""

    def __init__(self, signed: SignedPoints, rows: Indices, columns: Indices, *, keep: bool) -> None:
        self._signed, self._rows, self._columns = signed, rows, columns
        self._kept = signed.costs(rows, columns, dtype=np.float32) if keep else None

    def __call__(self, block: slice, columns: Indices | None = None) -> Costs:
        all_columns = columns is None or len(columns) == len(self._columns)
        if self._kept is not None and all_columns:
            return self._kept[block]
        rows = np.arange(len(self._rows))[block]
        return self.block(rows, np.arange(len(self._columns)) if columns is None else columns)

    def block(self, rows: Indices, columns: Indices) -> Costs:
        """Return the costs of some rows and columns, row by row in memory as the kernels read them."""
        if self._kept is None:
            return self._signed.costs(self._rows[rows], self._columns[columns], dtype=np.float32)
        return self._kept[rows[:, None], columns]

    def columns(self, block: slice) -> Costs:
        """Return kept costs by column."""
        if self._kept is None:
            raise RuntimeError("these costs are not kept")
        return self._kept[:, block].T.copy()
