import math
from typing import Any

import pytest

from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.privacy.accounting import noise_scale, spent


def plan(**changes: Any) -> Plan:
    return Plan(**({"epsilon": 1.0, "delta": 1e-6, "rounds": 10, "samples": 5} | changes))


def test_the_noise_is_the_least_that_keeps_the_guarantee() -> None:
    assert plan().sigma == noise_scale(1.0, 1e-6, 10)
    assert plan(neighbours="add_remove").sigma == noise_scale(1.0, 1e-6, 10, neighbours="add_remove")
    assert plan(votes_per_unit=3).sigma == noise_scale(1.0, 1e-6, 10, votes_per_unit=3)
    assert spent(plan().releases, 1e-6) <= 1.0
    assert len(plan().releases) == 10


def test_infinite_epsilon_means_no_noise() -> None:
    assert plan(epsilon=math.inf).sigma == 0.0


def test_candidates_count_samples_copies_and_scales() -> None:
    assert plan(scales=(1.0, 0.5, 0.25), copies=2).candidates == 5 * 7
    assert plan(scales=(1.0, 0.5, 0.25), copies=2, keep=False).candidates == 5 * 6
    assert plan(initial=10).candidates == 20
    assert plan(initial=30, vary_start=False).candidates == 30
    assert plan(initial=8, vary_start=False).candidates == 10


def test_an_extended_plan_keeps_its_noise_and_costs_more() -> None:
    longer = plan().extended(15)
    assert longer.sigma == plan().sigma
    assert longer.rounds == 15
    assert 1.0 < longer.epsilon < 1.5
    with pytest.raises(InputError, match="cannot be extended to 9"):
        plan().extended(9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive, got 0"),
        ({"epsilon": math.nan}, "epsilon must be positive"),
        ({"delta": 0}, "delta must be"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"samples": 0}, "samples must be a whole number"),
        ({"samples": 2.5}, "samples must be a whole number"),
        ({"copies": 0}, "copies must be a whole number"),
        ({"scales": ()}, "scales must be one or more positive numbers"),
        ({"scales": (1.0, 0.0)}, "scales must be one or more positive numbers"),
        ({"seed": -1}, "initial and seed must be at least 0"),
        ({"neighbours": "both"}, "neighbours must be"),
    ],
)
def test_impossible_plans_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(**changes)


def test_rounds_without_end_are_refused() -> None:
    with pytest.raises(InputError, match="rounds must be at most 100,000, got 1000000000"):
        plan(rounds=10**9)
