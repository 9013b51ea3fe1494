"""Precision, recall, density and coverage: metrics of which points lie in balls that reach a k-th neighbour.

The ball of a point x of a set reaches its k-th nearest OTHER point of the set, where other means another index: a point
that occurs k + 1 times has a ball of radius zero, which holds its duplicates. Balls are closed. With this radius
r_k(x), n real points D and m synthetic points S,

    precision         share of y in S with |x - y| <= r_k(x) for some x in D   (Kynkäänniemi et al., 2019)
    recall            share of x in D with |x - y| <= r_k(x) for some y in S   (the paper's appendix, "data-based")
    classical recall  share of x in D with |x - y| <= r_k(y) for some y in S   (Kynkäänniemi et al., 2019)
    density           (1 / k m) sum over y in S of #{x in D: |x - y| <= r_k(x)} (Naeem et al., 2020)
    coverage          the same formula as the paper's recall, there with k = 5  (Naeem et al., 2020)

The first two use balls around real points, whose radii no algorithm can influence.
"""

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.metrics.arrays import Array, check_pair
from gape.metrics.neighbours import members, neighbour_squares


@dataclass(frozen=True)
class Balls:
    """Scores of the balls around real points, from one pass over the distances."""

    k: int
    precision: float  # share of synthetic points in some ball
    recall: float  # share of balls with a synthetic point in them
    density: float  # mean number of balls that hold a synthetic point, in units of k


def balls(real: Array, synthetic: Array, *ks: int) -> tuple[Balls, ...]:
    """Score the balls around real points that reach their k-th neighbour, for each given k; neighbours are found once.

    real: (n, d), synthetic: (m, d). Memory besides the inputs does not grow with n^2 or n m.
    """
    X, Y = check_pair(real, synthetic)
    for k in ks:
        _check_k(k, len(X), "real")
    squares = neighbour_squares(X, max(ks))
    scores = []
    for k in ks:
        in_ball, around = members(X, squares[:, k - 1], Y)
        scores.append(
            Balls(k, float(np.mean(around > 0)), float(np.mean(in_ball > 0)), float(around.sum() / (k * len(Y))))
        )
    return tuple(scores)


def precision(real: Array, synthetic: Array, k: int = 3) -> float:
    """Return the share of synthetic points in some real point's ball: how much of the synthetic data looks real.

    An outlier among the real points has a large ball in which any point counts, and a single good point, repeated,
    scores 1.
    """
    return balls(real, synthetic, k)[0].precision


def recall(real: Array, synthetic: Array, k: int = 3) -> float:
    """Return the share of real points' balls that hold a synthetic point: the recall of the paper.

    Synthetic points far from the data change nothing, however many there are. For k much smaller than n, m points can
    reach only about m k of the n balls, so recall is low if m is far below n: compare it between sets of equal size.
    """
    return balls(real, synthetic, k)[0].recall


def classical_recall(real: Array, synthetic: Array, k: int = 3) -> float:
    """Return the share of real points in some synthetic point's ball, for comparison with earlier work.

    The synthetic points determine these radii themselves: k + 1 points extremely far apart have balls that hold all
    real points, and score near 1 without being near any of them. Use `recall`.
    """
    X, Y = check_pair(real, synthetic)
    _check_k(k, len(Y), "synthetic")
    _, around = members(Y, neighbour_squares(Y, k)[:, -1], X)
    return float(np.mean(around > 0))


def density(real: Array, synthetic: Array, k: int = 5) -> float:
    """Return the mean number of real points' balls that hold a synthetic point, in units of k.

    It is above 1 in dense regions, less sensitive to outliers among the real points than precision, and unbounded:
    copies of the densest real point score higher than real data.
    """
    return balls(real, synthetic, k)[0].density


def coverage(real: Array, synthetic: Array, k: int = 5) -> float:
    """Return the share of real points' balls that hold a synthetic point: `recall` as Naeem et al. call it."""
    return balls(real, synthetic, k)[0].recall


def _check_k(k: int, n: int, name: str) -> None:
    if not 1 <= k < n:
        raise InputError(
            f"k must be at least 1 and below the number of {name} points, because a ball reaches the k-th nearest "
            f"other point, got k = {k} and {n} points; use a smaller k or more points"
        )
