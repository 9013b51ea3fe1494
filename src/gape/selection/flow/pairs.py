"""All swaps of one candidate at once: they are excluded by bounds, or decided by the flow.

Let a be a candidate and r_b the rises without the selected point b (`rises.py`). Start from potentials that are
feasible with a beside all selected points, and add r_b. That can violate only arcs of sources that rise: to a itself,
and to sinks that a has made fall. If such sources are held back as far as needed, the potentials are feasible for the
swap, and their dual objective bounds it from below. Most pairs do not interact at all, and then the bound is the exact
objective: the changes by adding and by removing add up. The bounds come in three strengths.

1. The sinks do not fall; sources nearer to a than their potential do. No flow is needed.
2. Potentials re-optimised with a. One pass over the sources that a holds back bounds the swaps with all slots.
3. The same for one slot, with the sinks that rise when it is removed.
"""

from typing import NamedTuple

import numpy as np

from gape._support.compiled import compiled, compiled_part, overwrite
from gape.core.types import Costs, Floats, Indices
from gape.selection.flow.rises import Rises
from gape.selection.flow.simplex import copy_tree, optimise, reaches, root_flow, set_root_costs, twin
from gape.selection.flow.swaps import Ranks, removal_changes, with_candidate
from gape.selection.flow.tree import Network, cost


class Position(NamedTuple):
    """The common starting point of the swaps of all candidates. It is read-only."""

    net: Network  # optimal for the selected set
    ranks: Ranks
    rises: Rises
    supply: Floats
    demand: Floats
    strayed: Indices  # the sources that rise beyond their leeway without some slot
    target: float  # the objective must fall below it
    tries: int  # maximum number of swaps of a candidate that are tried by the flow


class Work(NamedTuple):
    """The memory that one thread writes to."""

    added: Network  # with a candidate beside all selected points
    trial: Network
    root_costs: Floats  # (p,): of `added`
    lowest: Floats  # (p+q,): potentials feasible with the candidate, nowhere above the optimal ones
    near_caps: Floats  # (p,): how far the near arcs to fallen sinks let each source rise
    far_caps: Floats  # (p,): how far the other arcs to them and to the candidate let it rise
    fallen: Indices  # (q,): the sinks that have fallen
    sink_rises: Floats  # (q,): of one slot; zero between uses
    lower: Floats  # (m,): bounds on the objective with the candidate in the place of each slot
    failures: Indices  # (m,): swaps of each slot that were tried and did not pay
    unlimited: Floats  # (p,): infinity


def position(
    net: Network, ranks: Ranks, rises: Rises, supply: Floats, demand: Floats, target: float, tries: int
) -> Position:
    """Assemble the common starting point of the swaps of all candidates."""
    p = len(supply)
    strayed = np.flatnonzero(net.potential[:p] + rises.highest - net.anchor[:p] > net.leeway[:p])
    return Position(net, ranks, rises, supply, demand, strayed, target, tries)


def work(net: Network, size: int) -> Work:
    """Allocate the memory of one thread."""
    p = len(net.root_costs)
    q = len(net.anchor) - p
    return Work(
        added=twin(net),
        trial=twin(net),
        root_costs=np.zeros(p),
        lowest=np.zeros(p + q),
        near_caps=np.zeros(p),
        far_caps=np.zeros(p),
        fallen=np.zeros(q, dtype=np.int64),
        sink_rises=np.zeros(q),
        lower=np.zeros(size),
        failures=np.zeros(size, dtype=np.int64),
        unlimited=np.full(p, np.inf),
    )


@compiled
def slots_at_held_flow(at: Position, work: Work, rows: Floats, slots_found: Indices) -> None:
    """Find for the candidates at distances `rows`, (k, p), the slot to remove from the flow with the candidate added.

    That flow is held. `slots_found`, (k, options), starts with the slot where the swap pays; -1 means none.
    """
    for i in range(rows.shape[0]):
        objective = add(at, work, rows[i])
        ranks = with_candidate(at.ranks, rows[i])
        changes = removal_changes(ranks, root_flow(work.added), work.unlimited, work.lower.shape[0])
        slot = np.argmin(changes)
        if objective + changes[slot] < at.target:
            slots_found[i, 0] = slot


@compiled
def slots(at: Position, work: Work, rows: Floats, slots_found: Indices) -> None:
    """Find for the candidates at distances `rows`, (k, p), a slot such that the swap pays.

    `slots_found`, (k, options), starts with that slot, followed by others that may pay; -1 means none. If the rises are
    valid and the number of tries is not limited, none proves that no swap of the candidate pays.
    """
    for i in range(rows.shape[0]):
        bound_without_flow(at, work, rows[i])
        undecided = np.flatnonzero(work.lower < at.target)
        if undecided.shape[0]:
            _decide(at, work, rows[i], undecided, slots_found[i])


@compiled_part
def _decide(at: Position, work: Work, row: Floats, undecided: Indices, slots_found: Indices) -> None:
    """Find the slots with which the candidate pays among those that the first bound leaves undecided."""
    objective = add(at, work, row)
    bound_with_flow(at, work, row, objective)
    undecided = undecided[work.lower[undecided] < at.target]
    bounds = np.empty(undecided.shape[0])
    for i in range(undecided.shape[0]):
        bounds[i] = objective + joint_gain(at, work, undecided[i])
    options = failures = 0
    for i in np.argsort(bounds, kind="mergesort"):
        if bounds[i] >= at.target or options == slots_found.shape[0] or failures == at.tries:
            break
        if options or _pays(at, work, row, undecided[i]):
            slots_found[options] = undecided[i]
            options += 1
        else:
            work.failures[undecided[i]] += 1
            failures += 1


@compiled
def bound_without_flow(at: Position, work: Work, row: Floats) -> None:
    """Bound the objective with the candidate in each slot, with the sinks where they are or higher."""
    rises, lower = at.rises, work.lower
    overwrite(lower, rises.gains)
    objective = at.net.objective[0]
    for x in range(row.shape[0]):
        potential, cap = at.net.potential[x], float(row[x])
        if cap < potential + rises.highest[x]:
            if cap < potential:
                objective -= at.supply[x] * (potential - cap)
                potential = cap
            _hold_back(at, lower, x, potential, cap)
    lower += objective


@compiled_part
def _hold_back(at: Position, lower: Floats, x: int, potential: float, cap: float) -> None:
    """Subtract from the bound of each slot the loss if source `x`, now at `potential`, rises at most to `cap`."""
    rises = at.rises
    for k in range(rises.source_starts[x], rises.source_starts[x + 1]):
        excess = potential + rises.source_values[k] - cap
        if excess > 0.0:
            lower[rises.source_slots[k]] -= at.supply[x] * excess


@compiled
def add(at: Position, work: Work, row: Floats) -> float:
    """Re-optimise the flow with the candidate; return the dual objective of the lower of new and old potentials."""
    net, added = at.net, work.added
    p = row.shape[0]
    copy_tree(net, added)
    for x in range(p):
        work.root_costs[x] = min(at.ranks.first[x], row[x])
    set_root_costs(added, work.root_costs)
    optimise(added)
    objective = net.objective[0]
    for node in range(net.anchor.shape[0]):
        fall = max(net.potential[node] - added.potential[node], 0.0)
        objective -= (at.supply[node] if node < p else -at.demand[node - p]) * fall
        work.lowest[node] = net.potential[node] - fall
    return float(objective)


@compiled
def bound_with_flow(at: Position, work: Work, row: Floats, objective: float) -> None:
    """Bound the objective with the candidate in each slot, from the potentials with the candidate.

    The sinks that rise with a slot are assumed to stay, so that the limits of the sources are the same for all slots.
    """
    _find_caps(at, work, row)
    lower = work.lower
    overwrite(lower, at.rises.gains)
    for x in range(row.shape[0]):
        cap = min(work.near_caps[x], work.far_caps[x])
        if cap < work.lowest[x] + at.rises.highest[x]:
            _hold_back(at, lower, x, work.lowest[x], cap)
    lower += objective


@compiled_part
def _find_caps(at: Position, work: Work, row: Floats) -> None:
    """Find how far sources may rise before an arc to a sink that has fallen, or to the candidate, is violated.

    An arc that is not near cannot be violated while both of its ends stay within their leeway, nor while both together
    move by less than twice the leeway of either.
    """
    net, lowest = at.net, work.lowest
    p = row.shape[0]
    near, far = work.near_caps, work.far_caps
    near[:] = np.inf
    overwrite(far, row)
    count, farthest = 0, 0.0
    for y in range(net.anchor.shape[0] - p):
        v = lowest[p + y]
        if v < net.potential[p + y]:
            work.fallen[count] = y
            count += 1
            for k in range(net.near_starts[p + y], net.near_starts[p + y + 1]):
                x = net.near_ends[k]
                near[x] = min(near[x], net.near_costs[k] + v)
            by = net.anchor[p + y] - v
            farthest = max(farthest, by)
            if by > net.leeway[p + y]:
                if net.costs.shape[0]:
                    _lower(far, net.costs_by_sink[y], v)
                else:
                    _lower(far, net.rounded_by_sink[y], v)
    if not count:
        return
    for x in at.strayed:
        rise = lowest[x] + at.rises.highest[x] - net.anchor[x]
        if rise + farthest > 2.0 * net.leeway[x]:
            for y in work.fallen[:count]:
                v = lowest[p + y]
                if rise + net.anchor[p + y] - v > 2.0 * max(net.leeway[x], net.leeway[p + y]):
                    far[x] = min(far[x], cost(net, x, y) + v)


@compiled_part
def _lower(caps: Floats, costs: Costs, v: float) -> None:
    for x in range(caps.shape[0]):
        caps[x] = min(caps[x], costs[x] + v)


@compiled
def joint_gain(at: Position, work: Work, slot: int) -> float:
    """Return a lower bound on the rise of the dual objective from `lowest` when a slot is removed."""
    net, rises, lowest = at.net, at.rises, work.lowest
    p = at.supply.shape[0]
    begin, end = rises.starts[slot], rises.starts[slot + 1]
    for k in range(begin, end):
        if rises.nodes[k] >= p:
            work.sink_rises[rises.nodes[k] - p] = rises.values[k]
    gain = rises.gains[slot]
    for k in range(begin, end):
        x = rises.nodes[k]
        if x < p:
            wanted = lowest[x] + rises.values[k]
            if min(work.near_caps[x], work.far_caps[x]) < wanted:
                cap = min(wanted, work.far_caps[x])
                for j in range(net.near_starts[x], net.near_starts[x + 1]):
                    y = net.near_ends[j]
                    cap = min(cap, net.near_costs[j] + lowest[y] + work.sink_rises[y - p])
                gain -= at.supply[x] * (wanted - cap)
    for k in range(begin, end):
        if rises.nodes[k] >= p:
            work.sink_rises[rises.nodes[k] - p] = 0.0
    return float(gain)


@compiled_part
def _pays(at: Position, work: Work, row: Floats, slot: int) -> bool:
    """Whether the objective falls below the target when a slot is removed after the candidate was added."""
    ranks, raised = at.ranks, work.root_costs
    losers = np.flatnonzero((ranks.near == slot) & (row > ranks.first))
    loss = np.empty(losers.shape[0])
    for i in range(losers.shape[0]):
        x = losers[i]
        raised[x] = min(ranks.second[x], row[x])
        loss[i] = at.supply[x] * (raised[x] - ranks.first[x])
    copy_tree(work.added, work.trial)
    reached = reaches(work.trial, losers[np.argsort(-loss, kind="mergesort")], raised, at.target)
    for x in losers:
        raised[x] = ranks.first[x]
    return not reached
