"""The minimum-cost flow inside the local-search objective, kept optimal while the selected set changes.

For a selected set S let d_S(x) be the truncated distance from x to its nearest member. The paper's objective
(Definition "Local-Search Objective") is the transportation problem

    min_f  sum_{x in D+} sum_{y in D-} c(x, y) f(x, y)  +  sum_{x in D+} d_S(x) f(x, root)
    s.t.   sum_y f(x, y) + f(x, root) = w_x   for x in D+,      sum_x f(x, y) = -w_y   for y in D-,   f >= 0,

where the root stands for "nearest selected point". Only the cost of the arcs into the root depends on S, so a
swap changes a few arc costs of one network, and a primal network simplex re-optimises from the spanning tree
it has (`tree.py`). Costs are multiples of a power of two, so potentials are exact in float64.
"""

import numpy as np

from gape._compiled import compiled
from gape.selection.tree import Network, dequeue, enqueue, link, pivot, shift_subtree
from gape.types import Floats, Indices

# Costs are rounded to this share of the largest (1e-12): sums of thousands of them stay exact in float64.
_COST_BITS = 40
_WEIGHT_BITS = 51
_NEAR = 48  # arcs of a node that are priced at once; the rest are priced together, when these have run out
_TREE = (
    "root_costs", "parent", "first_child", "next_sibling", "previous_sibling", "depth", "flow", "potential", "proved",
)  # fmt: skip
_CHUNK = 128  # arcs looked at together; one vectorised test rejects nearly all chunks


def on_grid(costs: Floats, largest: float) -> Floats:
    """Round costs to multiples of a power of two, 2^-40 of the largest: exact in every later sum."""
    if largest <= 0:
        return np.zeros_like(costs)
    grid = 2.0 ** (np.ceil(np.log2(largest)) - _COST_BITS)
    rounded: Floats = np.rint(costs / grid) * grid
    return rounded


def weights_on_grid(weights: Floats) -> Floats:
    """Round weights so that every sum of them is exact in float64; integers are left as they are."""
    if np.array_equal(weights, np.rint(weights)):
        return weights
    grid = 2.0 ** (np.ceil(np.log2(np.abs(weights).sum())) - _WEIGHT_BITS)
    rounded: Floats = np.rint(weights / grid) * grid
    return rounded


def network(costs: Floats, supply: Floats, demand: Floats, root_costs: Floats) -> Network:
    """Build the network at its star-shaped start: sources send to the root, the root feeds the sinks."""
    p, q = costs.shape
    nodes = p + q + 1
    largest = max(float(costs.max(initial=0.0)), float(root_costs.max(initial=0.0)))
    # A unit through an artificial arc can always be sent directly instead, for at most `largest`.
    artificial = 2.0 ** np.ceil(np.log2(largest) + 1) if largest > 0 else 1.0
    by_sink = np.ascontiguousarray(costs.T)
    near_sinks, near_sink_costs = _nearest(costs)
    near_sources, near_source_costs = _nearest(by_sink)
    net = Network(
        costs=np.ascontiguousarray(costs),
        costs_by_sink=by_sink,
        near_sinks=near_sinks,
        near_sink_costs=near_sink_costs,
        near_sources=near_sources,
        near_source_costs=near_source_costs,
        root_costs=root_costs.copy(),
        parent=np.full(nodes, p + q, dtype=np.int64),
        first_child=np.full(nodes, -1, dtype=np.int64),
        next_sibling=np.full(nodes, -1, dtype=np.int64),
        previous_sibling=np.full(nodes, -1, dtype=np.int64),
        depth=np.ones(nodes, dtype=np.int64),
        flow=np.concatenate([supply, demand, [0.0]]),
        potential=np.concatenate([root_costs, np.full(q, -artificial), [0.0]]),
        proved=np.zeros(nodes),  # no arc is violated where all potentials are equal, as no cost is negative
        queue=np.zeros(nodes, dtype=np.int64),
        queued=np.zeros(nodes, dtype=np.bool_),
        ends=np.zeros(2, dtype=np.int64),
        scratch=np.zeros(nodes, dtype=np.int64),
        artificial=float(artificial),
    )
    net.parent[-1] = -1
    net.depth[-1] = 0
    for node in range(p + q):
        link(net, node, p + q)
    for source in range(p):
        enqueue(net, source)
    return net


def copy_tree(origin: Network, target: Network) -> None:
    """Overwrite the tree and the root costs of `target` by those of `origin`."""
    for name in _TREE:
        np.copyto(getattr(target, name), getattr(origin, name))


def twin(net: Network) -> Network:
    """Return a network that shares the costs but has a tree of its own, to try a change and drop it."""
    own = (*_TREE, "queue", "queued", "ends", "scratch")
    return net._replace(**{name: getattr(net, name).copy() for name in own})


def _nearest(costs: Floats) -> tuple[Indices, Floats]:
    """Return the columns of the least costs in every row, and those costs."""
    rows, columns = costs.shape
    k = min(_NEAR, columns)
    indices = np.empty((rows, k), dtype=np.int64)
    for start in range(0, rows, 256):
        block = costs[start : start + 256]
        indices[start : start + 256] = np.argpartition(block, k - 1, axis=1)[:, :k] if 0 < k < columns else np.arange(k)
    return indices, np.take_along_axis(costs, indices, axis=1)


@compiled
def optimise(net: Network) -> int:
    """Pivot until no arc is violated; return the number of pivots."""
    pivots = 0
    while True:
        found = _pivot_on_near_arcs(net)
        found += _pivot_on_all_arcs(net)
        pivots += found
        if found == 0:
            break
    net.proved[:] = net.potential
    return pivots


@compiled
def _pivot_on_near_arcs(net: Network) -> int:
    """Pivot until no near arc of a queued node is violated, nor any arc to the root."""
    p, q = net.costs.shape
    pivots = 0
    while net.ends[1]:
        node = dequeue(net)
        here = net.potential[node]
        best, target = here, -1
        if node < p:
            if net.root_costs[node] < best:
                best, target = net.root_costs[node], p + q
            for k in range(net.near_sinks.shape[1]):
                sink = p + net.near_sinks[node, k]
                through = net.near_sink_costs[node, k] + net.potential[sink]
                if through < best:
                    best, target = through, sink
            if target >= 0:
                pivot(net, node, target, best - here)
        else:
            for k in range(net.near_sources.shape[1]):
                source = net.near_sources[node - p, k]
                value = net.potential[source] - net.near_source_costs[node - p, k]
                if value > best:
                    best, target = value, source
            if target >= 0:
                pivot(net, target, node, here - best)
        if target >= 0:
            enqueue(net, node)
            pivots += 1
    return pivots


@compiled
def _pivot_on_all_arcs(net: Network) -> int:
    """Price all arcs that may be violated, and pivot on the worst of each node; 0 proves that none is.

    The arcs of a source that has not risen above its proved potential, with the sinks that have not fallen below
    theirs, need no look.
    """
    p, q = net.costs.shape
    pivots = 0
    for node in range(p + q):
        here = net.potential[node]
        if node < p and here > net.proved[node]:
            through, target = _least(net.costs[node], net.potential[p : p + q], 1.0, here)
            if target >= 0:
                pivot(net, node, p + target, through - here)
        elif node >= p and here < net.proved[node]:
            through, target = _least(net.costs_by_sink[node - p], net.potential[:p], -1.0, -here)
            if target >= 0:
                pivot(net, target, node, here + through)
        else:
            continue
        if target >= 0:
            enqueue(net, node)
            pivots += 1
    return pivots


@compiled
def _least(costs: Floats, potentials: Floats, sign: float, bound: float) -> tuple[float, int]:
    """Find the least costs[k] + sign * potentials[k] below `bound`; -1 where none is."""
    found = -1
    for low in range(0, costs.shape[0], _CHUNK):
        # A loop from zero over slices vectorises, and a search for any hit does where a minimum does not.
        c, v = costs[low : low + _CHUNK], potentials[low : low + _CHUNK]
        hit = np.int32(0)
        for k in range(c.shape[0]):
            hit |= np.int32(c[k] + sign * v[k] < bound)
        if hit:
            for k in range(c.shape[0]):
                value = c[k] + sign * v[k]
                if value < bound:
                    bound, found = value, low + k
    return bound, found


@compiled
def set_root_costs(net: Network, root_costs: Floats) -> None:
    """Change d_S: move the potentials that hang on it and queue what it may have made attractive."""
    p, q = net.costs.shape
    for x in range(p):
        change = root_costs[x] - net.root_costs[x]
        if change != 0.0:
            net.root_costs[x] = root_costs[x]
            if net.parent[x] == p + q:
                shift_subtree(net, x, change)
            elif root_costs[x] < net.potential[x]:
                enqueue(net, x)


@compiled
def reaches(net: Network, sources: Indices, root_costs: Floats, target: float) -> bool:
    """Raise the root costs of `sources` to `root_costs`, (p,), and say whether the optimum reaches `target`.

    The optimum is monotone in the root costs, so raising them one after the other gives lower bounds on the way,
    and the answer is known as soon as one of them reaches the target.
    """
    p, q = net.costs.shape
    for x in sources:
        change = root_costs[x] - net.root_costs[x]
        net.root_costs[x] = root_costs[x]
        if net.parent[x] == p + q:
            shift_subtree(net, x, change)
            optimise(net)
            if total_cost(net) >= target:
                return True
    return total_cost(net) >= target


@compiled
def total_cost(net: Network) -> float:
    """Return the cost of the current flow."""
    p, q = net.costs.shape
    total = 0.0
    for node in range(p + q):
        above = net.parent[node]
        if node < p:
            unit = net.root_costs[node] if above == p + q else net.costs[node, above - p]
        else:
            unit = net.artificial if above == p + q else net.costs[above, node - p]
        total += net.flow[node] * unit
    return total


@compiled
def root_flow(net: Network) -> Floats:
    """Return the weight that each source sends to its nearest selected point, (p,)."""
    p, q = net.costs.shape
    flow = np.zeros(p)
    for x in range(p):
        if net.parent[x] == p + q:
            flow[x] = net.flow[x]
    return flow


@compiled
def limits(net: Network, sources: Indices, sink_potentials: Floats) -> Floats:
    """Return the largest potential of each of `sources` that violates no arc to sinks with these potentials."""
    result = np.empty(sources.shape[0])
    for i in range(sources.shape[0]):
        result[i], _ = _least(net.costs[sources[i]], sink_potentials, 1.0, np.inf)
    return result


@compiled
def detours(net: Network, sources: Indices) -> Floats:
    """Return min_y c(x, y) + v_y for each of `sources`: what its weight costs at most, wherever S goes.

    With the sinks' potentials v held, sum_x w_x min(d_S'(x), detour_x) - sum_y |w_y| v_y is dual feasible for
    every S', and so a lower bound on the objective of every S'.
    """
    p, q = net.costs.shape
    return limits(net, sources, net.potential[p : p + q])


@compiled
def joint_rise(
    net: Network, risen: Indices, highest: Floats, sources: Floats, fallen: Indices, sinks: Floats, supply: Floats
) -> float:
    """Return the weight times rise of the `risen` sources, from potentials `sources` to `highest` at most.

    A source rises no further than the arcs to the `fallen` sinks, at potentials `sinks`, (q,), allow.
    """
    gain = 0.0
    for i in range(risen.shape[0]):
        x = risen[i]
        allowed = highest[i]
        for y in fallen:
            allowed = min(allowed, net.costs[x, y] + sinks[y])
        if allowed > sources[x]:
            gain += supply[x] * (allowed - sources[x])
    return gain
