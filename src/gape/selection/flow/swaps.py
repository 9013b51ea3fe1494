"""The effect of a swap on sum_x weight_x min(d_S(x), cap_x), the k-median part of the local-search objective.

All kernels take the `Ranks` of the sources: the nearest selected point, the next one, and the distances to both.
As in FasterPAM (Schubert & Rousseeuw 2021), all swaps of one candidate are evaluated in one pass over its distances.
"""

from typing import NamedTuple

import numpy as np

from gape._support.compiled import compiled, compiled_part
from gape.core.types import Costs, Floats, Indices

KEPT = 8  # number of nearest selected points kept per source


class Ranks(NamedTuple):
    """The two selected points nearest to each source, (p,) each. Selected points are identified by their slot."""

    near: Indices
    first: Floats  # distance to `near`
    next: Indices
    second: Floats  # distance to `next`


class Reserve(NamedTuple):
    """The `known` nearest selected points of each source, nearest first: the replacements when one is removed.

    Slots and distances are (KEPT, p). With only two, each source that loses one of them would have to search all
    selected points again after every swap.
    """

    slots: Indices  # -1 if none is known
    distances: Floats  # infinite if none is known
    known: Indices  # (p,)
    reach: Floats  # (p,): the distance of the last known point, beyond which there may be others


@compiled
def reserve(to_candidates: Costs, chosen: Indices) -> Reserve:
    """Find the nearest of the chosen rows of `to_candidates`, (c, p), for every source."""
    p = to_candidates.shape[1]
    result = Reserve(np.full((KEPT, p), -1), np.full((KEPT, p), np.inf), np.zeros(p, dtype=np.int64), np.zeros(p))
    for slot in range(chosen.shape[0]):
        row = to_candidates[chosen[slot]]
        for x in range(p):
            if row[x] < result.distances[KEPT - 1, x]:
                _enter(result, x, slot, row[x])
    return result


@compiled_part
def _enter(kept: Reserve, x: int, slot: int, distance: float) -> None:
    rank = min(kept.known[x], KEPT - 1)
    last = rank
    while rank > 0 and distance < kept.distances[rank - 1, x]:
        kept.slots[rank, x], kept.distances[rank, x] = kept.slots[rank - 1, x], kept.distances[rank - 1, x]
        rank -= 1
    kept.slots[rank, x], kept.distances[rank, x] = slot, distance
    kept.known[x], kept.reach[x] = last + 1, kept.distances[last, x]


@compiled_part
def _leave(kept: Reserve, x: int, slot: int) -> None:
    last = kept.known[x] - 1
    rank = 0
    while kept.slots[rank, x] != slot:
        rank += 1
    for later in range(rank, last):
        kept.slots[later, x], kept.distances[later, x] = kept.slots[later + 1, x], kept.distances[later + 1, x]
    kept.slots[last, x], kept.distances[last, x] = -1, np.inf
    kept.known[x], kept.reach[x] = last, kept.distances[last - 1, x] if last > 0 else 0.0


@compiled
def ranks(kept: Reserve, absent: float) -> Ranks:
    """Rank the two nearest; `absent` is the distance to a missing second."""
    near, following = kept.slots[0], kept.slots[1]
    first, second = kept.distances[0], np.minimum(kept.distances[1], absent)
    return Ranks(near.copy(), first.copy(), following.copy(), second)


@compiled_part
def _rank(r: Ranks, kept: Reserve, x: int, absent: float) -> None:
    r.near[x], r.first[x] = kept.slots[0, x], kept.distances[0, x]
    r.next[x], r.second[x] = kept.slots[1, x], min(kept.distances[1, x], absent)


@compiled_part
def copy_of(r: Ranks) -> Ranks:
    """Return a copy of the ranks."""
    return Ranks(r.near.copy(), r.first.copy(), r.next.copy(), r.second.copy())


@compiled_part
def _insert(r: Ranks, x: int, slot: int, distance: float) -> None:
    if distance < r.first[x]:
        r.next[x], r.second[x] = r.near[x], r.first[x]
        r.near[x], r.first[x] = slot, distance
    elif distance < r.second[x]:
        r.next[x], r.second[x] = slot, distance


@compiled
def swap(r: Ranks, kept: Reserve, to_candidates: Costs, chosen: Indices, slot: int, absent: float) -> None:
    """Bring the ranks up to date after `chosen[slot]` has changed."""
    for x in replace_slot(r, kept, to_candidates[chosen[slot]], slot, chosen.shape[0], absent):
        kept.known[x] = 0
        kept.distances[:, x] = np.inf
        for other in range(chosen.shape[0]):
            if to_candidates[chosen[other], x] < kept.distances[KEPT - 1, x]:
                _enter(kept, x, other, to_candidates[chosen[other], x])
        _rank(r, kept, x, absent)


@compiled
def replace_slot(r: Ranks, kept: Reserve, row: Costs, slot: int, size: int, absent: float) -> Indices:
    """Put a new point, at distances `row`, into one of `size` slots; return the sources whose ranks are now unknown."""
    had = kept.slots[0] == slot
    for rank in range(1, KEPT):
        had |= kept.slots[rank] == slot
    unknown = np.zeros(row.shape[0], dtype=np.bool_)
    for x in range(row.shape[0]):
        if had[x]:
            _leave(kept, x, slot)
        if row[x] < kept.reach[x]:
            _enter(kept, x, slot, row[x])
        elif not had[x]:
            continue
        unknown[x] = kept.known[x] < min(2, size)
        _rank(r, kept, x, absent)
    return np.flatnonzero(unknown)


@compiled
def assign(r: Ranks, kept: Reserve, sources: Indices, replacement: Reserve, absent: float) -> None:
    """Overwrite the entries of `sources` by those of `replacement`, in the same order."""
    for i, x in enumerate(sources):
        kept.slots[:, x], kept.distances[:, x] = replacement.slots[:, i], replacement.distances[:, i]
        kept.known[x], kept.reach[x] = replacement.known[i], replacement.reach[i]
        _rank(r, kept, x, absent)


def joined(parts: list[Reserve]) -> Reserve:
    """Concatenate the reserves of several blocks of sources."""
    return Reserve(*(np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)))


@compiled_part
def with_candidate(r: Ranks, row: Costs) -> Ranks:
    """Return the ranks with a candidate added, as slot -1."""
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
