"""The minimum-cost flow inside the local-search objective, kept optimal while the selected set changes.

For a selected set S let d_S(x) be the truncated distance from x to its nearest member. The paper's objective
(Definition "Local-Search Objective") is the transportation problem

    min_f  sum_{x in D+} sum_{y in D-} c(x, y) f(x, y)  +  sum_{x in D+} d_S(x) f(x, root)
    s.t.   sum_y f(x, y) + f(x, root) = w_x   for x in D+,      sum_x f(x, y) = -w_y   for y in D-,   f >= 0,

where the root stands for "nearest selected point". Only the cost of the arcs into the root depends on S, so a
swap changes a few arc costs of one network, and a primal network simplex re-optimises from the spanning tree
it has. The trees are strongly feasible (Cunningham 1976: every arc without flow points to the root), so
degenerate pivots cannot cycle; costs are multiples of a power of two, so potentials are exact in float64.

Nodes: sources (D+) 0..p-1, sinks (D-) p..p+q-1, and the root p+q. A tree arc belongs to its lower node, and
runs upward if that node is a source, downward if it is a sink.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gape._compiled import compiled
from gape.types import Floats, Indices

# Costs are rounded to this share of the largest (1e-12): sums of thousands of them stay exact in float64.
_COST_BITS = 40
_WEIGHT_BITS = 51
_CHUNK = 128  # arcs looked at together; one vectorised test rejects nearly all chunks


class Network(NamedTuple):
    """A transportation problem and a spanning tree of it; plain arrays, as the compiled kernels want them."""

    costs: Floats  # (p, q): c(x, y) from sources to sinks
    costs_by_sink: Floats  # (q, p): the same, laid out for column scans
    root_costs: Floats  # (p,): d_S(x)
    parent: Indices  # (p+q+1,)
    first_child: Indices
    next_sibling: Indices
    previous_sibling: Indices
    depth: Indices
    flow: Floats  # on the arc between a node and its parent
    potential: Floats  # cost of sending one unit from a node to the root along the tree
    queue: Indices  # ring buffer of the nodes whose arcs are still to be priced
    queued: NDArray[np.bool_]
    ends: Indices  # (2,): head and length of the ring buffer
    scratch: Indices  # stack for walking subtrees
    artificial: float  # cost of the start's arcs from the root into the sinks, above every real path


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
    net = Network(
        costs=np.ascontiguousarray(costs),
        costs_by_sink=np.ascontiguousarray(costs.T),
        root_costs=root_costs.copy(),
        parent=np.full(nodes, p + q, dtype=np.int64),
        first_child=np.full(nodes, -1, dtype=np.int64),
        next_sibling=np.full(nodes, -1, dtype=np.int64),
        previous_sibling=np.full(nodes, -1, dtype=np.int64),
        depth=np.ones(nodes, dtype=np.int64),
        flow=np.concatenate([supply, demand, [0.0]]),
        potential=np.concatenate([root_costs, np.full(q, -artificial), [0.0]]),
        queue=np.zeros(nodes, dtype=np.int64),
        queued=np.zeros(nodes, dtype=np.bool_),
        ends=np.zeros(2, dtype=np.int64),
        scratch=np.zeros(nodes, dtype=np.int64),
        artificial=float(artificial),
    )
    net.parent[-1] = -1
    net.depth[-1] = 0
    for node in range(p + q):
        _link(net, node, p + q)
    for source in range(p):
        _enqueue(net, source)
    return net


def copy_tree(origin: Network, target: Network) -> None:
    """Overwrite the tree and the root costs of `target` by those of `origin`."""
    for name in ("root_costs", "parent", "first_child", "next_sibling", "previous_sibling", "depth", "flow",
                 "potential"):  # fmt: skip
        np.copyto(getattr(target, name), getattr(origin, name))


def twin(net: Network) -> Network:
    """Return a network that shares the costs but has a tree of its own, to try a change and drop it."""
    shared = ("costs", "costs_by_sink", "artificial")
    return Network(**{k: v if k in shared else v.copy() for k, v in net._asdict().items()})


@compiled
def _enqueue(net: Network, node: int) -> None:
    if not net.queued[node]:
        net.queued[node] = True
        capacity = net.queue.shape[0]
        net.queue[(net.ends[0] + net.ends[1]) % capacity] = node
        net.ends[1] += 1


@compiled
def _dequeue(net: Network) -> int:
    node = net.queue[net.ends[0]]
    net.ends[0] = (net.ends[0] + 1) % net.queue.shape[0]
    net.ends[1] -= 1
    net.queued[node] = False
    return int(node)


@compiled
def _link(net: Network, node: int, parent: int) -> None:
    first = net.first_child[parent]
    net.parent[node] = parent
    net.next_sibling[node] = first
    net.previous_sibling[node] = -1
    if first >= 0:
        net.previous_sibling[first] = node
    net.first_child[parent] = node


@compiled
def _unlink(net: Network, node: int) -> None:
    before, after = net.previous_sibling[node], net.next_sibling[node]
    if before >= 0:
        net.next_sibling[before] = after
    else:
        net.first_child[net.parent[node]] = after
    if after >= 0:
        net.previous_sibling[after] = before


@compiled
def _shift_subtree(net: Network, top: int, change: float) -> None:
    """Add `change` to the potentials below `top`, renew depths, and queue the nodes whose arcs it can harm."""
    p = net.costs.shape[0]
    stack = net.scratch
    stack[0] = top
    height = 1
    while height:
        height -= 1
        node = stack[height]
        net.potential[node] += change
        net.depth[node] = net.depth[net.parent[node]] + 1
        # An arc x -> y is violated when u_x > c + v_y: rising sources and falling sinks must be priced again.
        if (node < p) == (change > 0):
            _enqueue(net, node)
        child = net.first_child[node]
        while child >= 0:
            stack[height] = child
            height += 1
            child = net.next_sibling[child]


@compiled
def _pivot(net: Network, source: int, target: int, reduced_cost: float) -> None:
    """Bring the arc source -> target (a sink or the root) into the tree."""
    p = net.costs.shape[0]
    # The cycle runs apex -> source -> target -> apex. Flow falls on the arcs of sources on the way to `source`
    # and of sinks on the way to `target`. Of the blocking arcs the last one along the cycle leaves: this is
    # Cunningham's rule, which keeps the tree strongly feasible.
    a, b = source, target
    least_a, least_b = np.inf, np.inf
    out_a, out_b = -1, -1
    while a != b:
        if net.depth[a] >= net.depth[b]:
            if a < p and net.flow[a] < least_a:
                least_a, out_a = net.flow[a], a
            a = net.parent[a]
        else:
            if b >= p and net.flow[b] <= least_b:
                least_b, out_b = net.flow[b], b
            b = net.parent[b]
    apex = a
    theta = min(least_a, least_b)
    a, b = source, target
    while a != apex:
        net.flow[a] += -theta if a < p else theta
        a = net.parent[a]
    while b != apex:
        net.flow[b] += theta if b < p else -theta
        b = net.parent[b]
    if least_b <= least_a:
        node, parent, out, change = target, source, out_b, -reduced_cost
    else:
        node, parent, out, change = source, target, out_a, reduced_cost
    top, carried = node, theta
    while True:  # hang the cut-off part by `top`: arcs between there and `out` change their lower node
        above, below = net.parent[node], net.flow[node]
        _unlink(net, node)
        _link(net, node, parent)
        net.flow[node] = carried
        if node == out:
            break
        parent, carried, node = node, below, above
    _shift_subtree(net, top, change)


@compiled
def optimise(net: Network) -> int:
    """Pivot until no arc of a queued node is violated; return the number of pivots.

    Every arc has been proved against the current potentials then: an arc is priced again whenever a potential
    moves in the direction that can harm it.
    """
    p, q = net.costs.shape
    pivots = 0
    while net.ends[1]:
        node = _dequeue(net)
        here = net.potential[node]
        if node < p:
            best, target = min(here, net.root_costs[node]), p + q if net.root_costs[node] < here else -1
            through, sink = _least(net.costs[node], net.potential[p : p + q], 1.0, best)
            if sink >= 0:
                best, target = through, p + sink
            if target >= 0:
                _pivot(net, node, target, best - here)
        else:
            through, target = _least(net.costs_by_sink[node - p], net.potential[:p], -1.0, -here)
            if target >= 0:
                _pivot(net, target, node, here + through)
        if target >= 0:
            _enqueue(net, node)
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
                _shift_subtree(net, x, change)
            elif root_costs[x] < net.potential[x]:
                _enqueue(net, x)


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
            _shift_subtree(net, x, change)
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
def detours(net: Network, sources: Indices) -> Floats:
    """Return min_y c(x, y) + v_y for each of `sources`: what its weight costs at most, wherever S goes.

    With the sinks' potentials v held, sum_x w_x min(d_S'(x), detour_x) - sum_y |w_y| v_y is dual feasible for
    every S', and so a lower bound on the objective of every S'.
    """
    p, q = net.costs.shape
    result = np.empty(sources.shape[0])
    for i in range(sources.shape[0]):
        result[i], _ = _least(net.costs[sources[i]], net.potential[p : p + q], 1.0, np.inf)
    return result
