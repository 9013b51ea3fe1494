"""GAPE's selection: local search over the candidates above a threshold (Algorithm 5), exact.

The objective is `objective.flow_cost`; `search.py` has the search and how it avoids solving a flow per swap, and
`reference.py` the algorithm as printed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gape._support.parallel import cuda
from gape.core.errors import InputError
from gape.core.protocols import Candidates, Selection, Selector
from gape.core.types import Floats, NoisyVotes, Points, Samples, texts_of
from gape.selection.flow.blocked import BlockedSearch
from gape.selection.flow.device import on_device
from gape.selection.flow.effort import SearchProgress
from gape.selection.flow.objective import SignedPoints, flow_cost, signed_points
from gape.selection.flow.search import Search
from gape.selection.seats import fill_distinct_seats, fill_seats
from gape.selection.sharing import estimate

# Up to so many points distances are held in float64: 300 MB.
_SMALL = 4096

# Possible swaps up to which the loop asks for a proof that none is left: about ten seconds of two cores.
_AFFORDABLE = 1_000_000

SPARE = 2.0  # candidates that qualify, in multiples of those that are asked for: measured, see docs/selection.md
_HALF = 0.5  # share of the survivors that is searched for if votes are not remembered
# Where candidates are made, not chosen from a corpus: centres that are searched for, and how many qualify at least.
CENTRES, QUALIFIED = 50, 200


@dataclass(frozen=True)
class LocalSearchResult(Selection):
    """The selected candidates, with what the search did and what it proved."""

    cost: float  # the objective of the selected; infinite where the negative weight exceeds the positive, and nan where
    # the search was interrupted before it was known
    swaps: int
    certified: bool  # no single swap lowers the objective by more than 1e-9 of it, with distances as `method` has them
    candidates: int  # how many candidates were above the threshold; none: the one returned is arbitrary
    # "float64" or "float32": distances held so; "blocks": float32, computed as needed. With ", cuda": by that device.
    method: str = "none"
    interrupted: bool = False
    copies: int = 0  # candidates that were passed over as near copies of others


def local_search(
    points: Points,
    weights: NoisyVotes | Floats,
    size: int,
    *,
    separation: float,
    threshold: float,
    certify: bool = True,
    memory: float = 4e9,
    progress: Callable[[SearchProgress], None] | None = None,
    _device: str | None = None,
) -> LocalSearchResult:
    """Select at most `size` points S with weight above `threshold` such that no single swap lowers F(S).

    F is the minimum-cost flow of `flow_cost` with distances truncated at separation / 3 (Algorithm 5). Where no
    point is above the threshold, or the weights sum to less than zero, the votes say nothing: the paper returns
    any one point, and this returns the one with the largest weight. The start is AugPE's choice, the largest
    weights, so the result is never worse than ranking in this objective. `points` is (v, d), `weights` (v,).

    Without `certify` the search stops where no swap pays with the flow into the negative weights held, which takes
    a fraction of the time. `memory` bounds the bytes taken by distances and what is derived from them: where they do
    not fit, the search works in blocks with the flow held, even with `certify`. Interrupted from the keyboard, it
    returns the best result so far, at least the start. None of these is certified, but for blocks without negative
    weights, where there is no flow to hold. Where there are many points, their distances are computed on a GPU if torch
    finds one.
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
    method = _method(signed, len(candidates), size, memory)
    device = None if method == "float64" else _device or cuda()
    name = f"{method}, {device}" if device else method
    search: Search | BlockedSearch | None = None
    interrupted = False
    try:
        if device:
            signed = replace(signed, device=on_device(signed.points, device))
        if method == "blocks":
            search = BlockedSearch(signed, candidates, start, memory)
        else:
            search = Search(signed, candidates, start, np.float64 if method == "float64" else np.float32)
        search.run(certify=certify, progress=progress)
    except KeyboardInterrupt:
        interrupted = True
    chosen, cost = search.best if search else (start, math.nan)
    swaps = search.swaps if search else 0
    certified = certify and not interrupted and (method != "blocks" or not len(signed.sinks))
    return LocalSearchResult(candidates[chosen], cost, swaps, certified, len(candidates), name, interrupted)


def _method(signed: SignedPoints, candidates: int, size: int, memory: float) -> str:
    """Choose how distances are held: precisely where that is cheap, at all where it fits."""
    p, q = len(signed.sources), len(signed.sinks)
    if len(signed.points) <= _SMALL:
        return "float64"
    # Arcs by source and by sink, candidates to sources, and the rises without each selected point: 32 bytes for every
    # node that rises. One in thirty did in the benchmark, and one in eight has room.
    needed = 4.0 * (2 * p * q + candidates * p + size * (p + q))
    return "float32" if needed <= memory else "blocks"


def threshold_for(weights: NoisyVotes | Floats, wanted: int, threshold: float = math.inf) -> float:
    """Lower a threshold, to zero at least, until `wanted` weights lie above it, or as many as are positive."""
    if not wanted or (weights > threshold).sum() >= wanted:
        return threshold
    least = np.sort(weights)[::-1][:wanted][-1]
    return max(0.0, float(np.nextafter(least, -math.inf)))


@dataclass(frozen=True)
class Gape:
    """GAPE's selector (Algorithm 4): local search over the candidates with more than `threshold` noisy votes.

    Construct it by `Gape.paper`, `Gape.without_memory` or `Gape.for_corpus`; the fields allow other combinations.

    The paper's threshold keeps noise out, but at practical sizes it also excludes nearly all candidates. With `spare`
    it is lowered, at most to zero, until `spare` times the requested number of candidates are above it. This reads only
    noisy votes, so it costs no privacy.

    In the paper's objective the negative votes cancel positive ones near them. Without `signed` they count as zero, and
    the rule is a weighted k-median: under much noise it came nearer to the data (docs/selection.md).

    With `noise`, the sigma of the votes, they are replaced by an estimate of what other records would cast
    (`sharing.py`). It is never negative; threshold and `spare` then apply to the estimate.

    With `centres` below 1, the search finds only that share of the survivors. The others are the candidates with the
    most votes near each of these centres, in proportion to its share of all votes (`seats.py`). The result describes
    the search for the centres.

    With `distinct`, no survivor is a near copy of another (`copies.py`), if there are enough candidates for that: of
    several near copies the one with the most votes is kept. The votes of the others still count at their own points,
    in the search and in the shares of the centres. Only defaults of earlier versions use it: today's is
    `RegionalRanking` where texts could be near copies. It is part of the description that each run records.
    """

    separation: float
    threshold: float
    certify: bool | None = None  # None: where it is affordable; else the flow is held, which takes seconds
    spare: float = 0.0
    signed: bool = True
    noise: float | None = None  # None: votes are taken as they are
    centres: float = 1.0
    distinct: bool = False
    # The words of samples, which the kind of data decides.
    wording: Callable[[Samples], list[str]] = field(default=texts_of, repr=False, compare=False)

    @classmethod
    def paper(cls, separation: float, threshold: float, *, certify: bool | None = None) -> "Gape":
        """Algorithm 4 as printed: signed votes, threshold tau, and distances truncated at separation / 3.

        With `certify` the search always ends at a proven local optimum, as Algorithm 5 does, however long that takes.
        """
        return cls(separation, threshold, certify)

    @classmethod
    def without_memory(cls, sigma: float, samples: int | None = None, *, separation: float = math.inf) -> "Gape":
        """The default where a generator makes `samples` survivors that are not texts, for votes with noise of `sigma`.

        A threshold of one sigma that is lowered if necessary, no negative votes, and half of the survivors searched
        for, at least `CENTRES`, among at least `QUALIFIED` candidates. Without `samples` there is no such minimum: that
        was the default of earlier versions, and runs that they began are resumed with it.
        """
        least, share = (0.0, 0.0) if samples is None else (QUALIFIED / samples, CENTRES / samples)
        spare, centres = max(SPARE, least), min(1.0, max(_HALF, share))
        return cls(separation, sigma, spare=spare, signed=False, centres=centres)

    @classmethod
    def for_corpus(cls, sigma: float, *, separation: float = math.inf) -> "Gape":
        """The default where candidates are texts of a corpus: votes with noise of `sigma` are estimated first."""
        return cls(separation, math.inf, spare=SPARE, signed=False, noise=sigma)

    def among(self, candidates: Candidates) -> Selector:
        """Return the rule for these candidates: with `distinct` texts, else any samples."""
        return partial(self._select, self.wording(candidates.samples)) if self.distinct else self

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the search is deterministic)
    ) -> LocalSearchResult:
        """Select by local search."""
        return self._select(None, votes, points, size)

    def _select(
        self,
        texts: Sequence[str] | None,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator | None = None,  # noqa: ARG002  (as above)
    ) -> LocalSearchResult:
        weights: NoisyVotes | Floats = votes if self.signed else np.maximum(votes, 0)
        if self.noise is not None:
            weights = estimate(votes, points, self.noise).counts
        threshold = threshold_for(weights, math.ceil(self.spare * size), self.threshold)
        sought = math.ceil(self.centres * size)
        free = max(int((weights > threshold).sum()) - sought, 0)
        # Where nothing is negative, holding the flow holds nothing back: the proof is made on the way.
        affordable = sought * free <= _AFFORDABLE or not (weights < 0).any()
        certify = affordable if self.certify is None else self.certify
        found = local_search(points, weights, sought, separation=self.separation, threshold=threshold, certify=certify)
        if found.interrupted:  # the votes are paid for and kept; a resumed run selects again, and from all of them
            raise KeyboardInterrupt
        positive = np.maximum(weights, 0.0)
        if texts is not None:
            indices, copies = fill_distinct_seats(points, positive, found.indices, size, texts)
            return replace(found, indices=indices, copies=copies)
        if sought == size:
            return found
        return replace(found, indices=fill_seats(points, positive, found.indices, size))
