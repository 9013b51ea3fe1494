"""Proportional seats: extends centres to a full set of survivors, with as many near each as its share of the votes.

A k-median spreads over everything that has votes. It finds rare content, but as every survivor counts the same,
frequent content gets less than its share. Here the centres are only part of the survivors, and the other seats are
allocated as in a parliament, by the highest averages of Sainte-Laguë: the votes of a centre's candidates divided by
2 s + 1 if it has s seats. The candidate with the most votes among them gets the seat.
"""

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from gape.core.copies import Distinct
from gape.core.types import Floats, Indices, Points
from gape.voting.nearest import nearest


def fill_seats(
    points: Points, weights: Floats, centres: Indices, size: int, take: Callable[[int], bool] | None = None
) -> Indices:
    """Return the centres and further points of positive weight, `size` in total if there are enough.

    points: (v, d), weights: (v,), at least 0, centres: (k,), at most `size`. With `take`, a point gets a seat only if
    `take` accepts it, starting with the centres of largest weight. Points without weight may then fill the rest.
    """
    if take is not None:
        ordered = centres[np.argsort(-weights[centres], kind="stable")]
        centres = np.array([index for index in ordered if take(int(index))], dtype=np.int64)
    voted = np.flatnonzero(weights > 0)
    own = np.zeros(len(points), dtype=np.int64)
    own[voted] = nearest(points[voted], points[centres])
    own[centres] = np.arange(len(centres))  # of two equal centres, each is its own
    votes = np.bincount(own, weights, minlength=len(centres))
    free = np.setdiff1d(voted, centres)
    queues: list[list[int]] = [[] for _ in centres]
    for index in free[np.argsort(-weights[free], kind="stable")][::-1]:  # most votes last, where a list is popped
        queues[own[index]].append(int(index))
    chosen = list(centres)
    seats = np.ones(len(centres), dtype=np.int64)
    averages = [(-votes[party] / 3, party) for party, queue in enumerate(queues) if queue]
    heapq.heapify(averages)
    while len(chosen) < size and averages:
        _, party = heapq.heappop(averages)
        index = queues[party].pop()
        if take is None or take(index):
            chosen.append(index)
            seats[party] += 1
        if queues[party]:
            heapq.heappush(averages, (-votes[party] / (2 * seats[party] + 1), party))
    if take is not None:
        chosen += _without_votes(weights, size - len(chosen), take)
    return np.array(chosen, dtype=np.int64)


def fill_distinct_seats(
    points: Points, weights: Floats, centres: Indices, size: int, texts: Sequence[str]
) -> tuple[Indices, int]:
    """Fill seats like `fill_seats`, but skip near copies of texts that have a seat; return also how many were skipped.

    If the set would stay incomplete, near copies fill the rest, because a run must return the promised number of
    samples.
    """
    seen, passed_over = Distinct(), list[int]()

    def take(index: int) -> bool:
        if seen.take(texts[index]):
            return True
        passed_over.append(index)
        return False

    chosen = fill_seats(points, weights, centres, size, take)
    more = sorted(passed_over, key=lambda index: -weights[index])[: size - len(chosen)]
    return np.concatenate([chosen, np.array(more, dtype=np.int64)]), len(passed_over)


def _without_votes(weights: Floats, count: int, take: Callable[[int], bool]) -> list[int]:
    """Find the first `count` points without weight that `take` accepts."""
    accepted: list[int] = []
    for index in np.flatnonzero(weights <= 0):
        if len(accepted) == count:
            break
        if take(int(index)):
            accepted.append(int(index))
    return accepted
