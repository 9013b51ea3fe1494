"""What noisy votes say once candidates share strength: the Fay-Herriot estimator, with covariates of the geometry.

A candidate's noisy votes are a poor guess at its true ones: at epsilon 1 a typical candidate has 4 under noise of 15.
Three things are known beside them, at no cost in privacy. Votes vary less than the noise does. Where neighbours have
many votes, so have others there. And a candidate that many others have among their nearest is near to many records too:
in high dimensions some points are near to nearly everything (hubs). With y_i the noisy votes, mu their mean, a_ik the
mean of the noisy votes of the k candidates nearest to i, shrunk and less its mean, and x_i how often others have i
among their nearest, one on average, the model is that of Fay and Herriot (1979), whose noise is known:

    y_i = p_i + u_i + e_i,   Var u_i = tau^2,   Var e_i = sigma^2 + mu,
    p_i = l_i (1 + c (x_i - 1)),   l_i = max(0, mu + sum_k b_k a_ik).

The second part of the noise is by what the votes of as many other records would differ (Poisson). The best linear
estimate of the votes of records that did not vote is

    w_i = p_i + g (y_i - p_i),   g = tau^2 / (tau^2 + sigma^2 + mu).

b, c and tau are estimated from the noisy votes; where these say nothing, g and b a are near 0, and c is near what is
believed beforehand. A repeated point has no votes, since ties go to the first; its estimate is zero.
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

_NAMED = 5  # whom a candidate finds near, for x; 1 and 20 told less about true votes
_SCALES = (8, 32, 128)  # neighbours whose votes are averaged: small clusters, large ones, regions

# What is believed of b and c before the votes are seen, and how firmly. On real texts c was from 0.25 to 0.58.
_OF_NEIGHBOURS, _OF_POPULARITY, _DOUBT = (0.0, 0.0, 0.0), (0.5,), 0.5

_ROWS = 512  # candidates whose distances are held at once by each core; fixed, so that threads do not change a result


@dataclass(frozen=True, eq=False)
class Estimate:
    """Votes to be expected, and what the estimate made of the noisy ones."""

    counts: Floats  # w, (v,), zero at least
    mean: float  # mu, its standard error at least
    of_neighbours: Floats  # b, (3,): slopes of the votes of 8, 32 and 128 neighbours
    of_popularity: float  # c
    trust: float  # g: the share of a candidate's own deviation that is believed


def estimate(votes: NoisyVotes, points: Points, sigma: float) -> Estimate:
    """Estimate the votes that records which did not vote would cast, as the module says.

    `sigma` is the standard deviation of the noise. Slopes are zero at least. A mean of neighbours' votes counts only as
    far as it varies by more than noise does, beyond doubt; tau is taken to be mu, unless that is beyond doubt wrong.

    votes: (v,), points: (v, d).
    """
    if not 0 <= sigma < math.inf:
        raise InputError(f"sigma must be finite and at least 0, got {sigma}; give the noise of the votes")
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
    return Estimate(counts, mu, b, float(c), g)


def _slopes(Z: Floats, y: Floats, prior: tuple[float, ...]) -> Floats:
    """Regress y, (v,), on the columns of Z by slopes of zero at least, with the prior as further observations."""
    doubt = max(float(y.std()), math.ulp(1.0)) / _DOUBT
    slopes, _ = nnls(np.vstack([Z, doubt * np.eye(len(prior))]), np.concatenate([y, doubt * np.array(prior)]))
    found: Floats = slopes
    return found


def _averages(y: Floats, near: Indices, noise: float) -> Floats:
    """Average votes over each one's neighbours, (v, k), and shrink the averages to their mean."""
    v, k = near.shape
    if not k:
        return np.zeros(v)
    means: Floats = y[near].mean(axis=1)
    means -= means.mean()
    signal = _spread(means, noise / k, v / k, guess=0.0)  # v points have about v / k averages without votes in common
    return means * (signal / (signal + noise / k)) if signal > 0 else np.zeros(v)


def _spread(values: Floats, noise: float, independent: float, *, guess: float) -> float:
    """Return the variance of what is beneath the noise: the guess, or the nearest value within two standard errors."""
    total = float(values.var())
    margin = 2 * math.sqrt(2 / independent) * total
    return min(max(guess, total - noise - margin), max(0.0, total - noise + margin))


def nearest_others(points: Points, count: int) -> Indices:
    """Return the `count` nearest other points of each, all others where there are fewer, nearest first: (v, count).

    Distances are compared in float32, seen from the mean. points: (v, d).
    """
    v = len(points)
    k = min(count, v - 1)
    if k < 1:
        return np.empty((v, 0), dtype=np.int64)
    A = (points - points.mean(axis=0, dtype=np.float64)).astype(np.float32)
    squares = np.einsum("ij,ij->i", A, A)

    def nearest(start: int) -> Indices:
        rows = A[start : start + _ROWS]
        scores = squares - 2 * (rows @ A.T)  # (r, v): squared distances less what a row has in common
        scores[np.arange(len(rows)), start + np.arange(len(rows))] = np.inf
        some = np.argpartition(scores, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
        found: Indices = np.take_along_axis(some, order, axis=1)
        return found

    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        return np.concatenate(list(pool.map(nearest, range(0, v, _ROWS))))


def reference_nearest_others(points: Points, count: int) -> Indices:
    """Return what `nearest_others` returns, by the definition: all distances in float64, sorted."""
    gaps = distances(points, points)
    np.fill_diagonal(gaps, np.inf)
    order: Indices = np.argsort(gaps, axis=1, kind="stable")[:, : min(count, len(points) - 1)]
    return order


def _distinct(points: Points) -> Indices:
    """Find the first of each set of equal points, in order."""
    _, first = np.unique(points + np.float32(0.0), axis=0, return_index=True)  # -0.0 is 0.0
    found: Indices = np.sort(first)
    return found
