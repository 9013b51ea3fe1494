"""Near arcs: for each node the few arcs of least reduced cost, and how far potentials may move without the others.

Let r0 be the reduced costs at the anchor potentials. Of the arcs of a node that are not near, none has r0 below twice
its leeway, so an arc that is near to neither of its ends has r0 >= leeway_x + leeway_y: as long as no source has risen
and no sink has fallen by more than its leeway, only near arcs can be violated.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gape._support.compiled import compiled, compiled_part, in_threads, threads
from gape.core.types import Costs, Floats, Indices

NEAR = 40
CHUNK = 128  # arcs tested together; one vectorised test rejects nearly all chunks
_ROWS = 256  # rows of costs in one piece of work


class NearArcs(NamedTuple):
    """Near arcs of all nodes, sources first, and the leeway they leave; see `tree.Network`."""

    starts: Indices
    ends: Indices
    costs: Floats
    leeway: Floats


def near_arcs(
    rows: Callable[[slice], Costs], columns: Callable[[slice], Costs], sources: Floats, sinks: Floats
) -> NearArcs:
    """Choose the near arcs at the potentials of `sources`, (p,), and `sinks`, (q,).

    `rows` gives the costs of some sources to all sinks, `columns` those of some sinks to all sources.
    """
    p, q = len(sources), len(sinks)
    chosen_sinks, to_sinks, least_from_sources = _chosen(rows, p, sinks)
    chosen_sources, to_sources, least_from_sinks = _chosen(columns, q, -sources)
    # An arc is identified by its position in the (p, q) matrix; one that both ends have chosen is kept once.
    arcs = np.concatenate(
        [(np.arange(p)[:, None] * q + chosen_sinks).ravel(), (chosen_sources * q + np.arange(q)[:, None]).ravel()]
    )
    arcs, first = np.unique(arcs, return_index=True)
    costs = np.concatenate([to_sinks.ravel(), to_sources.ravel()])[first]
    x, y = np.divmod(arcs, max(q, 1))
    by_sink = np.argsort(y, kind="stable")
    degrees = np.concatenate([np.bincount(x, minlength=p), np.bincount(y, minlength=q)])
    return NearArcs(
        starts=np.concatenate([[0], np.cumsum(degrees)]),
        ends=np.concatenate([p + y, x[by_sink]]),
        costs=np.concatenate([costs, costs[by_sink]]),
        leeway=np.concatenate([least_from_sources - sources, least_from_sinks + sinks]) / 2,
    )


def _chosen(rows: Callable[[slice], Costs], count: int, addend: Floats) -> tuple[Indices, Floats, Floats]:
    """Choose the columns of least cost plus `addend` in each of `count` rows, and the least of the other columns."""
    keep = min(NEAR, len(addend))
    columns = np.empty((count, keep), dtype=np.int64)
    costs = np.empty((count, keep))
    least = np.full(count, np.inf)

    def choose(_: int, start: int) -> None:
        block = slice(start, start + _ROWS)
        _least_of_rows(rows(block), addend, columns[block], costs[block], least[block])

    if keep:
        in_threads(choose, range(threads()), range(0, count, _ROWS))
    return columns, costs, least


@compiled
def _least_of_rows(rows: Costs, addend: Floats, columns: Indices, costs: Floats, least: Floats) -> None:
    """Fill `columns` and `costs` with the least of each row plus `addend`, and `least` with the least of the rest."""
    keep = columns.shape[1]
    values = np.empty(keep + 1)
    positions = np.empty(keep + 1, dtype=np.int64)
    for i in range(rows.shape[0]):
        values[:] = np.inf
        positions[:] = -1
        worst = 0
        for low in range(0, rows.shape[1], CHUNK):
            # A loop from zero over slices vectorises, and so does a search for any hit, unlike a minimum.
            c, a = rows[i, low : low + CHUNK], addend[low : low + CHUNK]
            bound = values[worst]
            hit = np.int32(0)
            for k in range(c.shape[0]):
                hit |= np.int32(c[k] + a[k] < bound)
            if hit:
                for k in range(c.shape[0]):
                    value = c[k] + a[k]
                    if value < values[worst]:
                        values[worst], positions[worst] = value, low + k
                        worst = int(np.argmax(values))
        least[i] = values[worst]
        column = 0
        for k in range(keep + 1):
            if k != worst:
                columns[i, column] = positions[k]
                costs[i, column] = rows[i, positions[k]]
                column += 1


@compiled_part
def least(costs: Costs, potentials: Floats, sign: float, bound: float) -> tuple[float, int]:
    """Find the least costs[k] + sign * potentials[k] below `bound`, and k; -1 if there is none."""
    best = -1
    for low in range(0, costs.shape[0], CHUNK):
        # A loop from zero over slices vectorises, and so does a search for any hit, unlike a minimum.
        c, v = costs[low : low + CHUNK], potentials[low : low + CHUNK]
        hit = np.int32(0)
        for k in range(c.shape[0]):
            hit |= np.int32(c[k] + sign * v[k] < bound)
        if hit:
            for k in range(c.shape[0]):
                value = c[k] + sign * v[k]
                if value < bound:
                    bound, best = value, low + k
    return bound, best
