"""Seats in proportion: from centres to a whole set of survivors, as many near each as its share of the votes.

A k-median spreads over everything that has votes. That finds what is rare, but as every survivor counts alike, what is
frequent gets less than its share. Here the centres are a part of the survivors, and the other seats are given away as
in a parliament: by the highest averages of Sainte-Laguë, the votes of a centre's candidates over 2 s + 1 where it has s
seats. Whoever has the most votes among them gets the seat.
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
    """Return the centres and further points of positive weight, `size` in all where there are as many.

    points: (v, d), weights: (v,), at least 0, centres: (k,), at most `size`. With `take`, a point gets a seat only if
    `take` accepts it, the centres with the most weight first; then points without weight may fill what is left.
    """
    if take is not None:
        ordered = centres[np.argsort(-weights[centres], kind="stable")]
        centres = np.array([place for place in ordered if take(int(place))], dtype=np.int64)
    voted = np.flatnonzero(weights > 0)
    own = np.zeros(len(points), dtype=np.int64)
    own[voted] = nearest(points[voted], points[centres])
    own[centres] = np.arange(len(centres))  # of two that are equal, each is its own
    votes = np.bincount(own, weights, minlength=len(centres))
    free = np.setdiff1d(voted, centres)
    queues: list[list[int]] = [[] for _ in centres]
    for place in free[np.argsort(-weights[free], kind="stable")][::-1]:  # the most votes last, where a list is popped
        queues[own[place]].append(int(place))
    chosen = list(centres)
    seats = np.ones(len(centres), dtype=np.int64)
    averages = [(-votes[party] / 3, party) for party, queue in enumerate(queues) if queue]
    heapq.heapify(averages)
    while len(chosen) < size and averages:
        _, party = heapq.heappop(averages)
        place = queues[party].pop()
        if take is None or take(place):
            chosen.append(place)
            seats[party] += 1
        if queues[party]:
            heapq.heappush(averages, (-votes[party] / (2 * seats[party] + 1), party))
    if take is not None:
        chosen += _without_votes(weights, size - len(chosen), take)
    return np.array(chosen, dtype=np.int64)


def fill_distinct_seats(
    points: Points, weights: Floats, centres: Indices, size: int, texts: Sequence[str]
) -> tuple[Indices, int]:
    """Fill seats as `fill_seats` does, but pass over near copies of texts that have one; return how many these were.

    A set that would stay incomplete takes near copies after all: a run owes as many samples as it has promised.
    """
    seen, passed_over = Distinct(), list[int]()

    def take(place: int) -> bool:
        if seen.take(texts[place]):
            return True
        passed_over.append(place)
        return False

    chosen = fill_seats(points, weights, centres, size, take)
    more = sorted(passed_over, key=lambda place: -weights[place])[: size - len(chosen)]
    return np.concatenate([chosen, np.array(more, dtype=np.int64)]), len(passed_over)


def _without_votes(weights: Floats, count: int, take: Callable[[int], bool]) -> list[int]:
    """Find so many points without weight that are accepted, the first ones first."""
    found: list[int] = []
    for place in np.flatnonzero(weights <= 0):
        if len(found) == count:
            break
        if take(int(place)):
            found.append(int(place))
    return found
