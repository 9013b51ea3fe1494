"""Noise in shares: bounds against brute force, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from distributed.federated.devices import TERMS
from gape.core.errors import InputError, PrivacyError
from gape.core.types import Floats
from gape.distributed.federated import Terms
from gape.distributed.federated.accounting import NEGLIGIBLE, NoiseShares, noise_shares, pair_closeness, sum_closeness
from gape.evolution.plan import Plan
from gape.privacy.accounting import Release, delta_spent, noise_scale, spent


def law(scale: float, reach: int, step: int = 1) -> Floats:
    """N_Z(0, scale^2) on the multiples of `step`, as an array over -reach, ..., reach."""
    support = np.arange(-reach, reach + 1)
    masses = np.where(support % step == 0, np.exp(-(support**2) / (2 * scale * scale)), 0.0)
    normal: Floats = masses / masses.sum()
    return normal


def law_of_sum(scale: float, summands: int, reach: int) -> Floats:
    total = np.ones(1)
    for _ in range(summands):
        total = np.convolve(total, law(scale, reach))
    middle = len(total) // 2
    return total[middle - reach : middle + reach + 1]


def distance(one: Floats, other: Floats, within: int) -> float:
    """The largest |log ratio| over the points at most `within` from 0; further out, floats are too coarse."""
    middle = len(one) // 2
    part = slice(middle - within, middle + within + 1)
    return float(np.abs(np.log(one[part] / other[part])).max())


@pytest.mark.parametrize("summands", [2, 3, 5, 9])
@pytest.mark.parametrize("scale", [0.45, 0.6, 0.8, 1.0])
def test_a_sum_of_discrete_gaussians_is_as_close_to_one_as_the_bound_says(scale: float, summands: int) -> None:
    bound = sum_closeness(scale, summands)
    deviation = scale * math.sqrt(summands)
    real = distance(law_of_sum(scale, summands, 60), law(deviation, 60), math.ceil(6 * deviation))
    assert real <= bound * (1 + 1e-9) + 1e-12
    if summands == 2 and math.isfinite(bound):
        assert real >= bound / 4  # of more, each smooths what the others left, which the bound does not see


@pytest.mark.parametrize("units", [2, 3, 8])
@pytest.mark.parametrize(("sigma", "u"), [(0.6, 0.5), (0.7, 0.9), (1.5, 0.6)])
def test_noise_on_a_finer_lattice_is_as_close_to_noise_on_a_coarse_one_as_the_bound_says(
    units: int, sigma: float, u: float
) -> None:
    width = sigma**2 * u**2 / (sigma**2 + u**2)
    fine = np.convolve(law(units * sigma, 40 * units, units), law(units * u, 40 * units))
    middle = len(fine) // 2
    total = units * math.hypot(sigma, u)
    one = law(total, 40 * units)
    real = distance(fine[middle - 40 * units : middle + 40 * units + 1], one, math.ceil(4 * total))
    assert real <= pair_closeness(width) * (1 + 1e-9) + 1e-12
    assert real >= pair_closeness(width) / 4


def exact_delta(scale: float, honest: int, units: int, shifts: int, epsilon: float) -> float:
    """The delta of `shifts` counts that move by one vote, by enumeration of their joint law."""
    reach = 40 * units
    one = law_of_sum(scale, honest, reach)
    moved = np.zeros_like(one)
    moved[units:] = one[:-units]
    before, after = one, moved
    for _ in range(shifts - 1):
        before, after = np.outer(before, one).ravel(), np.outer(after, moved).ravel()
    return float(np.maximum(before - math.exp(epsilon) * after, 0.0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("scale", "honest", "units", "sigma"),
    [
        (0.55, 4, 1, 1.1),  # shares too small to be discrete Gaussian together: the bound has to say so
        (0.75, 6, 1, 0.75 * math.sqrt(6)),
        (1.2, 3, 2, 0.8),  # finer units: 1.2 sqrt(3) = 2 hypot(0.8, u)
    ],
)
def test_delta_is_never_above_the_bound(scale: float, honest: int, units: int, sigma: float, epsilon: float) -> None:
    u_squared = honest * scale**2 / units**2 - sigma**2
    width = sigma**2 * u_squared / (sigma**2 + u_squared)
    closeness = sum_closeness(scale, honest) + (pair_closeness(width) if units > 1 else 0.0)
    shares = NoiseShares(sigma, honest, units, scale, closeness)
    release = Release(sigma)  # replacing a unit moves two counts
    assert exact_delta(scale, honest, units, 2, epsilon) <= shares.delta_spent((release,), epsilon)


@pytest.mark.parametrize("honest", [1, 5, 100, 5000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_shares_cost_what_the_ledger_says(epsilon: float, honest: int) -> None:
    delta, rounds = 1.19e-6, 10
    sigma = noise_scale(epsilon, delta, rounds)
    shares = noise_shares(sigma, honest, delta, 2 * rounds)
    releases = (Release(sigma),) * rounds
    assert shares.total(honest) >= sigma
    assert shares.excess(2 * rounds) <= NEGLIGIBLE * delta
    assert shares.spent(releases, delta) == pytest.approx(spent(releases, delta), rel=1e-7)
    assert shares.delta_spent(releases, epsilon) <= delta_spent(releases, epsilon) * (1 + 3 * NEGLIGIBLE)
    if shares.units == 1:
        assert shares.total(honest) <= sigma * (1 + 1e-9)
    else:  # no finer than needed
        coarser = shares.scale / 2
        assert sum_closeness(coarser, honest) > NEGLIGIBLE * delta / (12 * rounds)


def test_the_noise_that_finer_units_add_is_as_documented() -> None:
    excess = {}
    for epsilon in (1.0, 4.0, 8.0):
        sigma = noise_scale(epsilon, 1.19e-6, 10)
        excess[epsilon] = noise_shares(sigma, 1000, 1.19e-6, 20).total(1000) / sigma - 1
    assert excess == pytest.approx({1.0: 0.003, 4.0: 0.041, 8.0: 0.162}, abs=5e-4)


def test_noise_that_cannot_be_shown_to_suffice_is_refused() -> None:
    with pytest.raises(PrivacyError, match="use a sigma above"):
        noise_shares(0.44, 100, 1e-6, 20)
    with pytest.raises(PrivacyError, match="use one sigma"):
        noise_shares(9.0, 3, 1e-6, 20).spent((Release(8.0),), 1e-6)
    for sigma, honest, delta, shifts in ((0.0, 3, 1e-6, 2), (1.0, 0, 1e-6, 2), (1.0, 3, 0.0, 2), (1.0, 3, 1e-6, 0)):
        with pytest.raises(InputError):
            noise_shares(sigma, honest, delta, shifts)


def test_terms_promise_what_all_ballots_cost() -> None:
    assert TERMS.threshold == 4
    assert TERMS.honest == 3
    assert TERMS.epsilon == pytest.approx(spent((Release(6.0),) * 3, 1e-5), rel=1e-7)
    assert replace(TERMS, spare=0).epsilon < TERMS.epsilon
    assert TERMS.noise_with(TERMS.honest) >= 6.0
    assert replace(TERMS, sigma=0.0, exact_sums_for_tests_only=True).epsilon == math.inf
    assert len({replace(TERMS, sigma=sigma).digest for sigma in (6, 6.0, 7.0)}) == 2


def test_terms_follow_a_plan() -> None:
    plan = Plan(epsilon=1.0, delta=1e-5, rounds=3, samples=5, votes_per_unit=2)
    terms = Terms.for_plan(plan, federation="f", devices=100, dropouts=20, colluders=5, dimension=8)
    assert (terms.sigma, terms.delta, terms.rounds, terms.votes_per_unit) == (plan.sigma, 1e-5, 3, 2)
    assert terms.honest == 75
    assert terms.epsilon <= 1.0 + 1e-7


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"devices": 2, "dropouts": 0}, InputError, "3 to 10,000"),
        ({"devices": 0}, InputError, "at least 1"),
        ({"dropouts": -1}, InputError, "not be negative"),
        ({"dropouts": 2}, PrivacyError, "contradictory messages"),
        ({"colluders": 4}, PrivacyError, "contradictory messages"),
        ({"sigma": 0.0}, PrivacyError, "must be 0 with exact_sums_for_tests_only"),
        ({"exact_sums_for_tests_only": True}, PrivacyError, "must be 0 with exact_sums_for_tests_only"),
        ({"federation": ""}, InputError, "needs a name"),
        ({"sigma": 1e9}, InputError, "exceed 32 bits"),
        ({"sigma": 0.5}, PrivacyError, "use a sigma above"),
    ],
)
def test_terms_that_could_not_be_kept_are_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        replace(TERMS, **change)
