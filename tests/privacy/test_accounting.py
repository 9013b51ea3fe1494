import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from gape.core.errors import InputError, PrivacyError
from gape.privacy.accounting import Neighbours, Release, delta_spent, noise_scale, paper_noise_scale, spent, stated

DELTA = 1 / (75_000 * math.log(75_000))
# epsilon: the least sigma for ten rounds of continuous noise, neighbours by replacement, DELTA
EXACT = {
    0.1: 160.592091484110,
    0.5: 35.7065934657287,
    1.0: 18.7348962770579,
    2.0: 9.89890009717655,
    4.0: 5.30135747581203,
    8.0: 2.90298528396348,
    100.0: 0.436518666147526,
}
BUDGETS = st.tuples(st.floats(0.05, 50), st.floats(1e-10, 1e-3), st.integers(1, 60))


@pytest.mark.parametrize("epsilon", EXACT)
def test_sigma_is_the_exact_one_or_barely_above(epsilon: float) -> None:
    sigma = noise_scale(epsilon, DELTA, 10)
    assert EXACT[epsilon] <= sigma <= 1.002 * EXACT[epsilon]
    oracle = gaussian_mechanism.get_sigma_gaussian(epsilon, DELTA) * math.sqrt(20)
    assert EXACT[epsilon] == pytest.approx(oracle, rel=1e-6)


@pytest.mark.parametrize("epsilon", [4.0, 8.0])
def test_the_sigma_for_continuous_noise_misses_delta_and_ours_does_not(epsilon: float) -> None:
    one = pld.from_discrete_gaussian_mechanism(
        EXACT[epsilon], 1, value_discretization_interval=1e-5, pessimistic_estimate=False
    )
    assert one.self_compose(20).get_delta_for_epsilon(epsilon) > 1.0005 * DELTA
    assert delta_spent([Release(EXACT[epsilon])] * 10, epsilon) > 1.0005 * DELTA
    assert delta_spent([Release(noise_scale(epsilon, DELTA, 10))] * 10, epsilon) <= DELTA


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 7.0, 30.0, 100.0, 400.0, 1000.0])
@pytest.mark.parametrize("rounds", [1, 3, 10, 1000])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_the_releases_of_a_budget_fit_into_it(epsilon: float, rounds: int, delta: float) -> None:
    sigma = noise_scale(epsilon, delta, rounds)
    releases = [Release(sigma)] * rounds
    assert delta_spent(releases, epsilon) <= delta
    assert spent(releases, delta) <= epsilon
    assert spent([*releases, Release(sigma)], delta) > spent(releases, delta)


@given(BUDGETS, st.sampled_from(["replace", "add_remove"]), st.integers(1, 3))
def test_a_budget_is_kept_and_not_wasted(
    budget: tuple[float, float, int], neighbours: Neighbours, votes_per_unit: int
) -> None:
    epsilon, delta, rounds = budget
    sigma = noise_scale(epsilon, delta, rounds, neighbours=neighbours, votes_per_unit=votes_per_unit)
    release = Release(sigma, neighbours, votes_per_unit)
    assert delta_spent([release] * rounds, epsilon) <= delta
    oracle = gaussian_mechanism.get_sigma_gaussian(epsilon, delta) * release.sensitivity * math.sqrt(rounds)
    assert oracle * (1 - 1e-5) <= sigma <= oracle * 1.2


@given(BUDGETS)
def test_only_the_number_of_unit_shifts_matters(budget: tuple[float, float, int]) -> None:
    epsilon, delta, rounds = budget
    sigma = noise_scale(epsilon, delta, 2 * rounds)
    assert sigma == noise_scale(epsilon, delta, rounds, votes_per_unit=2)
    assert sigma == noise_scale(epsilon, delta, 4 * rounds, neighbours="add_remove")
    assert sigma == noise_scale(epsilon, delta, 2 * rounds, neighbours="add_remove", votes_per_unit=2)


@given(st.lists(st.sampled_from([0.3, 0.7, 2.0, 5.0, 40.0]), min_size=1, max_size=6), st.floats(1e-9, 1e-3))
def test_the_epsilon_spent_is_certified_and_grows_with_every_release(sigmas: list[float], delta: float) -> None:
    releases = [Release(sigma) for sigma in sigmas]
    epsilon = spent(releases, delta)
    assert delta_spent(releases, epsilon) <= delta
    # Composing one sigma is exact and composing several is not quite.
    assert spent([*releases, Release(sigmas[0])], delta) >= epsilon * 0.999
    assert spent(releases, delta / 10) >= epsilon


@pytest.mark.parametrize(
    "sigmas",
    [[10, 20], [5, 5.1, 7], [1000, 2000], [3000, 60_000], [10 + i / 7 for i in range(50)]],
)
def test_mixed_scales_cost_what_continuous_noise_costs(sigmas: list[float]) -> None:
    releases = [Release(sigma) for sigma in sigmas]
    epsilon = spent(releases, DELTA)
    equivalent = 1 / math.sqrt(sum(2 / sigma**2 for sigma in sigmas))
    gaussian = gaussian_mechanism.get_epsilon_gaussian(equivalent, DELTA)
    assert gaussian * 0.999 < epsilon < gaussian * 1.005
    alike = [spent([Release(sigma)] * len(sigmas), DELTA) for sigma in (max(sigmas), min(sigmas))]
    assert alike[0] < epsilon < alike[1]


def test_nothing_spent_and_everything_spent() -> None:
    assert spent([], DELTA) == 0.0
    assert delta_spent([], 0.0) == 0.0
    assert spent([Release(0), Release(5)], DELTA) == math.inf
    assert delta_spent([Release(0), Release(5)], 100.0) == 1.0
    assert delta_spent([Release(0)], math.inf) == 0.0
    assert noise_scale(math.inf, DELTA, 10) == 0.0
    assert spent([Release(1e12)], DELTA) == 0.0


@pytest.mark.parametrize(
    ("release", "shifts"),
    [
        (Release(1), 2),
        (Release(1, "add_remove"), 1),
        (Release(1, "replace", 3), 6),
        (Release(1, "add_remove", 3), 3),
    ],
)
def test_unit_shifts_and_sensitivity(release: Release, shifts: int) -> None:
    assert release.unit_shifts == shifts
    assert release.sensitivity == pytest.approx(math.sqrt(shifts))
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.sigma = 2  # type: ignore[misc]


@pytest.mark.parametrize(("epsilon", "expected"), [(0.1, 235.51), (0.5, 47.10), (0.999, 23.574)])
def test_the_closed_form_of_the_paper(epsilon: float, expected: float) -> None:
    sigma = paper_noise_scale(epsilon, DELTA, 10)
    assert sigma == pytest.approx(expected, abs=0.005)
    assert sigma > noise_scale(epsilon, DELTA, 10)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (100.0, 1e-6), (0.5, 0.0), (0.5, 1.0), (0.5, math.nan)])
def test_the_closed_form_is_refused_where_it_is_not_proved(epsilon: float, delta: float) -> None:
    with pytest.raises(PrivacyError, match=r"proved only for epsilon < 1 .* use noise_scale"):
        paper_noise_scale(epsilon, delta, 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: noise_scale(0, 1e-6, 10),
            "epsilon must be positive, got 0; use inf for a run without privacy",
        ),
        (lambda: noise_scale(math.nan, 1e-6, 10), "epsilon must be positive, got nan; use inf"),
        (lambda: paper_noise_scale(-1, 1e-6, 10), "epsilon must be positive, got -1; use inf"),
        (lambda: delta_spent([], -1), "epsilon must not be negative, got -1; use inf"),
        (lambda: delta_spent([], math.nan), "epsilon must not be negative, got nan; use inf"),
        (lambda: noise_scale(1, 0, 10), "delta must be at least 1e-250 and below 1, got 0; "),
        (lambda: noise_scale(1, 1, 10), "delta must be at least 1e-250 and below 1, got 1; "),
        (lambda: spent([], math.nan), "delta must be at least 1e-250 and below 1, got nan; "),
        (lambda: noise_scale(1, 1e-6, 0), "rounds must be a positive integer, got 0; use 1"),
        (lambda: noise_scale(1, 1e-6, 2.5), "rounds must be a positive integer, got 2.5; use 1"),  # type: ignore[arg-type]
        (lambda: paper_noise_scale(0.5, 1e-6, 0), "rounds must be a positive integer, got 0; use 1"),
        (
            lambda: noise_scale(1, 1e-6, 1, votes_per_unit=0),
            "votes_per_unit must be a positive integer, got 0; ",
        ),
        (lambda: Release(1, votes_per_unit=0), "votes_per_unit must be a positive integer, got 0; the default is 1"),
        (lambda: Release(1, "bounded"), "neighbours must be 'replace' or 'add_remove', got 'bounded'; use "),  # type: ignore[arg-type]
        (lambda: Release(-1), "sigma must be 0 or between 1e-09 and 1e+15, got -1; use 0 for no noise"),
        (lambda: Release(math.nan), "sigma must be 0 or between 1e-09 and 1e+15, got nan; use 0"),
        (lambda: Release(math.inf), "sigma must be 0 or between 1e-09 and 1e+15, got inf; use 0"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        call()
    assert str(refusal.value).startswith(message)


def test_releases_for_different_neighbours_are_not_composed() -> None:
    releases = [Release(5, "replace"), Release(5, "add_remove")]
    with pytest.raises(PrivacyError, match="cannot be composed"):
        spent(releases, DELTA)
    with pytest.raises(PrivacyError, match="cannot be composed"):
        delta_spent(releases, 1.0)


def test_what_cannot_be_certified_is_refused() -> None:
    with pytest.raises(PrivacyError, match=r"no sigma from .* to .* could be certified for epsilon 0.01"):
        noise_scale(0.01, 0.9999, 1, neighbours="add_remove")


@pytest.mark.parametrize(
    ("value", "digits", "told"),
    [
        (3.99841, 4, "3.999"),
        (0.9999981899599848, 4, "1"),
        (1.0, 4, "1"),
        (0.1, 4, "0.1"),
        (5.8441e-4, 4, "0.0005845"),
        (7.041795310569904e-06, 4, "7.042e-06"),
        (1.1878e-6, 2, "1.2e-06"),
        (12345.1, 4, "1.235e+04"),
        (0.0, 4, "0"),
        (math.inf, 3, "inf"),
    ],
)
def test_what_is_stated_is_never_less_than_what_holds(value: float, digits: int, told: str) -> None:
    assert stated(value, digits) == told


@given(st.floats(1e-300, 1e6), st.integers(1, 6))
def test_statements_err_upwards_by_their_last_digit_at_most(value: float, digits: int) -> None:
    told = float(stated(value, digits))
    assert value <= told * (1 + 1e-15)
    assert told <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", EXACT)
@pytest.mark.parametrize("rounds", [1, 10])
def test_a_plan_is_never_stated_to_cost_more_than_was_asked_for(epsilon: float, rounds: int) -> None:
    sigma = noise_scale(epsilon, DELTA, rounds)
    assert float(stated(spent([Release(sigma)] * rounds, DELTA))) <= epsilon
