"""The privacy profile of composed discrete Gaussians: a certified delta for every epsilon.

Integer counts get independent N_Z(0, sigma^2) noise. Over all releases at this sigma at most N counts (the
unit shifts) differ by one between neighbouring datasets. Even if each release depends on those before, the
whole is dominated by N independent pairs (noise, noise + 1) (Zhu, Dong & Wang 2022). The privacy loss of that
product is (N + 2W) / (2 sigma^2), where W is a sum of N independent discrete Gaussians, so that

    delta(epsilon) = sum_w P[W = w] (1 - exp(epsilon - (N + 2w) / (2 sigma^2)))_+ ,

in either direction by symmetry. Results are never below that sum, rounding included: losses are compared with an
epsilon lowered by `_LOSS_ROUNDING`, results are raised by `_ROUNDING`, and `_UNDERFLOW` is added.
"""

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy.special import erfcx, ndtr

from gape.core.types import Floats

Groups: TypeAlias = tuple[tuple[float, int], ...]  # (sigma, unit shifts over all releases at that sigma)

_LOSS_ROUNDING = 1e-14  # relative; a loss is a few roundings away from its exact value
_ROUNDING = 1e-9  # relative; twenty convolutions of 10^4 positive terms lose less than 1e-10
_UNDERFLOW = 1e-300  # absolute; more than P[|W| > 38 sd] <= 2 exp(-38^2 / 2) plus any underflow
_REACH = 38  # standard deviations of W
_FLAT = 1e-6  # eta (see `_unevenness`) up to which the law of W is bounded by a Gaussian
_WIDEST_LATTICE = 5_000  # standard deviation of W above which lattice points are not summed individually
_LONGEST_CONVOLUTION = 10_000  # unit shifts; more of them at small sigma would take seconds
_LARGEST_MIXTURE = 50  # distinct sigmas; more of them would take seconds
_GRID = 200  # mixtures: points per standard deviation of the loss
_NEGLIGIBLE = 1e-100  # mixtures: a point of less mass is taken for an infinite loss


def certified_delta(groups: Groups, epsilon: float) -> float:
    """Upper bound on the delta at `epsilon` of all groups together; every sigma is positive.

    One group: exact up to a relative 1e-5, or about 1e-3 if sd(W) = sigma sqrt(N) exceeds 5,000. Up to 50
    groups: composed on a grid, which costs about 0.1% of epsilon or less. More groups, or over 10,000 unit
    shifts at a sigma below about 2: composed as zCDP, which costs up to about 7% of epsilon.
    """
    if len(groups) > _LARGEST_MIXTURE or any(_is_too_long(*group) for group in groups):
        return zcdp_delta(rho(groups), epsilon)
    if len(groups) > 1:
        return min(_mixture_delta(groups, epsilon), zcdp_delta(rho(groups), epsilon))
    return _single_delta(*groups[0], epsilon)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta at `epsilon` of the Gaussian mechanism, mu = sensitivity / sigma (Balle & Wang 2018, Thm 8)."""
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if low < -1:
        return float(ndtr(-low)) - _density(low) * _mills(high)
    # exp(epsilon) times the density at `high` is the density at `low`. 1e-14 covers the rounding of erfcx.
    return _density(low) * (_mills(low) * (1 + 1e-14) - _mills(high))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Upper bound on the delta at `epsilon` of rho-zCDP (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    epsilon = min(epsilon * (1 - _LOSS_ROUNDING), 1e100)  # the profile of a smaller epsilon is larger
    above = np.geomspace(1e-6, min(10 + 10 * epsilon / rho, 1e30), 2_000)  # order - 1: each gives a bound
    order = 1 + above
    exponents = above * (order * rho - epsilon) - np.log(above) - order * np.log1p(1 / above)
    return _rounded_up(math.exp(min(0.0, float(exponents.min()))))


def rho(groups: Groups) -> float:
    """Return the rho for which all groups are rho-zCDP (Canonne, Kamath & Steinke 2020)."""
    return sum(shifts / (2 * sigma * sigma) for sigma, shifts in groups)


def _single_delta(sigma: float, shifts: int, epsilon: float) -> float:
    eta = _unevenness(sigma, shifts)
    if eta <= _FLAT and sigma * math.sqrt(shifts) > _WIDEST_LATTICE:
        # The terms of the sum are log-concave in w: it is at most their integral plus their maximum.
        mu = math.sqrt(shifts) / sigma
        return _rounded_up((1 + eta) * (gaussian_delta(mu, epsilon) + _largest_term(mu, shifts, epsilon)))
    law = _law_of_sum(sigma, shifts)
    reach = len(law) // 2
    epsilon *= 1 - _LOSS_ROUNDING
    first = math.floor(min(max(sigma * sigma * epsilon - shifts / 2, -reach), reach))
    return _rounded_up(_hockey_stick(law[reach + first :], _losses(sigma, shifts, first, reach), epsilon))


def _mixture_delta(groups: Groups, epsilon: float) -> float:
    law, losses, lost = _law_of_loss(groups)
    return _rounded_up(_hockey_stick(law, losses, epsilon * (1 - _LOSS_ROUNDING)) + lost)


def _hockey_stick(law: Floats, losses: Floats, epsilon: float) -> float:
    return float(-np.sum(law * np.expm1(np.minimum(epsilon - losses, 0.0))))


def _rounded_up(delta: float) -> float:
    return min(1.0, delta * (1 + _ROUNDING) + _UNDERFLOW)


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _largest_term(mu: float, shifts: int, epsilon: float) -> float:
    """Bound the terms of the sum, with a Gaussian density for P[W = w], by 1 - exp(-x) <= min(x, 1)."""
    low = epsilon / mu - mu / 2  # the least w with a positive term, in standard deviations of W
    root = math.sqrt(low * low + 4)
    step = 2 / (low + root) if low > 0 else (root - low) / 2  # from there to the largest term
    return mu / shifts * min(_density(low + step) * mu * step, _density(max(low, 0.0)))


def _is_too_long(sigma: float, shifts: int) -> bool:
    return shifts > _LONGEST_CONVOLUTION and _unevenness(sigma, shifts) > _FLAT


def _unevenness(sigma: float, shifts: int) -> float:
    """Bound eta: P[W = w] is at most 1 + eta times the density of N(0, N sigma^2) at w.

    P[W = w] is proportional to exp(-w^2 / (2 N sigma^2)) times a Gaussian sum over a coset of the lattice
    A_{N-1}. By Poisson summation that sum is within a factor 1 +- eta of its mean, where eta is the sum of
    exp(-2 pi^2 sigma^2 |y|^2) over the nonzero y of the dual lattice: the projection of Z^N orthogonal to
    (1, ..., 1). The z in Z^N with median 0 that projects to y has |z|^2 <= 2 |y|^2, so that eta is at most
    theta^N - 1 with theta = 1 + 2q + 2q^4 + 2q^9 + ..., q = exp(-pi^2 sigma^2). The factor of proportionality
    is no larger than for continuous noise, again by Poisson summation.
    """
    exponent = (math.pi * sigma) ** 2
    theta_bound = -2 * math.exp(-exponent) / math.expm1(-exponent)  # 2q / (1 - q) >= theta - 1
    return math.expm1(min(shifts * math.log1p(theta_bound), 1.0))  # values beyond 1 are of no use


@lru_cache(maxsize=4)
def _law_of_sum(sigma: float, shifts: int) -> Floats:
    """Upper bounds on P[W = w] for |w| <= reach; less than `_UNDERFLOW` lies beyond. (2 reach + 1,)."""
    eta = _unevenness(sigma, shifts)
    if eta <= _FLAT:
        return (1 + eta) * _gaussian_blocks(sigma * math.sqrt(shifts), _reach(sigma, shifts), 1)
    return _convolved_law(sigma, shifts)


def _convolved_law(sigma: float, shifts: int) -> Floats:
    support = np.arange(-_reach(sigma, 1), _reach(sigma, 1) + 1)
    one = np.exp(-(support**2) / (2 * sigma * sigma))
    one /= one.sum()
    # Direct convolution of positive terms keeps the tails accurate; a Fourier transform does not.
    law, summands = one, 1
    for bit in bin(shifts)[3:]:
        law, summands = _centre(np.convolve(law, law), _reach(sigma, 2 * summands)), 2 * summands
        if bit == "1":
            law, summands = _centre(np.convolve(law, one), _reach(sigma, summands + 1)), summands + 1
    return law


def _reach(sigma: float, shifts: int) -> int:
    return math.ceil(_REACH * sigma * math.sqrt(shifts))


def _centre(law: Floats, reach: int) -> Floats:
    middle = len(law) // 2
    return law[max(middle - reach, 0) : middle + reach + 1]


def _losses(sigma: float, shifts: int, first: int, last: int, width: int = 1) -> Floats:
    """Losses at W = first * width, ..., last * width."""
    sums = np.arange(first, last + 1, dtype=np.float64) * width
    losses: Floats = (shifts + 2 * sums) / (2 * sigma * sigma)
    return losses


def _gaussian_blocks(deviation: float, blocks: int, width: int) -> Floats:
    """Bounds on the mass of {j width, ..., j width + width - 1}, |j| <= blocks, under a Gaussian density."""
    starts = np.arange(-blocks, blocks + 1, dtype=np.float64) * width
    nearest = np.minimum(np.abs(starts), np.abs(starts + (width - 1))) / deviation
    law: Floats = np.exp(-(nearest**2) / 2) * (width / (deviation * math.sqrt(2 * math.pi)))
    return law


@lru_cache(maxsize=8)
def _law_of_loss(groups: Groups) -> tuple[Floats, Floats, float]:
    """Masses and losses of a law that dominates the loss of all groups, and its mass of an infinite loss.

    Each atom of a group is split between the two nearest points of a common grid so that both probabilities
    of the pair keep their mass. The exact pair is a post-processing of the split one, which therefore
    dominates it (Doroshenko et al. 2022). The error is of second order: a group adds at most step^2 / 4 to
    the variance of the loss, 1/160,000 of it.
    """
    step = math.sqrt(2 * rho(groups)) / _GRID
    law, first, lost = np.ones(1), 0, 0.0
    for sigma, shifts in groups:
        masses, losses = _atoms(sigma, shifts)
        kept = masses > _NEGLIGIBLE
        lost += float(masses[~kept].sum()) + _UNDERFLOW
        masses, losses = masses[kept], losses[kept]
        cells = np.floor(losses / step).astype(np.int64)
        upper = masses * np.expm1(np.minimum(cells * step - losses, 0.0)) / math.expm1(-step)
        split = np.zeros(cells[-1] - cells[0] + 2)
        np.add.at(split, cells - cells[0], masses - upper)
        np.add.at(split, cells - cells[0] + 1, upper)
        law = np.convolve(law, split)
        heavy = np.flatnonzero(law > _NEGLIGIBLE)
        start, stop = heavy[0], heavy[-1] + 1
        lost += float(law[:start].sum() + law[stop:].sum())
        law, first = law[start:stop], first + int(cells[0] + start)
    return law, step * np.arange(first, first + len(law), dtype=np.float64), lost


def _atoms(sigma: float, shifts: int) -> tuple[Floats, Floats]:
    """Masses and losses of a law that dominates the loss of one group.

    Where the lattice is wide, its points are taken in blocks, each point with the largest mass of its block,
    and a block is split between its ends like an atom between grid points: by concavity, a share of at most
    1/2 + (difference of the losses at its ends) / 8 goes to the upper end.
    """
    deviation, eta = sigma * math.sqrt(shifts), _unevenness(sigma, shifts)
    width = math.ceil(deviation / _WIDEST_LATTICE)
    if width == 1 or eta > _FLAT:
        masses = _law_of_sum(sigma, shifts)
        return masses, _losses(sigma, shifts, -(len(masses) // 2), len(masses) // 2)
    reach = math.ceil(_REACH * deviation / width)
    blocks = (1 + eta) * _gaussian_blocks(deviation, reach, width)
    upper = min(0.5 + width / (8 * sigma * sigma), 1.0)
    masses = np.append((1 - upper) * blocks, 0.0) + np.append(0.0, upper * blocks)
    return masses, _losses(sigma, shifts, -reach, reach + 1, width)
