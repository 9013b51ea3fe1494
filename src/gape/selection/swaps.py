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
