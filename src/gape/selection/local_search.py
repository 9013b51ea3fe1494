"""GAPE's selection: local search over the candidates above a threshold (Algorithm 5), exact.

The objective is `objective.flow_cost`; `search.py` has the search and how it avoids solving a flow per swap, and
`reference.py` the algorithm as printed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gape.errors import InputError
from gape.protocols import Selection
from gape.selection.objective import flow_cost, signed_points
from gape.selection.search import Progress, Search
from gape.types import Floats, NoisyVotes, Points


@dataclass(frozen=True)
class LocalSearchResult(Selection):
    """The selected candidates, with what the search did and what it proved."""

    cost: float  # the objective of the selected; infinite where the negative weight exceeds the positive
    swaps: int
    certified: bool  # no single swap lowers the objective by more than 1e-9 of it (distances rounded to 40 bits)
    candidates: int  # how many candidates were above the threshold; none: the one returned is arbitrary
    interrupted: bool = False


def local_search(
    points: Points,
    weights: NoisyVotes | Floats,
    size: int,
    *,
    separation: float,
    threshold: float,
    certify: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> LocalSearchResult:
    """Select at most `size` points S with weight above `threshold` such that no single swap lowers F(S).

    F is the minimum-cost flow of `flow_cost` with distances truncated at separation / 3 (Algorithm 5). Where no
    point is above the threshold, or the weights sum to less than zero, the votes say nothing: the paper returns
    any one point, and this returns the one with the largest weight. The start is AugPE's choice, the largest
    weights, so the result is never worse than ranking in this objective. `points` is (v, d), `weights` (v,).

    Without `certify` the search stops where no swap pays with the flow into the negative weights held, which takes
    a fraction of the time. Interrupted from the keyboard, it returns the best so far. Neither is certified.
    """
    signed = signed_points(points, weights, separation)
    w = np.asarray(weights, dtype=np.float64)
    if size < 1:
        raise InputError(f"size must be at least 1, got {size}")
    if np.isnan(threshold):
        raise InputError("threshold must be a number, got nan; use 0 to search all candidates with positive votes")
    candidates = np.flatnonzero(w > threshold)
    if not len(candidates) or not signed.feasible:
        only = np.array([np.argmax(w)])
        cost = flow_cost(points, w, only, separation)
        return LocalSearchResult(only, cost, swaps=0, certified=True, candidates=len(candidates))
    start = np.argsort(-w[candidates], kind="stable")[:size]
    if len(candidates) <= size or not len(signed.sources):
        cost = flow_cost(points, w, candidates[start], separation)
        return LocalSearchResult(candidates[start], cost, swaps=0, certified=True, candidates=len(candidates))
    search = Search(signed, candidates, start)
    interrupted = False
    try:
        search.run(certify=certify, progress=progress)
    except KeyboardInterrupt:
        interrupted = True
    chosen, cost = search.best
    return LocalSearchResult(
        candidates[chosen], cost, search.swaps, certify and not interrupted, len(candidates), interrupted
    )


@dataclass(frozen=True)
class Gape:
    """GAPE's selector (Algorithm 4): local search over the candidates with more than `threshold` noisy votes."""

    separation: float
    threshold: float
    certify: bool = True  # without it a round at thousands of candidates takes seconds instead of minutes

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the search is deterministic)
    ) -> LocalSearchResult:
        """Select by local search."""
        result = local_search(
            points, votes, size, separation=self.separation, threshold=self.threshold, certify=self.certify
        )
        if result.interrupted:  # the votes are paid for and kept; a resumed run selects again, and from all of them
            raise KeyboardInterrupt
        return result
