"""How far the sources' potentials may rise: bounds on the objective for sets that are not selected yet."""

from typing import NamedTuple

import numpy as np

from gape._compiled import compiled
from gape.selection.near import least
from gape.selection.swaps import Ranks
from gape.selection.tree import Network
from gape.types import Costs, Floats, Indices


@compiled
def limits(net: Network, sources: Indices, highest: Floats, sinks: Floats) -> Floats:
    """Return the largest potential, up to `highest`, of each of `sources` that violates no arc to the sinks.

    `sinks`, (q,), are the potentials of the sinks. Arcs that are not near are looked at only where they could matter.
    """
    left = _leeway_left(net, sinks)
    result = np.empty(sources.shape[0])
    for i in range(sources.shape[0]):
        result[i] = _limit(net, sources[i], highest[i], sinks, left)
    return result


class _Leeway(NamedTuple):
    spare: float  # the least leeway left to the sinks that have any
    strayed: int  # how many sinks have none: they are listed in the network
    farthest: float  # how far these have fallen at most


@compiled
def _leeway_left(net: Network, sinks: Floats) -> _Leeway:
    p = net.root_costs.shape[0]
    spare, strayed, farthest = np.inf, 0, 0.0
    for y in range(sinks.shape[0]):
        fallen = net.anchor[p + y] - sinks[y]
        left = net.leeway[p + y] - fallen
        if left < 0.0:
            net.strayed[strayed] = y
            strayed += 1
            farthest = max(farthest, fallen)
        else:
            spare = min(spare, left)
    return _Leeway(spare, strayed, farthest)


@compiled
def _limit(net: Network, x: int, highest: float, sinks: Floats, left: _Leeway) -> float:
    """Return the largest potential of one source, as `limits` does."""
    p = net.root_costs.shape[0]
    limit = highest
    for k in range(net.near_starts[x], net.near_starts[x + 1]):
        limit = min(limit, net.near_costs[k] + sinks[net.near_ends[k] - p])
    rise = limit - net.anchor[x]
    if rise > net.leeway[x] + left.spare:
        limit, _ = least(net.costs[x], sinks, 1.0, limit)
    elif rise > 2.0 * net.leeway[x] - left.farthest:
        for k in range(left.strayed):
            y = net.strayed[k]
            limit = min(limit, net.costs[x, y] + sinks[y])
    return limit


@compiled
def joint_gain(
    net: Network, ranks: Ranks, slot: int, row: Costs, rises: Floats, lowest: Floats, supply: Floats, demand: Floats
) -> float:
    """Return by how much the dual objective rises from `lowest` when the sinks rise by `rises` and a slot is replaced.

    The potentials `lowest`, (p+q,), violate no arc, nor will they with the candidate at distances `row` beside all
    selected points. The sources whose `rises` are positive go up as far as the sinks, the candidate and the selected
    points but `slot` allow.
    """
    p = supply.shape[0]
    sinks = lowest[p:] + rises[p:]
    gain = -float((demand * rises[p:]).sum())
    left = _leeway_left(net, sinks)
    for x in range(p):
        if rises[x] > 0.0:
            highest = min(ranks.second[x] if ranks.near[x] == slot else ranks.first[x], row[x])
            limit = _limit(net, x, highest, sinks, left)
            if limit > lowest[x]:
                gain += supply[x] * (limit - lowest[x])
    return gain


class Detours(NamedTuple):
    """min_y c(x, y) + v_y for every source: what its weight costs at most, wherever S goes.

    With the sinks' potentials v held, sum_x w_x min(d_S'(x), detour_x) - sum_y |w_y| v_y is dual feasible for
    every S', and so a lower bound on the objective of every S'.
    """

    lengths: Floats  # (p,)
    through: Indices  # (p,): the sink
    potentials: Floats  # (q,): of the sinks, v


@compiled
def detours(net: Network) -> Detours:
    """Find the detours at the potentials as they are."""
    p, q = net.costs.shape
    found = Detours(np.full(p, np.inf), np.full(p, -1), net.potential[p : p + q].copy())
    for x in range(p):
        found.lengths[x], found.through[x] = least(net.costs[x], found.potentials, 1.0, np.inf)
    return found


@compiled
def renew_detours(net: Network, known: Detours) -> None:
    """Bring detours up to date: only those through a sink that has risen are searched for anew."""
    p, q = net.costs.shape
    risen = net.potential[p : p + q] > known.potentials
    fallen = np.flatnonzero(net.potential[p : p + q] < known.potentials)
    known.potentials[:] = net.potential[p : p + q]
    for y in fallen:
        costs, v = net.costs_by_sink[y], known.potentials[y]
        for x in range(p):
            if costs[x] + v < known.lengths[x]:
                known.lengths[x], known.through[x] = costs[x] + v, y
    for x in range(p):
        y = known.through[x]
        if y >= 0 and (risen[y] or known.lengths[x] != net.costs[x, y] + known.potentials[y]):
            known.lengths[x], known.through[x] = least(net.costs[x], known.potentials, 1.0, np.inf)
