"""Algorithm 5 as printed: one linear program per swap. Slow, obvious, and what the fast code is tested against."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, eye_array, kron

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, NoisyVotes, Points
from gape.selection.local_search import LocalSearchResult


def reference_flow_cost(points: Points, weights: NoisyVotes | Floats, selected: Indices, separation: float) -> float:
    """Solve the local-search objective by a general linear-programming solver, one variable per arc."""
    return float(_flow_costs(points, weights, np.asarray(selected)[None], separation)[0])


def _flow_costs(points: Points, weights: NoisyVotes | Floats, sets: Indices, separation: float) -> Floats:
    """Solve one linear program for each row of `sets`, side by side, because most of a call is not spent on solving."""
    w = np.asarray(weights, dtype=np.float64)
    sources, sinks = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
    if w.sum() < 0:
        return np.full(len(sets), np.inf)
    if not len(sources):
        return np.zeros(len(sets))
    lengths = np.minimum(distances(points[sources], points), separation / 3)
    costs = np.stack([lengths[:, np.concatenate([sinks, chosen])].ravel() for chosen in sets])  # (sets, p e)
    p, q = len(sources), len(sinks)
    e = q + sets.shape[1]
    arc = np.arange(p * e).reshape(p, e)
    rows = np.concatenate([np.repeat(np.arange(p), e), np.repeat(p + np.arange(q), p)])
    columns = np.concatenate([arc.ravel(), arc[:, :q].T.ravel()])
    conserve = coo_array((np.ones(len(rows)), (rows, columns)), shape=(p + q, p * e))
    moved = np.concatenate([w[sources], -w[sinks]])
    solution = linprog(
        costs.ravel(), A_eq=kron(eye_array(len(sets)), conserve, "csr"), b_eq=np.tile(moved, len(sets)), method="highs"
    )
    if solution.status != 0:
        return np.full(len(sets), np.inf)
    found: Floats = (costs * solution.x.reshape(costs.shape)).sum(axis=1)
    return found


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
    for z in chosen if others else ():
        swapped = np.array([[x if s == z else s for s in chosen] for x in others])
        better = _flow_costs(points, weights, swapped, separation) < before - tolerance * abs(before)
        if better.any():
            return z, others[int(np.argmax(better))]
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
