"""Algorithm 5 as printed: one linear program per swap. Slow, obvious, and what the fast code is tested against."""

from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, NoisyVotes, Points
from gape.selection.local_search import LocalSearchResult


def reference_flow_cost(points: Points, weights: NoisyVotes | Floats, selected: Indices, separation: float) -> float:
    """Solve the local-search objective by a general linear-programming solver, one variable per arc."""
    w = np.asarray(weights, dtype=np.float64)
    sources, sinks = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
    if w.sum() < 0:
        return float("inf")
    if not len(sources):
        return 0.0
    ends = np.concatenate([sinks, np.asarray(selected)])
    costs = np.minimum(distances(points[sources], points[ends]), separation / 3)
    p, e, q = len(sources), len(ends), len(sinks)
    arc = np.arange(p * e).reshape(p, e)
    rows = np.concatenate([np.repeat(np.arange(p), e), np.repeat(p + np.arange(q), p)])
    columns = np.concatenate([arc.ravel(), arc[:, :q].T.ravel()])
    conserve = coo_array((np.ones(len(rows)), (rows, columns)), shape=(p + q, p * e))
    solution = linprog(
        costs.ravel(), A_eq=conserve.tocsr(), b_eq=np.concatenate([w[sources], -w[sinks]]), method="highs"
    )
    return float(solution.fun) if solution.status == 0 else float("inf")


def improving_swap(
    points: Points,
    weights: NoisyVotes | Floats,
    selected: Indices,
    *,
    separation: float,
    threshold: float,
    tolerance: float = 1e-9,
) -> tuple[int, int] | None:
    """Return the first swap (out, in) that lowers the objective by more than `tolerance` of it, if any does."""
    chosen = [int(z) for z in selected]
    before = reference_flow_cost(points, weights, np.array(chosen), separation)
    others = [int(x) for x in np.flatnonzero(np.asarray(weights) > threshold) if x not in chosen]
    for z, x in product(chosen, others):
        swapped = np.array([x if s == z else s for s in chosen])
        if reference_flow_cost(points, weights, swapped, separation) < before - tolerance * abs(before):
            return z, x
    return None


def reference_local_search(
    points: Points, weights: NoisyVotes | Floats, size: int, *, separation: float, threshold: float
) -> LocalSearchResult:
    """Run Algorithm 5 line by line: try every swap, take the first that lowers the objective, start over."""
    w = np.asarray(weights, dtype=np.float64)
    candidates = np.flatnonzero(w > threshold)
    if not len(candidates) or w.sum() < 0:
        only = np.array([np.argmax(w)])
        cost = reference_flow_cost(points, w, only, separation)
        return LocalSearchResult(only, cost, swaps=0, certified=True, candidates=len(candidates))
    solution = candidates[np.argsort(-w[candidates], kind="stable")][:size]
    swaps = 0
    while swap := improving_swap(points, w, solution, separation=separation, threshold=threshold):
        out, into = swap
        solution = np.where(solution == out, into, solution)
        swaps += 1
    cost = reference_flow_cost(points, w, solution, separation)
    return LocalSearchResult(solution, cost, swaps, certified=True, candidates=len(candidates))
