"""A lower bound on epsilon from how well an attacker tells two neighbouring datasets apart.

An attacker sees a score and says "in" if it reaches a threshold. Against an (epsilon, delta)-DP mechanism the rates
of false positives and false negatives of any attacker obey

    1 - delta - FNR <= e^epsilon FPR     and     1 - delta - FPR <= e^epsilon FNR,

so measured rates, raised to their Clopper-Pearson bounds, bound epsilon from below (Jagielski, Ullman & Oprea 2020).
A much tighter bound holds for a mechanism that is assumed to add Gaussian noise of unknown scale. The two rates are
then those of telling N(0, 1) from N(mu, 1), so that Phi^-1(1 - FPR) - Phi^-1(FNR) = mu (Dong, Roth & Su 2022), and mu
gives epsilon at any delta (Balle & Wang 2018). For whole numbers a threshold can show slightly more than mu, 8% more
for a single vote and noise of scale 0.8. So the scale is the largest for which discrete noise can show the measured
rates, and epsilon is that of the accounting for this scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from gape.core.types import Floats, Indices
from gape.privacy.accounting import Release, spent

CONFIDENCE = 0.999  # of each bound by itself
_THRESHOLDS = 1_000  # quantiles of the scores, from which the best threshold is chosen
_TOLERANCE = 1e-6  # relative, of a noise scale
_SMOOTH = 50.0  # standard deviation of a score above which rounding to whole numbers changes mu by less than 2e-5
_LEAST_RATE = 1e-6  # error rate that the trials here cannot distinguish from 0


@dataclass(frozen=True)
class Scores:
    """The attacker's scores for trials with the canary, and for trials without it."""

    inside: Indices  # (trials,)
    outside: Indices  # (trials,)


@dataclass(frozen=True)
class Attack:
    """The errors of a threshold, chosen beforehand, on fresh trials."""

    threshold: int
    false_positives: int
    outside: int  # trials without the canary
    false_negatives: int
    inside: int  # trials with it


@dataclass(frozen=True)
class Bounds:
    """Two lower bounds on epsilon, each of which holds with probability `CONFIDENCE` or more."""

    any_mechanism: float  # without assumptions about the mechanism
    any_attack: Attack
    gaussian: float  # assumes discrete Gaussian noise of unknown scale
    gaussian_attack: Attack
    sigma: float  # upper bound on that scale


def lower_bounds(chosen_on: Scores, judged_on: Scores, delta: float, shifts: int) -> Bounds:
    """Bound epsilon at `delta` from below: thresholds from one half of the trials, rates from the other.

    The bounds hold for any choice made on the first half. Trials must be independent. A score is a sum over `shifts`
    counts, each of which a canary changes by one.
    """
    pooled = np.concatenate([chosen_on.inside, chosen_on.outside])
    thresholds = np.unique(np.quantile(pooled, np.linspace(0, 1, _THRESHOLDS), method="nearest"))
    rates = _raised_rates(chosen_on, thresholds)
    aim = max(_by_positives, _by_negatives, key=lambda bound: bound(*rates, delta).max())
    threshold = thresholds[int(aim(*rates, delta).argmax())]
    any_mechanism = float(aim(*_raised_rates(judged_on, threshold), delta))
    # Midway between the medians, where mu is estimated best: elsewhere one of the rates is that of rare events.
    midway = np.ceil((np.median(chosen_on.inside) + np.median(chosen_on.outside)) / 2)
    fpr, fnr = _raised_rates(judged_on, midway)
    sigma = largest_sigma(float(-ndtri(fpr) - ndtri(fnr)), shifts)
    return Bounds(
        any_mechanism=max(0.0, any_mechanism),
        any_attack=_attack(judged_on, int(threshold)),
        gaussian=0.0 if math.isinf(sigma) else spent([Release(sigma, "add_remove", shifts)], delta),
        gaussian_attack=_attack(judged_on, int(midway)),
        sigma=sigma,
    )


def largest_sigma(mu: float, shifts: int) -> float:
    """Return the largest scale of discrete noise for which a threshold on the sum of `shifts` counts can show `mu`."""
    if mu <= _TOLERANCE:
        return math.inf
    low = math.sqrt(shifts) / mu  # continuous noise: discrete noise shows no less
    high = 1.01 * low
    while shown_mu(high, shifts) >= mu:
        low, high = high, 1.5 * high
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if shown_mu(middle, shifts) >= mu else (low, middle)
    return low


def shown_mu(sigma: float, shifts: int) -> float:
    """Return the largest Phi^-1(1 - FPR) - Phi^-1(FNR) that is possible for `shifts` counts with discrete noise."""
    mu, deviation = math.sqrt(shifts) / sigma, sigma * math.sqrt(shifts)
    if deviation > _SMOOTH:
        return mu
    reach = math.ceil(10 * (deviation + sigma) + 1)
    support = np.fft.ifftshift(np.arange(-reach, reach + 1))
    one = np.exp(-(support**2) / (2 * sigma * sigma))
    law = np.fft.fftshift(np.fft.irfft(np.fft.rfft(one / one.sum()) ** shifts, len(one)))  # of the sum
    from_there_on = np.append(np.cumsum(law[::-1])[::-1], 0.0)  # P[sum >= w] for w = -reach, ..., reach + 1
    thresholds = np.arange(max(-reach, shifts - reach), min(reach, shifts + reach) + 1)
    fpr, fnr = from_there_on[thresholds + reach], from_there_on[shifts - thresholds + 1 + reach]
    seen = (fpr > _LEAST_RATE) & (fnr > _LEAST_RATE)
    return float((-ndtri(fpr[seen]) - ndtri(fnr[seen])).max()) if seen.any() else mu


def at_most(hits: Indices, trials: int, confidence: float) -> Floats:
    """Return upper bounds on a probability after `hits` in independent `trials` (Clopper & Pearson 1934)."""
    bound: Floats = betaincinv(hits + 1.0, np.maximum(trials - hits, 1), confidence)
    return np.where(hits < trials, bound, 1.0)


def _raised_rates(scores: Scores, thresholds: Indices) -> tuple[Floats, Floats]:
    """Return bounds on the rates of false positives and of false negatives, which hold together."""
    confidence = (1 + CONFIDENCE) / 2
    wrongly_in, wrongly_out = _errors(scores, thresholds)
    return at_most(wrongly_in, len(scores.outside), confidence), at_most(wrongly_out, len(scores.inside), confidence)


def _errors(scores: Scores, thresholds: Indices) -> tuple[Indices, Indices]:
    wrongly_in = len(scores.outside) - np.searchsorted(np.sort(scores.outside), thresholds)
    return wrongly_in, np.searchsorted(np.sort(scores.inside), thresholds)


def _attack(scores: Scores, threshold: int) -> Attack:
    wrongly_in, wrongly_out = _errors(scores, np.int64(threshold))  # type: ignore[arg-type]
    return Attack(threshold, int(wrongly_in), len(scores.outside), int(wrongly_out), len(scores.inside))


def _by_positives(fpr: Floats, fnr: Floats, delta: float) -> Floats:
    bound: Floats = np.log(np.maximum(1 - delta - fnr, math.ulp(0.0)) / fpr)
    return bound


def _by_negatives(fpr: Floats, fnr: Floats, delta: float) -> Floats:
    return _by_positives(fnr, fpr, delta)
