"""Selecting for the Wasserstein distance: survivors to which the votes can be transported evenly at little cost.

The survivors are published with equal weights, so a good set S is one for which

    W(S) = min over plans P of sum_ij P_ij c(x_i, y_j),   sum_j P_ij = w_i / sum(w),   sum_i P_ij = 1 / |S|,

is small: every survivor must serve its share of the votes w. That spreads survivors over everything that has votes, and
gives frequent content its share, in one objective. Records do not lie at the candidate that they vote for but at some
distance r from it, in directions of their own; so c(x, y) = sqrt(|x - y|^2 + r^2), where r is the median distance of a
qualified candidate to the nearest other one, a public stand-in.

The minimum over S is hard to find. Like Lloyd's algorithm for k-means, this alternates between the transport plan of the
chosen candidates, by Sinkhorn's algorithm, and for each of them the candidate that would serve what it is sent at the
least cost, all at once and no candidate twice (a linear assignment). It starts with the most votes, as ranking does,
and keeps the best set that it has met.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from gape._support.geometry import distances
from gape._support.parallel import cores, one_blas_thread
from gape.core.copies import Distinct
from gape.core.errors import InputError
from gape.core.protocols import Candidates, Selection, Selector
from gape.core.types import Floats, Indices, NoisyVotes, Points, texts_of

QUALIFIED = 2.0  # candidates that may be chosen, in multiples of those that are asked for
_TURNS = 8  # of plan and candidates; most runs stop earlier
_LEAST_GAIN = 1e-4  # of the cost, below which it stops
_SMOOTHING = 0.015  # of the mean cost: how much Sinkhorn's plans are blurred
_STEPS, _CLOSE = 120, 1e-3  # of Sinkhorn's algorithm: the most steps, and the error of the survivors' shares to stop at
_LARGEST = 40_000_000  # voted candidates times survivors; beyond that the start is kept
_ROWS = 512  # per task; fixed, so that results do not depend on the number of threads


@dataclass(frozen=True)
class TransportResult(Selection):
    """The survivors, and what the search achieved."""

    cost: float  # W(S), up to the smoothing; nan if it was not computed
    ranking_cost: float  # the same of the candidates with the most votes
    turns: int  # of plan and candidates
    candidates: int  # that qualified
    copies: int  # candidates that were passed over as near copies of others


@dataclass(frozen=True)
class Transport:
    """Selects survivors to which the votes can be transported evenly at little cost. Negative votes count as zero.

    The candidates with the most votes qualify, `qualified` times as many as are asked for. With `distinct`, no survivor
    is a near copy of another if there are enough candidates for that: of near copies the one with the most votes
    qualifies, and the votes of the others still count where they lie.
    """

    distinct: bool = False
    qualified: float = QUALIFIED

    def __post_init__(self) -> None:
        if not 1 <= self.qualified < math.inf:
            raise InputError(f"qualified must be at least 1, got {self.qualified}; the default is {QUALIFIED:g}")

    def among(self, candidates: Candidates) -> Selector:
        """Return the rule for these candidates."""
        return partial(self._select, texts_of(candidates.samples)) if self.distinct else self

    def __call__(
        self, votes: NoisyVotes | Floats, points: Points, size: int, rng: np.random.Generator
    ) -> TransportResult:
        """Select from the candidates at `points`, (v, d), by their votes, (v,)."""
        return self._select(None, votes, points, size, rng)

    def _select(
        self,
        texts: Sequence[str] | None,
        votes: NoisyVotes | Floats,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (it is deterministic)
    ) -> TransportResult:
        if size < 1:
            raise InputError(f"size must be at least 1, got {size}; ask for one sample or more")
        weights = np.maximum(np.asarray(votes, dtype=np.float64), 0.0)
        pool, copies = _most_voted(weights, size, math.ceil(self.qualified * size), texts)
        size = min(size, len(pool))
        voted = np.flatnonzero(weights > 0)
        start = TransportResult(
            pool[:size], cost=math.nan, ranking_cost=math.nan, turns=0, candidates=len(pool), copies=copies
        )
        if not len(voted) or len(pool) == size or len(voted) * size > _LARGEST:
            return start
        with one_blas_thread(), ThreadPoolExecutor(cores()) as threads:
            costs = _costs(points, voted, pool, threads)
            chosen, cost, first, turns = _alternate(costs, weights[voted] / weights[voted].sum(), size, threads)
        return replace(start, indices=pool[chosen], cost=cost, ranking_cost=first, turns=turns)


def _most_voted(weights: Floats, size: int, wanted: int, texts: Sequence[str] | None) -> tuple[Indices, int]:
    """Return the candidates with the most votes, and how many near copies of others were passed over.

    Near copies are among them only if there would be fewer than `size` otherwise.
    """
    order = np.argsort(-weights, kind="stable")
    if texts is None:
        return order[:wanted], 0
    seen, taken, copies = Distinct(), list[int](), list[int]()
    for index in order:
        if len(taken) == wanted:
            break
        (taken if seen.take(texts[index]) else copies).append(int(index))
    filled = taken + copies[: max(0, size - len(taken))]
    return np.array(filled, dtype=np.int64), len(copies)


def _costs(points: Points, voted: Indices, pool: Indices, threads: ThreadPoolExecutor) -> Floats:
    """Return c(x, y) of all voted and qualified candidates, (v, q), in float32."""
    qualified = points[pool]

    def nearest_other(start: int) -> Floats:
        gaps = distances(qualified[start : start + _ROWS], qualified)
        gaps[np.arange(len(gaps)), start + np.arange(len(gaps))] = np.inf
        least: Floats = gaps.min(axis=1)
        return least

    reach = float(np.median(np.concatenate(_by_rows(nearest_other, len(pool), threads))))
    costs = np.empty((len(voted), len(pool)), dtype=np.float32)

    def fill(start: int) -> None:
        gaps = distances(points[voted[start : start + _ROWS]], qualified)
        costs[start : start + _ROWS] = np.sqrt(gaps**2 + reach**2)

    _by_rows(fill, len(voted), threads)
    return costs


def _alternate(
    costs: Floats, shares: Floats, size: int, threads: ThreadPoolExecutor
) -> tuple[Indices, float, float, int]:
    """Return the best columns found, their cost, that of the first `size` columns, and the number of turns."""
    smoothing = _SMOOTHING * float(costs.mean(dtype=np.float64))
    chosen = best = np.arange(size)
    least = first = math.inf
    turns = 0
    for turns in range(1, _TURNS + 1):
        plan = _transport_plan(costs[:, chosen], shares, smoothing, threads)
        of_each = sum(_by_rows(partial(_served, plan, costs), len(costs), threads))  # (m, q)
        cost = float(of_each[np.arange(size), chosen].sum(dtype=np.float64))
        if turns == 1:
            first = cost
        if cost >= least * (1 - _LEAST_GAIN):
            break
        best, least = chosen, cost
        _, chosen = linear_sum_assignment(of_each)
    return best, least, first, turns


def _served(plan: Floats, costs: Floats, start: int) -> Floats:
    """Return what a block of rows contributes to the cost of serving each survivor's share from each column."""
    rows = slice(start, start + _ROWS)
    return np.asarray(plan[rows].T @ costs[rows], dtype=np.float64)


def _transport_plan(costs: Floats, shares: Floats, smoothing: float, threads: ThreadPoolExecutor) -> Floats:
    """Return Sinkhorn's plan from the shares, (v,), to equal parts, (m,), in float32."""
    kernel = np.exp((costs.min(axis=1, keepdims=True) - costs) / np.float32(smoothing))
    least = np.float32(np.finfo(np.float32).tiny)
    of_rows = shares.astype(np.float32)
    of_columns = np.float32(1 / costs.shape[1])
    columns = np.ones(costs.shape[1], dtype=np.float32)
    rows = np.empty(len(costs), dtype=np.float32)

    def step(start: int) -> Floats:
        part = slice(start, start + _ROWS)
        rows[part] = of_rows[part] / np.maximum(kernel[part] @ columns, least)
        arriving: Floats = rows[part] @ kernel[part]
        return arriving

    for _ in range(_STEPS):
        arriving = np.sum(_by_rows(step, len(costs), threads), axis=0)
        error = float(np.abs(arriving * columns - of_columns).sum())
        columns = of_columns / np.maximum(arriving, least)
        if error < _CLOSE:
            break
    _by_rows(step, len(costs), threads)
    kernel *= rows[:, None]
    kernel *= columns
    plan: Floats = kernel
    return plan


def _by_rows(work: Callable[[int], Floats | None], rows: int, threads: ThreadPoolExecutor) -> list[Floats]:
    """Do some work for each block of rows, and return the results in order."""
    return list(threads.map(work, range(0, rows, _ROWS)))  # type: ignore[arg-type]
