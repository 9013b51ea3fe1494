import itertools
import math

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from gape.privacy import discrete
from gape.privacy.discrete import Groups, certified_delta, gaussian_delta, rho, zcdp_delta

SMALL: list[Groups] = [
    ((0.3, 2),),
    ((0.5, 3),),
    ((0.8, 2),),
    ((1.0, 3),),
    ((1.5, 2),),
    ((0.4, 1), (0.9, 2)),
    ((1.0, 1), (1.1, 1), (1.5, 1)),
]


def enumerated_delta(groups: Groups, epsilon: float, reach: int = 12) -> float:
    """The definition, over all outcomes in a cube: sum of (P - exp(epsilon) Q)_+."""
    sigmas = [sigma for sigma, shifts in groups for _ in range(shifts)]
    factors = []
    for sigma in sigmas:
        outcomes = np.arange(-reach, reach + 1)
        density = np.exp(-(outcomes**2) / (2 * sigma**2))
        shifted = np.exp(-((outcomes + 1) ** 2) / (2 * sigma**2))
        factors.append((density / density.sum(), shifted / density.sum()))
    total = 0.0
    for masses in itertools.product(*(zip(*pair, strict=True) for pair in factors)):
        p = math.prod(mass for mass, _ in masses)
        q = math.prod(mass for _, mass in masses)
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


def oracle_delta(sigma: float, shifts: int, epsilon: float, *, pessimistic: bool) -> float:
    one = pld.from_discrete_gaussian_mechanism(
        sigma, 1, value_discretization_interval=1e-4, pessimistic_estimate=pessimistic
    )
    return float(one.self_compose(shifts).get_delta_for_epsilon(epsilon))


@pytest.mark.parametrize("groups", SMALL)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_never_below_the_definition_and_close_to_it(groups: Groups, epsilon: float) -> None:
    exact = enumerated_delta(groups, epsilon)
    bound = certified_delta(groups, epsilon)
    assert bound >= exact * (1 - 1e-12)
    assert bound <= exact * (1 + (1e-5 if len(groups) == 1 else 1e-2)) + 1e-15


@pytest.mark.parametrize(
    ("sigma", "shifts", "epsilon"),
    [
        (5.3018, 20, 4.0),
        (2.90374, 20, 8.0),
        (18.7349, 20, 1.0),
        (1.2, 4, 6.0),
        (0.6, 2, 10.0),
        (3.0, 200, 30.0),
    ],
)
def test_between_the_two_estimates_of_an_independent_accountant(sigma: float, shifts: int, epsilon: float) -> None:
    bound = certified_delta(((sigma, shifts),), epsilon)
    low = oracle_delta(sigma, shifts, epsilon, pessimistic=False)
    high = oracle_delta(sigma, shifts, epsilon, pessimistic=True)
    assert low < bound < high < 1.05 * low


@pytest.mark.parametrize("shifts", [1, 2, 3, 20, 501])
@pytest.mark.parametrize("sigma", [1.0, 1.3, 1.7, 2.5])
def test_the_law_of_the_sum_is_as_flat_as_claimed(sigma: float, shifts: int) -> None:
    convolved = discrete._convolved_law(sigma, shifts)
    reach = len(convolved) // 2
    gaussian = discrete._gaussian_blocks(sigma * math.sqrt(shifts), reach, 1)
    visible = convolved > 1e-250
    ratio = convolved[visible] / gaussian[visible]
    eta = discrete._unevenness(sigma, shifts)
    assert ratio.max() <= 1 + eta + 1e-10
    if eta <= 1e-6:
        assert ratio.min() >= 1 - 3e-6


@pytest.mark.parametrize(("sigma", "shifts"), [(1.4, 20), (1.45, 200), (1.6, 2000)])
@pytest.mark.parametrize("threshold", [0.0, 1.0, 4.0, 7.0])
def test_both_ways_to_the_law_agree(
    sigma: float, shifts: int, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mu = math.sqrt(shifts) / sigma
    epsilon = mu * mu / 2 + threshold * mu
    deltas = []
    for flat in (1e-3, 0.0):
        discrete._law_of_sum.cache_clear()
        monkeypatch.setattr(discrete, "_FLAT", flat)
        deltas.append(certified_delta(((sigma, shifts),), epsilon))
    discrete._law_of_sum.cache_clear()
    assert deltas[0] == pytest.approx(deltas[1], rel=1e-5)


@pytest.mark.parametrize("shifts", [1, 2, 20, 2000])
@pytest.mark.parametrize("threshold", [-2.0, 0.0, 1.0, 4.0, 7.0])
def test_the_integral_is_above_the_sum_and_close_to_it(
    shifts: int, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sigma = 2000 / math.sqrt(shifts)
    mu = math.sqrt(shifts) / sigma
    epsilon = max(mu * mu / 2 + threshold * mu, 0.0)
    summed = certified_delta(((sigma, shifts),), epsilon)
    monkeypatch.setattr(discrete, "_WIDEST_LATTICE", 100)
    integrated = certified_delta(((sigma, shifts),), epsilon)
    assert summed <= integrated <= 1.003 * summed


@pytest.mark.parametrize(("sigma", "shifts"), [(700.0, 4), (1000.0, 2), (50.0, 900)])
def test_blocks_of_a_wide_lattice_are_above_its_points_and_close_to_them(
    sigma: float, shifts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ((sigma, shifts), (2 * sigma, shifts))
    mu = math.sqrt(2 * rho(groups))
    epsilon = mu * mu / 2 + 4 * mu
    points = certified_delta(groups, epsilon)
    discrete._law_of_loss.cache_clear()
    monkeypatch.setattr(discrete, "_WIDEST_LATTICE", sigma * math.sqrt(shifts) / 2.5)
    blocks = discrete._mixture_delta(groups, epsilon)
    discrete._law_of_loss.cache_clear()
    assert points <= blocks <= 1.03 * points


@given(st.floats(0.05, 30), st.integers(1, 300), st.floats(0, 50), st.floats(0, 10))
def test_a_profile_never_increases_and_stays_below_zcdp(sigma: float, shifts: int, epsilon: float, more: float) -> None:
    groups = ((sigma, shifts),)
    delta = certified_delta(groups, epsilon)
    assert certified_delta(groups, epsilon + more) <= delta * (1 + 1e-12)
    assert 0 < delta <= zcdp_delta(rho(groups), epsilon) * (1 + 1e-5)


@given(st.floats(0.3, 30), st.integers(1, 40), st.integers(1, 40), st.floats(-1, 6))
def test_a_split_group_costs_what_the_whole_costs(sigma: float, first: int, second: int, threshold: float) -> None:
    mu = math.sqrt(first + second) / sigma
    epsilon = max(mu * mu / 2 + threshold * mu, 0.0)
    whole = certified_delta(((sigma, first + second),), epsilon)
    split = certified_delta(((sigma, first), (sigma, second)), epsilon)
    a_little_more = certified_delta(((sigma, first + second),), max(epsilon - 0.005 * mu, 0.0))
    assert whole * (1 - 1e-5) <= split <= a_little_more * 1.01 + 1e-80


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_the_gaussian_profile_agrees_with_an_independent_one(epsilon: float, delta: float) -> None:
    sigma = gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    assert gaussian_delta(1 / sigma, epsilon) == pytest.approx(delta, rel=1e-6)


def test_many_scales_and_very_many_shifts_fall_back_to_zcdp() -> None:
    many = tuple((5 + i / 10, 2) for i in range(51))
    assert certified_delta(many, 8.0) == zcdp_delta(rho(many), 8.0)
    assert certified_delta(many[:50], 8.0) < zcdp_delta(rho(many[:50]), 8.0)
    long = ((1.0, 300_000),)
    assert certified_delta(long, 160_000.0) == zcdp_delta(150_000.0, 160_000.0)


@pytest.mark.parametrize("groups", [((1e-9, 2),), ((1e15, 2),), ((1e-9, 2), (3.0, 2), (1e15, 2))])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0, 1e3, 1e12, 1e300])
def test_extreme_scales_raise_nothing(groups: Groups, epsilon: float) -> None:
    assert 0 < certified_delta(groups, epsilon) <= 1
