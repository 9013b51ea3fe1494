"""The privacy of noise that is added in shares: a sum of discrete Gaussians is close to a single one.

Each of h honest devices adds N_Z(0, s^2), in units of 1/g of a vote, to each candidate. The sum is not discrete
Gaussian (Kairouz, Liu & Steinke 2021), but close to it, by one lemma that is used twice.

Lemma. Let X be N_Z(0, a^2) on g Z and Y be N_Z(0, b^2) on Z. For every integer w,

    P[X + Y = w] = C exp(-w^2 / (2 (a^2 + b^2))) sum_x exp(-(x - m_w)^2 / (2 c^2)),    c^2 = a^2 b^2 / (a^2 + b^2),

where x runs over g Z and m_w is the mean given w. By Poisson summation, the sum is within a factor 1 +- e of a
constant, e = 2 sum_j exp(-2 pi^2 j^2 c^2 / g^2). So X + Y and N_Z(0, a^2 + b^2) are within a factor (1 + e) / (1 - e)
of each other at every w. The logarithm of such a factor is called closeness here.

- Shares: adding share k + 1 to k shares has c^2 = s^2 k / (k + 1), g = 1. A factor between two distributions also
  holds after adding a third, so the closeness of h shares to N_Z(0, h s^2) is at most the sum over k = 1, ..., h - 1.
- Units finer than a vote: if h s^2 = g^2 (sigma^2 + u^2), the noise is close to g times N_Z(0, sigma^2) plus
  independent noise, with c^2 / g^2 = sigma^2 u^2 / (sigma^2 + u^2). What the server sees is then close to a
  post-processing of votes with N_Z(0, sigma^2): u makes up for the finer lattice, and is not part of the guarantee.

Only counts that differ between neighbouring datasets matter, N of them over all releases (the unit shifts). With
closeness tau for one count, and delta(epsilon) the privacy profile of N counts with N_Z(0, sigma^2),

    delta_shares(epsilon) <= e^(tau N) delta(epsilon - 2 tau N) <= e^(tau N) (delta(epsilon) + 2 tau N),

because a profile falls no faster than epsilon rises. Noise beyond that of h devices is post-processing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError, PrivacyError
from gape.core.types import Floats
from gape.privacy.accounting import Release, delta_spent, spent

# Share of delta that noise in shares may cost. The certificate of a `Release` has a margin of nine times as much
# (gape.privacy.discrete), which covers it.
NEGLIGIBLE = 1e-10

_FINEST = 2**20  # most units per vote; sums would exceed their words well before
_SPARE = 1 + 2.0**-40  # scales are rounded up by more than floating-point arithmetic can lose


@dataclass(frozen=True)
class NoiseShares:
    """The noise that each device adds, such that `honest` devices together give at least N_Z(0, sigma^2) in votes."""

    sigma: float  # noise that is accounted for, in votes
    honest: int  # h
    units: int  # g: units per vote
    scale: float  # s, in units
    closeness: float  # tau

    def total(self, devices: int) -> float:
        """Return the standard deviation, in votes, of the sum of `devices` shares: at least sigma from `honest` on."""
        return self.scale * math.sqrt(devices) / self.units

    def excess(self, unit_shifts: int) -> float:
        """Bound what shares add to delta, if a single discrete Gaussian has a delta of at most 1/2."""
        return 3 * self.closeness * unit_shifts

    def delta_spent(self, releases: Sequence[Release], epsilon: float) -> float:
        """Return an upper bound on the delta at `epsilon` of releases made with this noise."""
        self._check(releases)
        slack = self.closeness * sum(release.unit_shifts for release in releases)
        return min(1.0, math.exp(slack) * (delta_spent(releases, epsilon) + 2 * slack))

    def spent(self, releases: Sequence[Release], delta: float) -> float:
        """Return an epsilon for which releases made with this noise are (epsilon, delta)-DP."""
        self._check(releases)
        slack = self.closeness * sum(release.unit_shifts for release in releases)
        return spent(releases, delta * math.exp(-slack) - 2 * slack)

    def _check(self, releases: Sequence[Release]) -> None:
        if any(release.sigma != self.sigma for release in releases):
            raise PrivacyError(
                f"the shares are for sigma {self.sigma:g}, and a release has another sigma; use one sigma"
            )


def noise_shares(sigma: float, honest: int, delta: float, unit_shifts: int) -> NoiseShares:
    """Find the coarsest units, and the least noise in them, that cost less than a share `NEGLIGIBLE` of delta.

    `sigma` is the noise that the releases are accounted for with, in votes; `unit_shifts` is the total of all releases.
    A share of the noise must be wide compared to a unit: if sigma / sqrt(honest) is not, a vote counts as 2, 4, 8, ...
    units.
    """
    if honest < 1 or unit_shifts < 1:
        raise InputError(f"honest and unit_shifts must be at least 1, got {honest} and {unit_shifts}")
    if not (sigma > 0 and 0 < delta < 1):
        raise InputError(f"sigma must be positive and delta between 0 and 1, got {sigma} and {delta}")
    most = NEGLIGIBLE * delta / (3 * unit_shifts)
    scale = _SPARE * sigma / math.sqrt(honest)
    closeness = sum_closeness(scale, honest)
    if closeness <= most:
        return NoiseShares(sigma, honest, 1, scale, closeness)
    width = _width(most / 2)
    if sigma**2 <= 1.25 * width:
        raise PrivacyError(
            f"noise of sigma {sigma:g} in {honest} shares cannot be shown to be as good as discrete Gaussian noise; "
            f"use a sigma above {math.sqrt(1.25 * width):.3g}, that is, a smaller epsilon or more rounds"
        )
    total = _SPARE * math.sqrt(sigma**2 + sigma**2 * width / (sigma**2 - width))  # u^2 is the second term
    units = 2
    while sum_closeness(units * total / math.sqrt(honest), honest) > most / 2:
        units *= 2
        if units > _FINEST:
            raise PrivacyError(f"{honest} shares of sigma {sigma:g} are too fine; use a larger sigma or fewer devices")
    scale = units * total / math.sqrt(honest)
    closeness = sum_closeness(scale, honest) + pair_closeness(width)
    return NoiseShares(sigma, honest, units, scale, closeness)


def sum_closeness(scale: float, summands: int) -> float:
    """Bound |log P[W = w] - log P[Z = w]| for all w, W a sum of N_Z(0, scale^2), Z ~ N_Z(0, summands scale^2)."""
    k = np.arange(1, summands, dtype=np.float64)
    return float(np.sum(_closeness(scale**2 * k / (k + 1))))


def pair_closeness(width: float) -> float:
    """Return the bound of the lemma at c^2 / g^2 = `width`."""
    return float(np.sum(_closeness(np.array([width]))))


def _closeness(width: Floats) -> Floats:
    q = np.exp(-2 * math.pi**2 * width)
    e = np.minimum(2 * q / (1 - q), 1.0)  # q + q^4 + q^9 + ... <= q + q^2 + q^3 + ...
    with np.errstate(divide="ignore"):  # infinite at 1: no bound
        closeness: Floats = 2 * np.arctanh(e)
    return closeness


def _width(closeness: float) -> float:
    """Return a c^2 / g^2 for which `pair_closeness` is at most `closeness`, which must be at most 1/10."""
    return math.log(5 / closeness) / (2 * math.pi**2)
