"""Whether a generator's variations can reach the data: estimates of the quantities in the paper's theory.

They are measured on the generator and the embedder, which are public, so they cost no privacy. If the target is taken
from private data, the results are not differentially private and are for research only.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Floats, Points

_RESAMPLES = 400
_INTERVAL = (2.5, 97.5)  # percentiles of a 95% interval
_CHANCE = 1 / 3  # probability of moving towards the target, in Definition "reachable"
_LARGEST_C = 2.0
_CHANCE_FINDING = 0.001  # a bias is found where chance alone would give as large a one less often than this
_WARM = 8  # a first sample must lie within R/8 of each cluster, in Assumption "warm-start"


@dataclass(frozen=True)
class IntrinsicDimension:
    """The number of directions that hold a given share of the variance of variations."""

    dimension: int
    share: float
    singular_values: Floats  # of the differences, largest first


def intrinsic_dimension(sample: Points | Floats, variations: Points | Floats, share: float = 0.8) -> IntrinsicDimension:
    """Return the least k for which k singular values explain `share` of the squared differences (the paper's appendix).

    `sample`, (d,), is the embedding of a text, and `variations`, (N, d), are those of its variations. The singular
    values are those of the matrix of differences, which is not centred.
    """
    differences = _finite_rows(variations) - np.asarray(sample, dtype=np.float64)
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1, got {share}; the paper uses 0.8")
    values = np.linalg.svd(differences, compute_uv=False).astype(np.float64)
    squared = np.cumsum(values**2)
    if not squared[-1] > 0:
        raise InputError("all variations are equal to the sample; vary at a larger scale")
    # Rounding must not add a direction where the share is reached exactly.
    k = int(np.searchsorted(squared, share * squared[-1] * (1 - 1e-12))) + 1
    return IntrinsicDimension(k, share, values)


@dataclass(frozen=True)
class PointEstimate:
    """An estimate from samples, with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Reachability:
    """How far the variations of one sample move towards one target (Definition "reachable")."""

    effective_rank: PointEstimate  # lambda: the total variance over that in the direction of the target
    anticoncentration: PointEstimate  # c: a third of the variations move sqrt(c) standard deviations towards it
    reachable: bool  # whether, by their intervals, the rank is finite and c is positive, as the theory requires


def reachability(variations: Points | Floats, target: Points | Floats, rng: np.random.Generator) -> Reachability:
    """Estimate the effective rank lambda and the anticoncentration c of Definition "reachable".

    For Z drawn from `variations`, (N, d), with mean y, and x the `target`, (d,): lambda is
    tr Cov[Z] |x - y|^2 / (x - y)^T Cov[Z] (x - y), and c the largest number up to 2 with
    Pr[(x - y)^T (Z - y) >= sqrt(c Var[(x - y)^T Z])] >= 1/3, or zero if there is none. The mean is treated as known.
    """
    points = _finite_rows(variations)
    if len(points) < 3:
        raise InputError(f"reachability needs at least 3 variations, got {len(points)}")
    towards = np.asarray(target, dtype=np.float64) - points.mean(axis=0)
    length = np.linalg.norm(towards)
    if not length > 0:
        raise InputError("the target is the mean of the variations; choose another target")
    steps = points - points.mean(axis=0)
    total, along = np.sum(steps**2, axis=1), steps @ (towards / length)
    if not np.sum(along**2) > 1e-20 * np.sum(total):
        return Reachability(PointEstimate(np.inf, np.inf, np.inf), PointEstimate(0.0, 0.0, 0.0), reachable=False)
    draws = rng.integers(len(points), size=(_RESAMPLES, len(points)))
    rank = _estimate(*(_effective_rank(total[rows], along[rows]) for rows in (slice(None), *draws)))
    spread = _estimate(*(_anticoncentration(along[rows]) for rows in (slice(None), *draws)))
    return Reachability(rank, spread, reachable=bool(np.isfinite(rank.high)) and spread.low > 0)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of the variations of one sample y; Definition "variation-api" has E[Z] = y and tr Cov = s^2."""

    bias: float  # |mean - y|
    bias_error: float  # Monte Carlo standard error of the mean, sqrt(tr Cov / N): about |mean - y| without any bias
    variance: float  # tr Cov, the realised s^2
    variance_error: float  # its standard error
    p_value: float  # of a bias this large or larger by chance
    biased: bool  # whether the bias can be told from zero


def moments(sample: Points | Floats, variations: Points | Floats) -> Moments:
    """Measure how far variations are from the moments that the paper's VariationAPI has: E[Z] = y and tr Cov[Z] = s^2.

    `sample`, (d,), is y, and `variations`, (N, d), are draws of Z. Without bias, N |mean - y|^2 / tr Cov is about
    F-distributed with nu and nu (N - 1) degrees of freedom, where nu = (tr Cov)^2 / tr(Cov^2) counts the directions:
    exact for Gaussian variations that are isotropic in any subspace. tr(Cov^2) is estimated as by Bai and Saranadasa
    (1996), because fewer variations than dimensions overstate it.
    """
    points = _finite_rows(variations)
    count, dimension = points.shape
    if count < 3:
        raise InputError(f"mean and variance need at least 3 variations, got {count}; write more")
    mean = points.mean(axis=0)
    steps = points - mean
    bias = float(np.linalg.norm(mean - np.asarray(sample, dtype=np.float64)))
    squared = np.sum(steps**2, axis=1)
    variance = float(squared.sum()) / (count - 1)
    spread = float(squared.std(ddof=1)) / np.sqrt(count)
    error = float(np.sqrt(variance / count))
    if not variance > 0:
        return Moments(bias, 0.0, 0.0, 0.0, p_value=float(bias == 0), biased=bias > 0)
    gram = steps.T @ steps if dimension <= count else steps @ steps.T
    n = count - 1
    observed = float(np.sum((gram / n) ** 2))  # tr of the squared sample covariance
    estimated = n**2 / ((n + 2) * (n - 1)) * (observed - variance**2 / n)
    directions = float(np.clip(variance**2 / max(estimated, variance**2 / dimension), 1.0, dimension))
    p_value = float(fdtrc(directions, directions * n, (bias / error) ** 2))
    return Moments(bias, error, variance, float(spread), p_value, biased=p_value < _CHANCE_FINDING)


@dataclass(frozen=True)
class WarmStart:
    """How near the first samples lie to targets, against Assumption "warm-start": within R/8 of each cluster."""

    samples: int
    targets: int
    separation: float  # R
    farthest: float  # distance of the target that is farthest from any first sample
    share: float  # of the targets that have a first sample within R/8

    @property
    def separation_needed(self) -> float:
        """The least R with a first sample within R/8 of each target."""
        return _WARM * self.farthest


def warm_start(samples: Points | Floats, targets: Points | Floats, separation: float | None = None) -> WarmStart:
    """Compare the distances from `targets`, (n, d), to the nearest first sample, (m, d), with R/8.

    Each target counts as a cluster of its own, so a share of 1 is enough for the assumption, and a smaller one leaves
    it open. R is `separation`, or the diameter of the smallest ball around the mean of all points that holds them:
    clusters cannot be farther apart than that.
    """
    first, aims = _finite_rows(samples), _finite_rows(targets)
    nearest = distances(aims, first).min(axis=1)
    everything = np.concatenate([first, aims])
    centre = everything.mean(axis=0, keepdims=True)
    apart = 2 * float(distances(everything, centre).max()) if separation is None else separation
    if not apart > 0:
        raise InputError(f"separation must be positive, got {apart}; give R, or points that differ")
    return WarmStart(len(first), len(aims), apart, float(nearest.max()), float(np.mean(nearest <= apart / _WARM)))


def doubling_dimension(points: Points | Floats, rng: np.random.Generator, centres: int = 20) -> PointEstimate:
    """Estimate the doubling dimension of a set: log2 of the number of balls of half the radius that cover a ball.

    Balls are drawn around `centres` points, with radii that reach a quarter, a half and all of the other points. Each
    is covered greedily by balls of half its radius around its own points, which takes at most as many balls as the best
    cover with a quarter of the radius. The value is the median over balls, and the interval is their range. The theory
    asks for the maximum over all balls, which a sample can only bound from below.
    """
    x = _finite_rows(points)
    if len(x) < 2:
        raise InputError(f"a doubling dimension needs at least 2 points, got {len(x)}")
    estimates = []
    for centre in rng.permutation(len(x))[:centres]:
        gaps = distances(x[[centre]], x)[0]
        for share in (0.25, 0.5, 1.0):
            radius = float(np.quantile(gaps, share))
            if radius > 0:
                estimates.append(np.log2(_cover(x[gaps <= radius], radius / 2)))
    if not estimates:
        raise InputError("all points coincide, so they have no doubling dimension; use different points")
    return PointEstimate(float(np.median(estimates)), float(min(estimates)), float(max(estimates)))


def _cover(points: Floats, radius: float) -> int:
    """Count the balls of a greedy cover, where each ball is centred on the point farthest from the previous centres."""
    gaps, count = np.full(len(points), np.inf), 0
    while gaps.max() > radius:
        gaps = np.minimum(gaps, distances(points[[np.argmax(gaps)]], points)[0])
        count += 1
    return count


def _effective_rank(total: Floats, along: Floats) -> float:
    variance = float(np.sum(along**2))
    return float(np.sum(total)) / variance if variance > 0 else np.inf


def _anticoncentration(along: Floats) -> float:
    deviation = float(np.sqrt(np.mean(along**2)))
    reached = float(np.quantile(along, 1 - _CHANCE, method="lower"))
    return min((reached / deviation) ** 2, _LARGEST_C) if deviation > 0 and reached > 0 else 0.0


def _estimate(value: float, *resampled: float) -> PointEstimate:
    low, high = np.percentile(resampled, _INTERVAL)
    return PointEstimate(value, float(low), float(high))


def _finite_rows(points: Points | Floats) -> Floats:
    rows: Floats = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise InputError(f"points must be finite rows, at least one, got an array of shape {rows.shape}")
    return rows
