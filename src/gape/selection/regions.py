"""Ranking that loses no region: the default where a model writes.

Ranking gives all seats to the candidates with the most votes, so a small group that is far from the others may get
none. Here a k-median of the votes, found by the local search of Algorithm 5, first divides the candidates into regions,
each with the candidates nearest to one centre. The candidate with the most votes in each region gets a seat, and the
candidates with the most votes anywhere get the others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gape.core.copies import Distinct
from gape.core.protocols import Candidates, Selector
from gape.core.types import Floats, Indices, NoisyVotes, Points, Samples, texts_of
from gape.selection.local_search import CENTRES, QUALIFIED, SPARE, LocalSearchResult, local_search, threshold_for
from gape.voting.nearest import nearest

MOST = 4000  # candidates that qualify as centres; more slow the search down and hardly improve it (docs/selection.md)


@dataclass(frozen=True)
class RegionalRanking:
    """Keeps the candidate with the most votes in each of up to `regions` regions, and ranks the others.

    It is meant for the votes that `Remembering` estimates. With `distinct`, no survivor is a near copy of another, if
    there are enough candidates for that: of several near copies the one with the most votes is kept. The result
    describes the search for the centres of the regions, with distances truncated at separation / 3.
    """

    separation: float = math.inf
    regions: int = CENTRES
    distinct: bool = False
    # The words of samples, which the kind of data decides.
    wording: Callable[[Samples], list[str]] = field(default=texts_of, repr=False, compare=False)

    def among(self, candidates: Candidates) -> Selector:
        """Return the rule for these candidates: with `distinct` texts, else any samples."""
        return partial(self._select, self.wording(candidates.samples)) if self.distinct else self

    def __call__(
        self, votes: NoisyVotes | Floats, points: Points, size: int, rng: np.random.Generator
    ) -> LocalSearchResult:
        """Select among candidates whose words are not known."""
        return self._select(None, votes, points, size, rng)

    def _select(
        self,
        texts: Sequence[str] | None,
        votes: NoisyVotes | Floats,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the search is deterministic)
    ) -> LocalSearchResult:
        weights = np.maximum(votes, 0.0)
        threshold = threshold_for(weights, min(max(math.ceil(SPARE * size), QUALIFIED), MOST))
        found = local_search(
            points, weights, min(self.regions, size), separation=self.separation, threshold=threshold, certify=True
        )
        if found.interrupted:  # the votes are paid for and kept; a resumed run selects again, and from all of them
            raise KeyboardInterrupt
        order = by_region(weights, nearest(points, points[found.indices]))
        indices, copies = _seated(order, size, texts)
        return replace(found, indices=indices, copies=copies)


def by_region(weights: Floats, regions: Indices) -> Indices:
    """Order candidates by weight, most first, after the first of each region, which are ordered in the same way.

    weights: (v,), regions: (v,), result: (v,).
    """
    order = np.argsort(-weights, kind="stable")
    _, places = np.unique(regions[order], return_index=True)
    first = np.zeros(len(order), dtype=np.bool_)
    first[places] = True
    return np.concatenate([order[first], order[~first]])


def _seated(order: Indices, size: int, texts: Sequence[str] | None) -> tuple[Indices, int]:
    """Seat the first `size` candidates in this order, with `texts` without near copies; also count those passed over.

    Near copies are used only if the set would otherwise stay incomplete.
    """
    if texts is None:
        return order[:size], 0
    seen, chosen, copies = Distinct(), list[int](), list[int]()
    for index in order:
        if len(chosen) == size:
            break
        (chosen if seen.take(texts[index]) else copies).append(int(index))
    return np.array((chosen + copies)[:size], dtype=np.int64), len(copies)
