"""What a swap does to sum_x weight_x min(d_S(x), cap_x): the k-median part of the local-search objective.

All kernels take the `Ranks` of the sources: which selected point is nearest, and how far it and the next one are.
As in FasterPAM (Schubert & Rousseeuw 2021), all swaps of one candidate are evaluated in one pass over its distances.
"""

from typing import NamedTuple

import numpy as np

from gape._compiled import compiled
from gape.types import Costs, Floats, Indices


class Ranks(NamedTuple):
    """The two selected points nearest to every source, (p,) each. Selected points are named by their slot."""

    near: Indices
    first: Floats  # distance to `near`
    next: Indices
    second: Floats  # distance to `next`


@compiled
def ranks(to_candidates: Costs, chosen: Indices, absent: float) -> Ranks:
    """Rank the chosen rows of `to_candidates`, (c, p); `absent` stands for the distance to a missing second."""
    p = to_candidates.shape[1]
    result = Ranks(np.full(p, -1), np.full(p, absent), np.full(p, -1), np.full(p, absent))
    for slot in range(chosen.shape[0]):
        row = to_candidates[chosen[slot]]
        for x in range(p):
            if row[x] < result.second[x]:
                _insert(result, x, slot, row[x])
    return result


@compiled
def copy_of(r: Ranks) -> Ranks:
    """Return ranks of their own."""
    return Ranks(r.near.copy(), r.first.copy(), r.next.copy(), r.second.copy())


@compiled
def _insert(r: Ranks, x: int, slot: int, distance: float) -> None:
    if distance < r.first[x]:
        r.next[x], r.second[x] = r.near[x], r.first[x]
        r.near[x], r.first[x] = slot, distance
    elif distance < r.second[x]:
        r.next[x], r.second[x] = slot, distance


@compiled
def swap(r: Ranks, to_candidates: Costs, chosen: Indices, slot: int, absent: float) -> None:
    """Bring the ranks up to date after `chosen[slot]` has changed."""
    row = to_candidates[chosen[slot]]
    for x in range(r.near.shape[0]):
        if r.near[x] == slot or r.next[x] == slot:
            r.near[x], r.first[x], r.next[x], r.second[x] = -1, absent, -1, absent
            for other in range(chosen.shape[0]):
                _insert(r, x, other, to_candidates[chosen[other], x])
        elif row[x] < r.second[x]:
            _insert(r, x, slot, row[x])


@compiled
def replace_slot(r: Ranks, slot: int, row: Costs) -> Indices:
    """Put a new point, at distances `row`, into a slot; return the sources whose old ranks named that slot.

    Theirs are wrong now: who comes third was not known.
    """
    orphans = np.flatnonzero((r.near == slot) | (r.next == slot))
    for x in range(row.shape[0]):
        if row[x] < r.second[x]:
            _insert(r, x, slot, row[x])
    return orphans


@compiled
def assign(r: Ranks, sources: Indices, ranks: Ranks) -> None:
    """Overwrite the ranks of `sources` by `ranks`, in their order."""
    r.near[sources], r.first[sources] = ranks.near, ranks.first
    r.next[sources], r.second[sources] = ranks.next, ranks.second


def joined(parts: list[Ranks]) -> Ranks:
    """Join the ranks of several blocks of sources."""
    return Ranks(
        near=np.concatenate([part.near for part in parts]),
        first=np.concatenate([part.first for part in parts]),
        next=np.concatenate([part.next for part in parts]),
        second=np.concatenate([part.second for part in parts]),
    )


@compiled
def with_candidate(r: Ranks, row: Costs) -> Ranks:
    """Return the ranks with a candidate added; slot -1 stands for it."""
    result = copy_of(r)
    for x in range(row.shape[0]):
        if row[x] < result.second[x]:
            _insert(result, x, -1, row[x])
    return result


@compiled
def removal_changes(r: Ranks, weights: Floats, caps: Floats, size: int) -> Floats:
    """Return the change of sum_x weight_x min(d(x), cap_x) when each of `size` slots is removed."""
    changes = np.zeros(size)
    for x in range(weights.shape[0]):
        if r.near[x] >= 0:
            changes[r.near[x]] += weights[x] * (min(r.second[x], caps[x]) - min(r.first[x], caps[x]))
    return changes


@compiled
def swap_changes(r: Ranks, row: Costs, weights: Floats, caps: Floats, removals: Floats) -> Floats:
    """Return the change of sum_x weight_x min(d(x), cap_x) when a candidate replaces each slot."""
    changes = removals.copy()
    gain = 0.0
    for x in range(row.shape[0]):
        if row[x] < r.second[x]:
            cap = caps[x]
            if row[x] < r.first[x]:
                nearest = min(r.first[x], cap)
                gain += weights[x] * (min(row[x], cap) - nearest)
                changes[r.near[x]] -= weights[x] * (min(r.second[x], cap) - nearest)
            else:
                changes[r.near[x]] += weights[x] * (min(row[x], cap) - min(r.second[x], cap))
    return changes + gain


@compiled
def without(r: Ranks, slot: int) -> Floats:
    """Return the distances to the nearest selected point with one slot removed, (p,)."""
    distances = r.first.copy()
    for x in range(distances.shape[0]):
        if r.near[x] == slot:
            distances[x] = r.second[x]
    return distances


@compiled
def capped_sums(r: Ranks, slots: Indices, weights: Floats, caps: Floats, sums: Floats) -> None:
    """Set sums[slot] to sum_x weight_x min(d(x), caps[slot, x]) with the slot removed."""
    for slot in slots:
        total = 0.0
        for x in range(weights.shape[0]):
            distance = r.second[x] if r.near[x] == slot else r.first[x]
            total += weights[x] * min(distance, caps[slot, x])
        sums[slot] = total


@compiled
def replaced_sums(r: Ranks, row: Costs, slots: Indices, weights: Floats, caps: Floats, sums: Floats) -> Floats:
    """Return what `capped_sums` would be for each of `slots` with a candidate in its place.

    Only the sources that the candidate is nearer to than their second can change, and those are few.
    """
    closer = np.flatnonzero(row < r.second)
    result = np.empty(slots.shape[0])
    for i in range(slots.shape[0]):
        slot = slots[i]
        total = sums[slot]
        for x in closer:
            distance = min(r.second[x] if r.near[x] == slot else r.first[x], caps[slot, x])
            if row[x] < distance:
                total -= weights[x] * (distance - row[x])
        result[i] = total
    return result


_ENTRIES = 1024  # room of a log at first


class RankLog:
    """What has happened to the ranks, entry by entry, so that sums over all sources can follow them at little cost."""

    def __init__(self) -> None:
        self.length = 0
        self._sources = np.zeros(_ENTRIES, dtype=np.int64)
        self._before = _entries(_ENTRIES)
        self._after = _entries(_ENTRIES)

    def write(self, before: Ranks, after: Ranks) -> None:
        """Note the sources whose nearest selected points have changed."""
        changed = np.flatnonzero(
            (before.near != after.near) | (before.first != after.first) | (before.second != after.second)
        )
        start, end = self.length, self.length + len(changed)
        if end > len(self._sources):
            self._sources = np.resize(self._sources, 2 * end)
            self._before, self._after = _grown(self._before, 2 * end), _grown(self._after, 2 * end)
        self._sources[start:end] = changed
        for log, ranks in ((self._before, before), (self._after, after)):
            log.near[start:end], log.first[start:end] = ranks.near[changed], ranks.first[changed]
            log.next[start:end], log.second[start:end] = ranks.next[changed], ranks.second[changed]
        self.length = end

    def add_to(self, sums: Floats, slots: Indices, since: Indices, weights: Floats, caps: Floats) -> None:
        """Add to sums[slot], see `capped_sums`, what has changed since the log had the length since[slot]."""
        _add_changes(self._sources[: self.length], self._before, self._after, sums, slots, since, weights, caps)


def _entries(count: int) -> Ranks:
    return Ranks(np.zeros(count, np.int64), np.zeros(count), np.zeros(count, np.int64), np.zeros(count))


def _grown(log: Ranks, count: int) -> Ranks:
    near, first, following, second = log
    return Ranks(np.resize(near, count), np.resize(first, count), np.resize(following, count), np.resize(second, count))


@compiled
def _add_changes(
    sources: Indices, before: Ranks, after: Ranks, sums: Floats, slots: Indices, since: Indices, weights: Floats,
    caps: Floats,
) -> None:  # fmt: skip
    for slot in slots:
        for k in range(since[slot], sources.shape[0]):
            x = sources[k]
            old = before.second[k] if before.near[k] == slot else before.first[k]
            new = after.second[k] if after.near[k] == slot else after.first[k]
            sums[slot] += weights[x] * (min(new, caps[slot, x]) - min(old, caps[slot, x]))
