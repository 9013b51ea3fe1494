"""The privacy cost of releases of noisy votes: from noise scales to (epsilon, delta), and back.

A release is a histogram of integer votes with independent discrete Gaussian noise on every bin. Releases are
recorded as data (`Release`), and their cost is computed from it. Releases may be adaptive: each may depend on the
noisy votes before it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Literal, TypeAlias, get_args

from gape.core.errors import InputError, PrivacyError
from gape.privacy.discrete import Groups, certified_delta, gaussian_delta, rho

Neighbours: TypeAlias = Literal["replace", "add_remove"]

_LEAST_DELTA = 1e-250  # far above the smallest positive double
_LEAST_SIGMA, _LARGEST_SIGMA = 1e-9, 1e15  # far outside the range that votes need
_DIGITS = 6  # significant digits of a noise scale
_LARGEST_EXCESS = 0.2  # relative to the noise scale for continuous noise
_EPSILON_TOLERANCE = 1e-8  # relative


@dataclass(frozen=True)
class Release:
    """One release of a histogram of votes, with discrete Gaussian noise N_Z(0, sigma^2) on every bin.

    A privacy unit casts at most `votes_per_unit` votes, each for a different bin. Replacing it moves them;
    adding or removing it makes them appear or vanish. Sigma 0 means no noise and no privacy.
    """

    sigma: float
    neighbours: Neighbours = "replace"
    votes_per_unit: int = 1

    def __post_init__(self) -> None:
        if self.sigma != 0 and not _LEAST_SIGMA <= self.sigma <= _LARGEST_SIGMA:
            raise InputError(
                f"sigma must be 0 or between {_LEAST_SIGMA:g} and {_LARGEST_SIGMA:g}, got {self.sigma}; "
                "use 0 for no noise"
            )
        _unit_shifts(self.neighbours, self.votes_per_unit)

    @property
    def unit_shifts(self) -> int:
        """Number of bins that may differ by one between neighbouring datasets."""
        return _unit_shifts(self.neighbours, self.votes_per_unit)

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the histogram, in votes."""
        return math.sqrt(self.unit_shifts)


def stated(value: float, digits: int = 4) -> str:
    """Format an epsilon or a delta to `digits` significant digits, rounded up so as never to promise too much."""
    shortened = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(shortened):.{digits}g}"


def noise_scale(
    epsilon: float,
    delta: float,
    rounds: int,
    *,
    neighbours: Neighbours = "replace",
    votes_per_unit: int = 1,
) -> float:
    """Return a sigma, in votes, for which `rounds` adaptive releases are (epsilon, delta)-DP.

    Algorithm 1, line 2. It is the least sigma for continuous noise (Balle & Wang 2018), rounded up to six
    digits, or the first of a few larger ones that is certified for the discrete noise that is added: the test
    is `delta_spent(releases, epsilon) <= delta`. Infinite epsilon gives 0.0, no noise.
    """
    _check_epsilon(epsilon)
    _check_delta(delta)
    _check_rounds(rounds)
    shifts = int(rounds) * _unit_shifts(neighbours, votes_per_unit)
    if math.isinf(epsilon):
        return 0.0
    least = math.sqrt(shifts) / _gaussian_mu(epsilon, delta)
    # At small sigma the discrete delta is not monotone in sigma, so a bisection would prove nothing.
    excess, step = 0.0, 1e-5
    while excess <= _LARGEST_EXCESS:
        sigma = _rounded_up(least * (1 + excess))
        if certified_delta(((sigma, shifts),), epsilon) <= delta:
            return sigma
        excess, step = excess + step, step * 1.25
    raise PrivacyError(
        f"no sigma from {least:.6g} to {least * (1 + _LARGEST_EXCESS):.6g} could be certified for epsilon "
        f"{epsilon:g}, delta {delta:g} and {rounds} rounds; use a smaller delta or epsilon"
    )


def spent(releases: Sequence[Release], delta: float) -> float:
    """Return the least epsilon, rounded up, for which the releases together are (epsilon, delta)-DP.

    `delta_spent(releases, epsilon) <= delta` holds for the result. It is inf if any release has no noise, and 0.0 if
    there are no releases.
    """
    _check_delta(delta)
    groups = _groups(releases)
    if not groups:
        return 0.0
    if groups[0][0] == 0:
        return math.inf
    if certified_delta(groups, 0.0) <= delta:
        return 0.0
    low, high = 0.0, rho(groups) + 2 * math.sqrt(rho(groups) * math.log(1 / delta))
    while certified_delta(groups, high) > delta:
        low, high = high, 2 * high
    while high - low > _EPSILON_TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if certified_delta(groups, middle) <= delta else (middle, high)
    return high


def delta_spent(releases: Sequence[Release], epsilon: float) -> float:
    """Return an upper bound on the delta for which the releases together are (epsilon, delta)-DP.

    The bound is for the discrete noise, and tight for releases of one sigma (`gape.privacy.discrete`).
    """
    if not epsilon >= 0:
        raise InputError(f"epsilon must not be negative, got {epsilon}; use inf for a run without privacy")
    groups = _groups(releases)
    if not groups or math.isinf(epsilon):
        return 0.0
    return 1.0 if groups[0][0] == 0 else certified_delta(groups, epsilon)


def paper_noise_scale(epsilon: float, delta: float, rounds: int) -> float:
    """Return 2 sqrt(T log(1.25 / delta)) / epsilon: (epsilon, delta)-DP under replacement, if epsilon < 1.

    Algorithm 1, line 2, as printed, for one vote per unit. For comparison only: `noise_scale` is smaller.
    """
    _check_epsilon(epsilon)
    _check_rounds(rounds)
    if not (epsilon < 1 and 0 < delta < 1):
        raise PrivacyError(
            f"the closed form is proved only for epsilon < 1 and 0 < delta < 1, got epsilon {epsilon:g} and "
            f"delta {delta:g} (at epsilon 100 it gives a delta of about 1); use noise_scale"
        )
    return 2 * math.sqrt(rounds * math.log(1.25 / delta)) / epsilon


def _check_epsilon(epsilon: float) -> None:
    if not epsilon > 0:
        raise InputError(f"epsilon must be positive, got {epsilon}; use inf for a run without privacy")


def _check_delta(delta: float) -> None:
    if not _LEAST_DELTA <= delta < 1:
        raise InputError(
            f"delta must be at least {_LEAST_DELTA:g} and below 1, got {delta}; "
            "1 / (n ln n) is a usual choice for n units"
        )


def _check_rounds(rounds: int) -> None:
    if not (rounds >= 1 and rounds % 1 == 0):
        raise InputError(f"rounds must be a positive integer, got {rounds}; use 1 for a single release")


def _unit_shifts(neighbours: Neighbours, votes_per_unit: int) -> int:
    if neighbours not in get_args(Neighbours):
        raise InputError(f"neighbours must be 'replace' or 'add_remove', got {neighbours!r}; use 'replace'")
    if not (votes_per_unit >= 1 and votes_per_unit % 1 == 0):
        raise InputError(f"votes_per_unit must be a positive integer, got {votes_per_unit}; the default is 1")
    return int(votes_per_unit) * (2 if neighbours == "replace" else 1)


def _groups(releases: Sequence[Release]) -> Groups:
    """Sum the unit shifts of the releases at each sigma, by increasing sigma."""
    if len({release.neighbours for release in releases}) > 1:
        raise PrivacyError(
            "releases for 'replace' and for 'add_remove' cannot be composed; use the same neighbouring relation for all"
        )
    shifts: Counter[float] = Counter()
    for release in releases:
        shifts[release.sigma] += release.unit_shifts
    return tuple(sorted(shifts.items()))


def _gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu, rounded down, with `gaussian_delta(mu, epsilon) <= delta`."""
    low, high = 1.0, 2.0
    while gaussian_delta(low, epsilon) > delta:
        low, high = low / 2, low
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low


def _rounded_up(sigma: float) -> float:
    digits = _DIGITS - 1 - math.floor(math.log10(sigma))
    return math.ceil(sigma * 10.0**digits) / 10.0**digits
