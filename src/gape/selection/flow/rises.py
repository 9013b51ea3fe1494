"""Rises of the potentials when a selected point is removed: a lower bound on the cost of the removal, kept sparse.

For every slot b of the selected set S let r_b >= 0 be rises such that the optimal potentials plus r_b violate no arc
once b is gone. By duality the objective without b is higher by at least sum_x w_x r_b(x) - sum_y |w_y| r_b(y), and by
exactly that if the rises come from a flow re-optimised without b. They are zero almost everywhere. When S changes they
are repaired, in a small fraction of the time that it takes to find them, and found again if repairs have weakened them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gape._support.compiled import compiled, in_threads
from gape.core.types import Floats, Indices
from gape.selection.flow.near import least
from gape.selection.flow.simplex import copy_tree, optimise, set_root_costs
from gape.selection.flow.swaps import Ranks, without
from gape.selection.flow.tree import Network, cost

_SLOTS = 16  # slots in one piece of work

# Rises are found again when repairs have left less than this share of their gain.
_WORN = 0.8


class Rises(NamedTuple):
    """The rises without each of m slots, by slot and by source."""

    starts: Indices  # (m+1,): where the rises of each slot start in the next two
    nodes: Indices
    values: Floats
    gains: Floats  # (m,): lower bounds on the rise of the objective without the slot
    source_starts: Indices  # (p+1,): where the rises of each source start in the next two
    source_slots: Indices
    source_values: Floats
    highest: Floats  # (p,): the largest rise of each source


class Leeway(NamedTuple):
    """The leeway that sinks have left; see `near.py`."""

    spare: float  # the least leeway of the sinks that have any
    strayed: Indices  # the sinks that have none
    farthest: float  # the largest fall of any sink


class Removals:
    """The rises without each slot, brought up to date when the selected set has changed."""

    def __init__(self, supply: Floats, demand: Floats, size: int) -> None:
        """Start with no rises for any of `size` slots."""
        self.supply, self.demand = supply, demand
        self.rises = _by_source(
            [np.zeros(0, dtype=np.int64)] * size, [np.zeros(0)] * size, np.zeros(size), sources=len(supply)
        )
        self._gain_when_found = np.full(size, np.inf)  # infinite if not found yet
        self._found_at = np.full(size, -1)  # number of swaps made by then
        self._failures = np.zeros(size, dtype=np.int64)  # swaps that the rises did not exclude and that did not pay
        self._repaired_at = -1

    def forget(self, slot: int) -> None:
        """Forget the rises of a slot that contains another point now."""
        self._gain_when_found[slot] = np.inf

    def doubt(self, failures: Indices) -> None:
        """Add the numbers of swaps of each slot, (m,), that were tried and did not pay."""
        self._failures += failures

    def renew(self, net: Network, ranks: Ranks, trials: Sequence[Network], swaps: int, *, proof: bool) -> None:
        """Bring the rises up to date with the network and the ranks, after `swaps` swaps.

        For a proof all of them are valid afterwards. Otherwise those that have not failed stay unchanged, as guesses
        that must be tried. `trials` are twins of the network, one for each thread.
        """
        worn = self._failures > 0
        repairing = proof and self._repaired_at != swaps
        if repairing:
            self._repair(net, ranks, trials)
            self._repaired_at = swaps
            worn |= self.rises.gains < _WORN * self._gain_when_found
        wanted = np.flatnonzero(np.isinf(self._gain_when_found) | (worn & (self._found_at != swaps)))
        if len(wanted):
            self._find(net, ranks, trials, wanted)
            self._found_at[wanted], self._failures[wanted] = swaps, 0
        elif repairing:
            sort_by_source(self.rises)

    def _repair(self, net: Network, ranks: Ranks, trials: Sequence[Network]) -> None:
        p, size = len(self.supply), len(self._gain_when_found)
        leeway = leeway_left(net, net.potential[p:-1])

        def repair_piece(_: Network, first: int) -> None:
            slots = np.arange(first, min(first + _SLOTS, size))
            repair(net, ranks, self.rises, leeway, self.supply, self.demand, slots)

        in_threads(repair_piece, trials, range(0, size, _SLOTS))

    def _find(self, net: Network, ranks: Ranks, trials: Sequence[Network], slots: Indices) -> None:
        def find_piece(trial: Network, first: int) -> list[tuple[Indices, Floats]]:
            return [find(net, ranks, slot, trial) for slot in slots[first : first + _SLOTS].tolist()]

        pieces = in_threads(find_piece, trials, range(0, len(slots), _SLOTS))
        old = self.rises
        nodes: list[Indices] = np.split(old.nodes, old.starts[1:-1])
        values: list[Floats] = np.split(old.values, old.starts[1:-1])
        for slot, (risen, by) in zip(slots.tolist(), (pair for piece in pieces for pair in piece), strict=True):
            nodes[slot], values[slot] = risen, by
        self.rises = _by_source(nodes, values, old.gains, sources=len(self.supply))
        sum_gains(self.rises, self.supply, self.demand, slots)
        self._gain_when_found[slots] = self.rises.gains[slots]


def _by_source(nodes: list[Indices], values: list[Floats], gains: Floats, *, sources: int) -> Rises:
    """Concatenate the rises of all slots, and also sort them by source."""
    joined = np.concatenate(nodes)
    count = int((joined < sources).sum())
    rises = Rises(
        starts=np.concatenate([[0], np.cumsum([len(part) for part in nodes])]),
        nodes=joined,
        values=np.concatenate(values),
        gains=gains,
        source_starts=np.zeros(sources + 1, dtype=np.int64),
        source_slots=np.zeros(count, dtype=np.int64),
        source_values=np.zeros(count),
        highest=np.zeros(sources),
    )
    sort_by_source(rises)
    return rises


@compiled
def sort_by_source(rises: Rises) -> None:
    """Bring the view by source up to date."""
    p = rises.highest.shape[0]
    starts = rises.source_starts
    starts[:] = 0
    for x in rises.nodes:
        if x < p:
            starts[x + 1] += 1
    for x in range(p):
        starts[x + 1] += starts[x]
    position = starts[:-1].copy()
    rises.highest[:] = 0.0
    for slot in range(rises.gains.shape[0]):
        for k in range(rises.starts[slot], rises.starts[slot + 1]):
            x = rises.nodes[k]
            if x < p:
                rises.source_slots[position[x]] = slot
                rises.source_values[position[x]] = rises.values[k]
                rises.highest[x] = max(rises.highest[x], rises.values[k])
                position[x] += 1


@compiled
def sum_gains(rises: Rises, supply: Floats, demand: Floats, slots: Indices) -> None:
    """Set the gains of `slots` to the sums that their rises add to the dual objective."""
    p = supply.shape[0]
    for slot in slots:
        gain = 0.0
        for k in range(rises.starts[slot], rises.starts[slot + 1]):
            node = rises.nodes[k]
            gain += (supply[node] if node < p else -demand[node - p]) * rises.values[k]
        rises.gains[slot] = gain


@compiled
def find(net: Network, ranks: Ranks, slot: int, trial: Network) -> tuple[Indices, Floats]:
    """Re-optimise the flow without `slot`; return the nodes that rise, and by how much."""
    copy_tree(net, trial)
    set_root_costs(trial, without(ranks, slot))
    optimise(trial)
    nodes = np.flatnonzero(trial.potential > net.potential)
    return nodes, trial.potential[nodes] - net.potential[nodes]


@compiled
def repair(
    net: Network, ranks: Ranks, rises: Rises, leeway: Leeway, supply: Floats, demand: Floats, slots: Indices
) -> None:
    """Let the sources of `slots` rise as far as the sinks that rise with them and the selected set now allow."""
    p = supply.shape[0]
    sinks = net.potential[p:-1].copy()
    for slot in slots:
        begin, end = rises.starts[slot], rises.starts[slot + 1]
        for k in range(begin, end):
            if rises.nodes[k] >= p:
                sinks[rises.nodes[k] - p] += rises.values[k]
        for k in range(begin, end):
            x = rises.nodes[k]
            if x < p:
                highest = ranks.second[x] if ranks.near[x] == slot else ranks.first[x]
                rises.values[k] = limit(net, x, highest, sinks, leeway) - net.potential[x]
        for k in range(begin, end):
            if rises.nodes[k] >= p:
                sinks[rises.nodes[k] - p] = net.potential[rises.nodes[k]]
    sum_gains(rises, supply, demand, slots)


@compiled
def leeway_left(net: Network, sinks: Floats) -> Leeway:
    """Find the leeway that is left if the sinks are at the potentials `sinks`, (q,), or above."""
    p = net.root_costs.shape[0]
    strayed = np.empty(sinks.shape[0], dtype=np.int64)
    spare, count, farthest = np.inf, 0, 0.0
    for y in range(sinks.shape[0]):
        fallen = net.anchor[p + y] - sinks[y]
        left = net.leeway[p + y] - fallen
        farthest = max(farthest, fallen)
        if left < 0.0:
            strayed[count] = y
            count += 1
        else:
            spare = min(spare, left)
    return Leeway(spare, strayed[:count], farthest)


@compiled
def limit(net: Network, x: int, highest: float, sinks: Floats, leeway: Leeway) -> float:
    """Return the largest potential of a source, up to `highest`, that violates no arc to sinks at `sinks`, (q,).

    Arcs that are not near are examined only where they could matter: their anchored reduced costs are at least twice
    the leeway of either end.
    """
    p = net.root_costs.shape[0]
    result = highest
    for k in range(net.near_starts[x], net.near_starts[x + 1]):
        result = min(result, net.near_costs[k] + sinks[net.near_ends[k] - p])
    rise = result - net.anchor[x]
    if rise + leeway.farthest <= 2.0 * net.leeway[x]:
        return result
    if rise > net.leeway[x] + leeway.spare:
        if net.costs.shape[0]:
            result, _ = least(net.costs[x], sinks, 1.0, result)
        else:
            result, _ = least(net.rounded[x], sinks, 1.0, result)
    else:
        for y in leeway.strayed:
            result = min(result, cost(net, x, y) + sinks[y])
    return result
