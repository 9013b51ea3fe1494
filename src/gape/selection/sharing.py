"""Estimating true votes from noisy ones: the Fay-Herriot estimator, with covariates from the geometry.

A candidate's noisy votes are a poor estimate of its true ones: at epsilon 1 a typical candidate has 4 votes under noise
of 15. Three more things are known, at no privacy cost. Votes vary less than the noise does. Candidates near others with
many votes tend to have many votes. And a candidate that is among the nearest of many others is also near to many
records: in high dimensions some points are near to nearly everything (hubs). Let y_i be the noisy votes, mu their mean,
a_ik the centred and shrunk mean of the noisy votes of the k candidates nearest to i, and x_i how often i is among the
nearest of others, one on average. The model is that of Fay and Herriot (1979), with known noise:

    y_i = p_i + u_i + e_i,   Var u_i = tau^2,   Var e_i = sigma^2 + mu,
    p_i = l_i (1 + c (x_i - 1)),   l_i = max(0, mu + sum_k b_k a_ik).

The second part of the noise is how much the votes of as many other records would differ (Poisson). The best linear
estimate of the votes of records that did not vote is

    w_i = p_i + g (y_i - p_i),   g = tau^2 / (tau^2 + sigma^2 + mu).

b, c and tau are estimated from the noisy votes. If these carry no information, g and b a are near 0, and c is near its
prior. The estimate of a repeated point is zero: with one vote per record it has none, because ties go to the first.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from gape._support.geometry import distances
from gape._support.parallel import cores, one_blas_thread
from gape.core.errors import InputError
from gape.core.types import Floats, Indices, NoisyVotes, Points

_NAMED = 5  # nearest neighbours counted for x; 1 and 20 told less about true votes
_SCALES = (8, 32, 128)  # neighbours whose votes are averaged: small clusters, large ones, regions

# Prior means of b and c, and their prior standard deviation. On real texts c was between 0.25 and 0.58.
_OF_NEIGHBOURS, _OF_POPULARITY, _DOUBT = (0.0, 0.0, 0.0), (0.5,), 0.5

_ROWS = 512  # candidates whose distances each core keeps at once; fixed, so that results do not depend on threads


@dataclass(frozen=True, eq=False)
class VoteEstimate:
    """Expected votes, and the fitted parameters of the estimator."""

    counts: Floats  # w, (v,), at least zero
    mean: float  # mu, at least its standard error
    of_neighbours: Floats  # b, (3,): slopes of the votes of 8, 32 and 128 neighbours
    of_popularity: float  # c
    trust: float  # g: the weight of a candidate's own deviation


def estimate(votes: NoisyVotes, points: Points, sigma: float) -> VoteEstimate:
    """Estimate the votes that records which did not vote would cast, as in this module's docstring.

    `sigma` is the standard deviation of the noise. Slopes are at least zero. A mean of neighbours' votes counts only as
    far as it varies significantly more than the noise; tau is mu, unless that differs significantly from the data.

    votes: (v,), points: (v, d).
    """
    if not 0 <= sigma < math.inf:
        raise InputError(f"sigma must be finite and at least 0, got {sigma}; give the noise scale of the votes")
    first = _distinct(points)
    y = votes[first].astype(np.float64)
    v = len(y)
    mu = max(float(y.mean()), sigma / math.sqrt(v))
    noise = sigma**2 + mu
    near = nearest_others(points[first], max(_SCALES))
    popular = np.bincount(near[:, :_NAMED].ravel(), minlength=v) / max(1, min(_NAMED, v - 1))
    A = np.stack([_averages(y, near[:, :k], noise) for k in _SCALES], axis=1)  # (v, 3)
    b = _slopes(A, y - y.mean(), _OF_NEIGHBOURS)
    local = np.maximum(mu + A @ b, 0.0)
    hubs = local * (popular - 1)
    (c,) = _slopes(hubs[:, None], y - local, _OF_POPULARITY)
    predicted = local + c * hubs
    tau2 = _spread(y - predicted, noise, v, guess=mu**2)
    g = tau2 / (tau2 + noise) if tau2 > 0 else 0.0
    counts = np.zeros(len(votes))
    counts[first] = np.maximum(predicted + g * (y - predicted), 0.0)
    return VoteEstimate(counts, mu, b, float(c), g)


def _slopes(Z: Floats, y: Floats, prior: tuple[float, ...]) -> Floats:
    """Regress y, (v,), on the columns of Z with non-negative slopes, and the prior as further observations."""
    doubt = max(float(y.std()), math.ulp(1.0)) / _DOUBT
    solution, _ = nnls(np.vstack([Z, doubt * np.eye(len(prior))]), np.concatenate([y, doubt * np.array(prior)]))
    slopes: Floats = solution
    return slopes


def _averages(y: Floats, near: Indices, noise: float) -> Floats:
    """Average the votes of the neighbours of each candidate, (v, k), and shrink the averages to their mean."""
    v, k = near.shape
    if not k:
        return np.zeros(v)
    means: Floats = y[near].mean(axis=1)
    means -= means.mean()
    signal = _spread(means, noise / k, v / k, guess=0.0)  # v points have about v / k averages that share no votes
    return means * (signal / (signal + noise / k)) if signal > 0 else np.zeros(v)


def _spread(values: Floats, noise: float, independent: float, *, guess: float) -> float:
    """Return the variance without the noise: the guess, or the nearest value within two standard errors."""
    total = float(values.var())
    margin = 2 * math.sqrt(2 / independent) * total
    return min(max(guess, total - noise - margin), max(0.0, total - noise + margin))


def nearest_others(points: Points, count: int) -> Indices:
    """Return the `count` nearest other points of each point, or all others if there are fewer: (v, count).

    The nearest comes first. Distances are compared in float32, relative to the mean. points: (v, d).
    """
    v = len(points)
    k = min(count, v - 1)
    if k < 1:
        return np.empty((v, 0), dtype=np.int64)
    A = (points - points.mean(axis=0, dtype=np.float64)).astype(np.float32)
    squares = np.einsum("ij,ij->i", A, A)

    def nearest(start: int) -> Indices:
        rows = A[start : start + _ROWS]
        scores = squares - 2 * (rows @ A.T)  # (r, v): squared distances minus a constant per row
        scores[np.arange(len(rows)), start + np.arange(len(rows))] = np.inf
        unsorted = np.argpartition(scores, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(scores, unsorted, axis=1), axis=1, kind="stable")
        neighbours: Indices = np.take_along_axis(unsorted, order, axis=1)
        return neighbours

    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        return np.concatenate(list(pool.map(nearest, range(0, v, _ROWS))))


def reference_nearest_others(points: Points, count: int) -> Indices:
    """Return the same as `nearest_others`, by the definition: all distances in float64, sorted."""
    gaps = distances(points, points)
    np.fill_diagonal(gaps, np.inf)
    order: Indices = np.argsort(gaps, axis=1, kind="stable")[:, : min(count, len(points) - 1)]
    return order


def _distinct(points: Points) -> Indices:
    """Find the first of each set of equal points, in order."""
    _, first = np.unique(points + np.float32(0.0), axis=0, return_index=True)  # -0.0 is 0.0
    distinct: Indices = np.sort(first)
    return distinct
