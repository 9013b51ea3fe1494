"""The minimum-cost flow inside the local-search objective, kept optimal while the selected set changes.

For a selected set S let d_S(x) be the truncated distance from x to its nearest member. The paper's objective
(Definition "Local-Search Objective") is the transportation problem

    min_f  sum_{x in D+} sum_{y in D-} c(x, y) f(x, y)  +  sum_{x in D+} d_S(x) f(x, root)
    s.t.   sum_y f(x, y) + f(x, root) = w_x   for x in D+,      sum_x f(x, y) = -w_y   for y in D-,   f >= 0,

where the root stands for "nearest selected point". Only the cost of the arcs into the root depends on S, so a
swap changes a few arc costs of one network, and a primal network simplex re-optimises from the spanning tree
it has (`tree.py`). Costs are multiples of a power of two, so potentials are exact in float64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from gape._support.compiled import compiled, compiled_part, overwrite
from gape.core.types import Costs, Floats, Indices
from gape.selection.flow.near import least, near_arcs
from gape.selection.flow.tree import Network, dequeue, enqueue, link, pivot, pop, push, shift_subtree

# Costs are rounded to this share of the largest (1e-12): sums of thousands of them stay exact in float64.
_COST_BITS = 40
_WEIGHT_BITS = 51
# With more strayed nodes on the other side it is faster to price a whole row of arcs.
_MANY = 200
_TREE = (
    "root_costs", "parent", "first_child", "next_sibling", "previous_sibling", "depth", "arc_cost", "flow",
    "potential", "proved", "objective",
)  # fmt: skip


def on_grid(costs: Floats, largest: float) -> Floats:
    """Round costs to multiples of a power of two, 2^-40 of the largest: exact in every later sum."""
    if largest <= 0:
        return np.zeros_like(costs)
    grid = grid_of(largest)
    rounded: Floats = np.rint(costs / grid) * grid
    return rounded


def grid_of(largest: float) -> float:
    """Return the power of two that costs are multiples of; zero if all costs are zero."""
    return float(2.0 ** (np.ceil(np.log2(largest)) - _COST_BITS)) if largest > 0 else 0.0


def weights_on_grid(weights: Floats) -> Floats:
    """Round weights so that every sum of them is exact in float64; integers stay unchanged."""
    if np.array_equal(weights, np.rint(weights)):
        return weights
    grid = 2.0 ** (np.ceil(np.log2(np.abs(weights).sum())) - _WEIGHT_BITS)
    rounded: Floats = np.rint(weights / grid) * grid
    return rounded


class ArcTable(NamedTuple):
    """Costs from p sources to q sinks that do not fit into memory, computed in parts on request."""

    rows: Callable[[slice], Costs]  # of some sources to all sinks
    columns: Callable[[slice], Costs]  # of all sources to some sinks, one sink per row
    largest: float  # upper bound on all costs


def network(costs: Costs, supply: Floats, demand: Floats, root_costs: Floats) -> Network:
    """Build the network at its star-shaped start: sources send to the root, the root feeds the sinks."""
    star = _star(float(costs.max(initial=0.0)), supply, demand, root_costs)
    if costs.dtype == np.float32:
        return anchored(star._replace(rounded=cast(Any, costs), rounded_by_sink=cast(Any, costs.T.copy())))
    return anchored(star._replace(costs=cast(Any, costs), costs_by_sink=cast(Any, costs.T.copy())))


def network_of(table: ArcTable, supply: Floats, demand: Floats, root_costs: Floats) -> Network:
    """Build the network without storing the costs, for `optimise_by`."""
    return anchored(_star(table.largest, supply, demand, root_costs), table)


def _star(largest: float, supply: Floats, demand: Floats, root_costs: Floats) -> Network:
    p, q = len(supply), len(demand)
    nodes = p + q + 1
    largest = max(largest, float(root_costs.max(initial=0.0)))
    # A unit through an artificial arc can always be sent directly instead, for at most `largest`.
    artificial = 2.0 ** np.ceil(np.log2(largest) + 1) if largest > 0 else 1.0
    arc_cost = np.concatenate([root_costs, np.full(q, artificial), [0.0]])
    flow = np.concatenate([supply, demand, [0.0]])
    net = Network(
        costs=np.zeros((0, 0)),
        costs_by_sink=np.zeros((0, 0)),
        rounded=np.zeros((0, 0), dtype=np.float32),
        rounded_by_sink=np.zeros((0, 0), dtype=np.float32),
        near_starts=np.zeros(nodes, dtype=np.int64),
        near_ends=np.zeros(0, dtype=np.int64),
        near_costs=np.zeros(0),
        anchor=np.zeros(p + q),
        leeway=np.zeros(p + q),
        root_costs=root_costs.copy(),
        parent=np.full(nodes, p + q, dtype=np.int64),
        first_child=np.full(nodes, -1, dtype=np.int64),
        next_sibling=np.full(nodes, -1, dtype=np.int64),
        previous_sibling=np.full(nodes, -1, dtype=np.int64),
        depth=np.ones(nodes, dtype=np.int64),
        arc_cost=arc_cost,
        flow=flow,
        potential=np.concatenate([root_costs, np.full(q, -artificial), [0.0]]),
        proved=np.zeros(nodes),  # no arc is violated where all potentials are equal, as no cost is negative
        objective=np.array([flow @ arc_cost]),
        heap_keys=np.zeros(nodes),
        heap_nodes=np.zeros(nodes, dtype=np.int64),
        heaped=np.zeros(nodes, dtype=np.bool_),
        queue=np.zeros(nodes, dtype=np.int64),
        queued=np.zeros(nodes, dtype=np.bool_),
        ends=np.zeros(3, dtype=np.int64),
        scratch=np.zeros(nodes, dtype=np.int64),
    )
    net.parent[-1] = -1
    net.depth[-1] = 0
    for node in range(p + q):
        link(net, node, p + q)
    _enqueue_all(net)
    return net


def anchored(net: Network, table: ArcTable | None = None) -> Network:
    """Return the network with its near arcs chosen again, at the current potentials, or at equal ones at the start."""
    p = len(net.root_costs)
    if table is None:
        rows, columns = (net.costs, net.costs_by_sink) if len(net.costs) else (net.rounded, net.rounded_by_sink)
        table = ArcTable(rows.__getitem__, columns.__getitem__, 0.0)
    at_the_start = not len(net.near_ends)
    potential = net.proved if at_the_start else net.potential
    near = near_arcs(table.rows, table.columns, potential[:p], potential[p:-1])
    return net._replace(
        near_starts=near.starts,
        near_ends=near.ends,
        near_costs=near.costs,
        anchor=potential[:-1].copy(),
        leeway=near.leeway,
    )


@compiled
def copy_tree(origin: Network, target: Network) -> None:
    """Overwrite the tree and the root costs of `target` by those of `origin`."""
    overwrite(target.root_costs, origin.root_costs)
    overwrite(target.parent, origin.parent)
    overwrite(target.first_child, origin.first_child)
    overwrite(target.next_sibling, origin.next_sibling)
    overwrite(target.previous_sibling, origin.previous_sibling)
    overwrite(target.depth, origin.depth)
    overwrite(target.arc_cost, origin.arc_cost)
    overwrite(target.flow, origin.flow)
    overwrite(target.potential, origin.potential)
    overwrite(target.proved, origin.proved)
    overwrite(target.objective, origin.objective)


def twin(net: Network) -> Network:
    """Return a network that shares the costs but has a tree of its own, to try a change and drop it."""
    own = (*_TREE, "heap_keys", "heap_nodes", "heaped", "queue", "queued", "ends", "scratch")
    return net._replace(**{name: getattr(net, name).copy() for name in own})


@compiled
def optimise(net: Network) -> int:
    """Pivot until no arc is violated; return the number of pivots."""
    pivots = 0
    while True:
        more = _pivot_on_near_arcs(net)
        more += _pivot_on_far_arcs(net)
        pivots += more
        if more == 0:
            break
    overwrite(net.proved, net.potential)
    return pivots


def optimise_by(net: Network, table: ArcTable) -> Network:
    """Do the same as `optimise` for a network that does not store its costs.

    While any node has used up its leeway, the near arcs are chosen again, which finds every violated arc.
    """
    while True:
        _pivot_on_near_arcs(net)
        if strayed(net) == 0:
            return net
        net = anchored(net, table)
        _enqueue_all(net)


@compiled
def _enqueue_all(net: Network) -> None:
    for node in range(net.parent.shape[0] - 1):
        enqueue(net, node)


@compiled
def _pivot_on_near_arcs(net: Network) -> int:
    """Pivot until no near arc of a queued node is violated, nor any arc to the root; the most violated goes first.

    A violation that was found earlier is checked again when its turn comes, because one pivot repairs many.
    """
    p = net.root_costs.shape[0]
    pivots = 0
    while True:
        while net.ends[1]:
            node = dequeue(net)
            violation, _, _ = _most_violated(net, node)
            if violation > 0.0:
                push(net, node, violation)
        if net.ends[2] == 0:
            return pivots
        node = pop(net)
        violation, other, cost = _most_violated(net, node)
        if violation <= 0.0:
            continue
        if net.ends[2] and violation < net.heap_keys[0]:
            push(net, node, violation)
            continue
        if node < p:
            pivot(net, node, other, cost)
        else:
            pivot(net, other, node, cost)
        enqueue(net, node)
        pivots += 1


@compiled_part
def _most_violated(net: Network, node: int) -> tuple[float, int, float]:
    """Return the largest violation of a near arc of `node`, or of its arc to the root, the other end and the cost."""
    potential = net.potential[node]
    violation, other, cost = 0.0, -1, 0.0
    if node < net.root_costs.shape[0]:
        if net.root_costs[node] < potential:
            violation, other, cost = potential - net.root_costs[node], net.parent.shape[0] - 1, net.root_costs[node]
        for k in range(net.near_starts[node], net.near_starts[node + 1]):
            value = potential - net.potential[net.near_ends[k]] - net.near_costs[k]
            if value > violation:
                violation, other, cost = value, net.near_ends[k], net.near_costs[k]
    else:
        for k in range(net.near_starts[node], net.near_starts[node + 1]):
            value = net.potential[net.near_ends[k]] - potential - net.near_costs[k]
            if value > violation:
                violation, other, cost = value, net.near_ends[k], net.near_costs[k]
    return violation, other, cost


@compiled_part
def _pivot_on_far_arcs(net: Network) -> int:
    """Price all arcs that may be violated and are not near, and pivot on the worst of each node; 0 if there is none.

    Arcs between a source that has not risen above its proved potential and a sink that has not fallen below its own
    need not be priced. Of the others, arcs between two nodes with leeway need not be priced either.
    """
    p = net.root_costs.shape[0]
    q = net.anchor.shape[0] - p
    strayed, sources = _find_strayed(net)
    sinks = strayed.shape[0] - sources
    pivots = 0
    for node in range(p + q):
        potential = net.potential[node]
        if potential == net.proved[node] or (potential > net.proved[node]) != (node < p):
            continue
        sign = 1.0 if node < p else -1.0
        first, count = (sources, sinks) if node < p else (0, sources)
        if _has_strayed(net, node) or count > _MANY:
            count = -1
        if net.costs.shape[0]:
            costs = net.costs[node] if node < p else net.costs_by_sink[node - p]
            other, cost = _worst_arc(costs, net.potential, strayed, first, count, p, sign, sign * potential)
        else:
            rounded = net.rounded[node] if node < p else net.rounded_by_sink[node - p]
            other, cost = _worst_arc(rounded, net.potential, strayed, first, count, p, sign, sign * potential)
        if other >= 0:
            if node < p:
                pivot(net, node, other, cost)
            else:
                pivot(net, other, node, cost)
            enqueue(net, node)
            pivots += 1
    return pivots


@compiled_part
def _worst_arc(
    costs: Costs, potential: Floats, strayed: Indices, first: int, count: int, p: int, sign: float, bound: float
) -> tuple[int, float]:
    """Return the other end and the cost of a node's most violated arc, or -1. `costs` are those of all of its arcs.

    Priced are the arcs to `count` strayed nodes from the `first` on; all arcs if `count` is negative.
    """
    begin = p if sign > 0.0 else 0
    other = -1
    if count < 0:
        _, other = least(costs, potential[begin : begin + costs.shape[0]], sign, bound)
    else:
        for k in range(first, first + count):
            end = strayed[k] - begin
            value = costs[end] + sign * potential[strayed[k]]
            if value < bound:
                bound, other = value, end
    return (begin + other, float(costs[other])) if other >= 0 else (-1, 0.0)


@compiled
def strayed(net: Network) -> int:
    """Count the nodes that have used up their leeway, whose arcs must all be priced."""
    return len(_find_strayed(net)[0])


@compiled_part
def _has_strayed(net: Network, node: int) -> bool:
    """Whether a node has used up its leeway: a source by rising, a sink by falling."""
    moved = net.potential[node] - net.anchor[node]
    return bool((moved if node < net.root_costs.shape[0] else -moved) > net.leeway[node])


@compiled_part
def _find_strayed(net: Network) -> tuple[Indices, int]:
    """Return the nodes that have used up their leeway, sources first, and the number of sources among them."""
    p = net.root_costs.shape[0]
    found = np.empty(net.anchor.shape[0], dtype=np.int64)
    sources, both = 0, 0
    for node in range(net.anchor.shape[0]):
        if _has_strayed(net, node):
            found[both] = node
            both += 1
            sources += node < p
    return found[:both], sources


@compiled
def set_root_costs(net: Network, root_costs: Floats) -> None:
    """Change d_S: update the potentials that depend on it and queue nodes whose arcs to the root may be violated."""
    root = net.parent.shape[0] - 1
    for x in range(root_costs.shape[0]):
        change = root_costs[x] - net.root_costs[x]
        if change != 0.0:
            net.root_costs[x] = root_costs[x]
            if net.parent[x] == root:
                _raise_root_arc(net, x, change)
            elif root_costs[x] < net.potential[x]:
                enqueue(net, x)


@compiled
def reaches(net: Network, sources: Indices, root_costs: Floats, target: float) -> bool:
    """Raise the root costs of `sources` to `root_costs`, (p,), and return whether the optimum reaches `target`.

    The optimum is monotone in the root costs, so raising them one by one gives lower bounds, and the answer is known
    as soon as one of them reaches the target.
    """
    root = net.parent.shape[0] - 1
    for x in sources:
        change = root_costs[x] - net.root_costs[x]
        net.root_costs[x] = root_costs[x]
        if net.parent[x] == root:
            _raise_root_arc(net, x, change)
            optimise(net)
            if net.objective[0] >= target:
                return True
    return bool(net.objective[0] >= target)


@compiled_part
def _raise_root_arc(net: Network, source: int, change: float) -> None:
    """Change the cost of a tree arc into the root."""
    net.arc_cost[source] += change
    net.objective[0] += net.flow[source] * change
    shift_subtree(net, source, change)


@compiled
def total_cost(net: Network) -> float:
    """Return the cost of the current flow, summed again because `objective` accumulates rounding errors."""
    total = 0.0
    for node in range(net.flow.shape[0]):
        total += net.flow[node] * net.arc_cost[node]
    return total


@compiled
def root_flow(net: Network) -> Floats:
    """Return the weight that each source sends to its nearest selected point, (p,)."""
    p = net.root_costs.shape[0]
    flow = np.zeros(p)
    for x in range(p):
        if net.parent[x] == net.parent.shape[0] - 1:
            flow[x] = net.flow[x]
    return flow
