"""The spanning tree of a network simplex: its data, and how a pivot changes it.

The trees are strongly feasible (Cunningham 1976: every arc without flow points to the root), so degenerate pivots
cannot cycle.

Nodes: sources 0..p-1, sinks p..p+q-1, and the root p+q. A tree arc belongs to its lower node, and runs upward if that
node is a source, downward if it is a sink.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gape._support.compiled import compiled_part
from gape.core.types import Floats, Indices


class Network(NamedTuple):
    """A transportation problem and a spanning tree of it, as plain arrays for the compiled kernels.

    Costs are held in float64 or in float32; the arrays of the other precision are empty. The network has one type
    either way, so that the kernels are compiled once.
    """

    costs: Floats  # (p, q): c(x, y) from sources to sinks
    costs_by_sink: Floats  # (q, p): the same, laid out for column scans
    rounded: NDArray[np.float32]  # (p, q)
    rounded_by_sink: NDArray[np.float32]  # (q, p)
    near_starts: Indices  # (p+q+1,): where the near arcs of each node start in the next two
    near_ends: Indices  # the node at the other end
    near_costs: Floats
    anchor: Floats  # (p+q,): the potentials for which the near arcs were chosen
    leeway: Floats  # (p+q,): half of the least reduced cost at the anchor of all other arcs of the node
    root_costs: Floats  # (p,): d_S(x)
    parent: Indices  # (p+q+1,)
    first_child: Indices
    next_sibling: Indices
    previous_sibling: Indices
    depth: Indices
    arc_cost: Floats  # of the arc between a node and its parent
    flow: Floats  # on that arc
    potential: Floats  # cost of sending one unit from a node to the root along the tree
    proved: Floats  # potentials for which no arc between source and sink is violated
    objective: Floats  # (1,): cost of the flow
    heap_keys: Floats  # max-heap of violated nodes, by the size of the violation
    heap_nodes: Indices
    heaped: NDArray[np.bool_]
    queue: Indices  # ring buffer of the nodes whose near arcs are still to be priced
    queued: NDArray[np.bool_]
    ends: Indices  # (3,): head and length of the ring buffer, and the size of the heap
    scratch: Indices  # stack for walking subtrees


@compiled_part
def cost(net: Network, x: int, y: int) -> float:
    """Return the cost of an arc from a source to a sink."""
    return float(net.costs[x, y]) if net.costs.shape[0] else float(net.rounded[x, y])


@compiled_part
def enqueue(net: Network, node: int) -> None:
    """Queue a node whose arcs may be violated, unless it is already queued."""
    if not net.queued[node]:
        net.queued[node] = True
        capacity = net.queue.shape[0]
        net.queue[(net.ends[0] + net.ends[1]) % capacity] = node
        net.ends[1] += 1


@compiled_part
def dequeue(net: Network) -> int:
    """Take the node that has waited longest."""
    node = net.queue[net.ends[0]]
    net.ends[0] = (net.ends[0] + 1) % net.queue.shape[0]
    net.ends[1] -= 1
    net.queued[node] = False
    return int(node)


@compiled_part
def push(net: Network, node: int, key: float) -> None:
    """Put a node on the heap, unless it is there already."""
    if net.heaped[node]:
        return
    net.heaped[node] = True
    position = net.ends[2]
    net.ends[2] += 1
    while position:
        above = (position - 1) // 2
        if net.heap_keys[above] >= key:
            break
        net.heap_keys[position], net.heap_nodes[position] = net.heap_keys[above], net.heap_nodes[above]
        position = above
    net.heap_keys[position], net.heap_nodes[position] = key, node


@compiled_part
def pop(net: Network) -> int:
    """Take the node with the largest key off the heap."""
    top = net.heap_nodes[0]
    net.heaped[top] = False
    net.ends[2] -= 1
    size = net.ends[2]
    key, node = net.heap_keys[size], net.heap_nodes[size]
    position = 0
    while 2 * position + 1 < size:
        below = 2 * position + 1
        if below + 1 < size and net.heap_keys[below + 1] > net.heap_keys[below]:
            below += 1
        if net.heap_keys[below] <= key:
            break
        net.heap_keys[position], net.heap_nodes[position] = net.heap_keys[below], net.heap_nodes[below]
        position = below
    net.heap_keys[position], net.heap_nodes[position] = key, node
    return int(top)


@compiled_part
def link(net: Network, node: int, parent: int) -> None:
    """Attach a node, with its subtree, to a parent."""
    first = net.first_child[parent]
    net.parent[node] = parent
    net.next_sibling[node] = first
    net.previous_sibling[node] = -1
    if first >= 0:
        net.previous_sibling[first] = node
    net.first_child[parent] = node


@compiled_part
def unlink(net: Network, node: int) -> None:
    """Detach a node, with its subtree, from its parent."""
    before, after = net.previous_sibling[node], net.next_sibling[node]
    if before >= 0:
        net.next_sibling[before] = after
    else:
        net.first_child[net.parent[node]] = after
    if after >= 0:
        net.previous_sibling[after] = before


@compiled_part
def shift_subtree(net: Network, top: int, change: float) -> None:
    """Add `change` to the potentials below `top`, update depths, and queue the nodes whose arcs it may violate."""
    p = net.root_costs.shape[0]
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
            enqueue(net, node)
        child = net.first_child[node]
        while child >= 0:
            stack[height] = child
            height += 1
            child = net.next_sibling[child]


@compiled_part
def pivot(net: Network, source: int, target: int, cost: float) -> None:
    """Bring the arc source -> target (a sink or the root) into the tree."""
    reduced_cost = cost + net.potential[target] - net.potential[source]
    p = net.root_costs.shape[0]
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
    net.objective[0] += theta * reduced_cost
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
        above, carried_above, cost_above = net.parent[node], net.flow[node], net.arc_cost[node]
        unlink(net, node)
        link(net, node, parent)
        net.flow[node], net.arc_cost[node] = carried, cost
        if node == out:
            break
        parent, node, carried, cost = node, above, carried_above, cost_above
    shift_subtree(net, top, change)
