"""Algorithm 5 as printed: one linear program per swap. Slow, obvious, and what the fast code is tested against."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_array

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, NoisyVotes, Points
from gape.selection.local_search import LocalSearchResult

Problem: TypeAlias = tuple[Points, NoisyVotes | Floats, Indices, float]  # points, weights, selected, separation

_AT_ONCE = 32  # problems in one linear program


def reference_flow_cost(points: Points, weights: NoisyVotes | Floats, selected: Indices, separation: float) -> float:
    """Solve the local-search objective by a general linear-programming solver, one variable per arc."""
    return float(reference_flow_costs([(points, weights, selected, separation)])[0])


def reference_flow_costs(problems: Sequence[Problem]) -> Floats:
    """Solve many problems side by side in few linear programs, because most of a call is not spent on solving."""
    found = np.array([_solve_at_once(problem) for problem in problems])  # NaN if it cannot be
    programs = {index: _program(*problems[index]) for index in np.flatnonzero(np.isnan(found)).tolist()}
    while programs:
        some = {index: programs.pop(index) for index in list(programs)[:_AT_ONCE]}
        costs, conserve, moved = zip(*some.values(), strict=True)
        solution = linprog(
            np.concatenate(costs), A_eq=block_diag(conserve, "csr"), b_eq=np.concatenate(moved), method="highs"
        )
        ends = np.cumsum([len(cost) for cost in costs])
        for index, cost, end in zip(some, costs, ends.tolist(), strict=True):
            found[index] = cost @ solution.x[end - len(cost) : end] if solution.status == 0 else np.inf
    return found


def _solve_at_once(problem: Problem) -> float:
    """Return the cost if nothing can be or has to be moved, or NaN."""
    w = np.asarray(problem[1], dtype=np.float64)
    if w.sum() < 0:
        return np.inf
    return np.nan if (w > 0).any() else 0.0


def _program(
    points: Points, weights: NoisyVotes | Floats, selected: Indices, separation: float
) -> tuple[Floats, coo_array, Floats]:
    """Return the costs of the arcs, the constraints and their right-hand sides."""
    w = np.asarray(weights, dtype=np.float64)
    sources, sinks = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
    lengths = np.minimum(distances(points[sources], points), separation / 3)
    costs = lengths[:, np.concatenate([sinks, selected])]  # (p, e)
    p, q = len(sources), len(sinks)
    arc = np.arange(costs.size).reshape(costs.shape)
    rows = np.concatenate([np.repeat(np.arange(p), costs.shape[1]), np.repeat(p + np.arange(q), p)])
    columns = np.concatenate([arc.ravel(), arc[:, :q].T.ravel()])
    conserve = coo_array((np.ones(len(rows)), (rows, columns)), shape=(p + q, costs.size))
    return costs.ravel(), conserve, np.concatenate([w[sources], -w[sinks]])


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
    swaps = [(z, x) for z in chosen for x in others]
    for start in range(0, len(swaps), _AT_ONCE):
        some = swaps[start : start + _AT_ONCE]
        swapped = [np.array([x if s == z else s for s in chosen]) for z, x in some]
        costs = reference_flow_costs([(points, weights, candidate_set, separation) for candidate_set in swapped])
        better = costs < before - tolerance * abs(before)
        if better.any():
            return some[int(np.argmax(better))]
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
