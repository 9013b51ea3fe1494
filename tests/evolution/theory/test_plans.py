"""The planners, against values worked out by hand."""

import math
from typing import Any

import pytest

from gape.evolution.theory import plan_gape, plan_worst_case
from gape.privacy.accounting import noise_scale

CLUSTERS: dict[str, Any] = {
    "samples": 4, "separation": 100.0, "diameter": 0.02, "failure_probability": 0.1, "effective_rank": 2,
    "anticoncentration": 0.18,
}  # fmt: skip


class TestWorstCase:
    def test_by_hand(self) -> None:
        plan = plan_worst_case(10**6, 0.5, 1e-6, doubling_dimension=3, effective_rank=1, anticoncentration=2)
        assert plan.rounds == 1313  # 100 log 500002 = 1312.24
        assert plan.votes_sigma == noise_scale(0.5, 1e-6, 1313)
        sigma = plan.votes_sigma / 10**6
        assert plan.sigma == sigma
        assert plan.samples == math.ceil(1 / sigma)
        assert plan.resolution == pytest.approx(sigma ** (1 / 3))
        assert plan.finest == math.ceil(math.log2(100 / sigma ** (2 / 3)))
        assert plan.scales == tuple(2.0**-level for level in range(plan.finest + 1))
        assert plan.candidates == plan.samples * (plan.finest + 2)
        assert plan.error == pytest.approx(sigma ** (1 / 3))
        assert plan.violations == ()

    def test_every_quantity_has_a_name_a_formula_and_its_value(self) -> None:
        plan = plan_worst_case(10**6, 0.5, 1e-6, doubling_dimension=3, effective_rank=1, anticoncentration=2)
        values = {quantity.symbol: quantity.value for quantity in plan.quantities}
        assert values["T"] == plan.rounds
        assert values["m_V"] == plan.candidates
        assert values["W1"] == plan.error
        assert all(quantity.name and quantity.formula for quantity in plan.quantities)
        assert f"after {plan.rounds} rounds" in plan.guarantee
        assert "doubling dimension 3" in plan.guarantee

    def test_too_few_rounds_and_too_few_records(self) -> None:
        # gamma = c / (200 lambda) = 1/100; sigma^(1/2) is about 2e-4, so T >= 100 log(0.01 / 2e-4), about 390
        few = plan_worst_case(10**9, 1.0, 1e-6, doubling_dimension=2, effective_rank=1, anticoncentration=2, rounds=50)
        root = math.sqrt(few.sigma)
        assert len(few.violations) == 1
        assert f"at least {math.ceil(100 * math.log(0.01 / root))} rounds" in few.violations[0]
        small = plan_worst_case(5, 0.1, 1e-6, doubling_dimension=2, effective_rank=1, anticoncentration=2, rounds=50)
        assert small.resolution == 1
        assert small.samples == 1
        assert len(small.violations) == 1
        assert "5 records are too few" in small.violations[0]

    def test_the_error_falls_with_n_at_a_rate_set_by_the_dimension(self) -> None:
        def error(n: int, k: float) -> float:
            return plan_worst_case(
                n, 1.0, 1e-6, doubling_dimension=k, effective_rank=1, anticoncentration=2, rounds=100
            ).error

        for k in (2, 3, 5):
            slope = math.log(error(10**8, k) / error(10**6, k)) / math.log(100)
            assert slope == pytest.approx(-1 / k, abs=1e-3)


class TestGape:
    def test_by_hand(self) -> None:
        plan = plan_gape(2000, 1.0, 1e-5, rounds=3, **CLUSTERS)
        assert plan.sigma == 9.13918
        # -log2 100^2 = -13.29; log2(200 * 2 / (0.18 * 0.0004)) = log2 5555555.6 = 22.41
        assert (plan.coarsest, plan.finest, len(plan.scales)) == (-13, 23, 37)
        assert plan.copies == 49  # 4 log(3 * 3 * 2000 / 0.1) = 48.40
        assert plan.candidates == 4 * (1 + 37 * 49)
        assert plan.threshold == pytest.approx(48.5023, abs=1e-4)  # 9.13918 sqrt(2 log(6 * 3 * 7256 / 0.1))
        assert plan.least_cluster == pytest.approx(8 * 2000 / 4 + 3 * 7256 * 48.5023, rel=1e-5)
        assert plan.coverage == pytest.approx(22.2222, abs=1e-4)  # 100 * 0.02 * 2 / 0.18
        values = {quantity.symbol: quantity.value for quantity in plan.quantities}
        assert values["tau"] == plan.threshold
        assert values["|C|"] == plan.least_cluster

    def test_the_theorems_rounds(self) -> None:
        assert plan_gape(2000, 1.0, 1e-5, **CLUSTERS).rounds == 4732  # 50 * 2 / 0.18 * log 5000 = 4731.8

    def test_what_is_violated_is_named(self) -> None:
        plan = plan_gape(2000, 1.0, 1e-5, rounds=3, **{**CLUSTERS, "separation": 80.0})
        assert len(plan.violations) == 3
        assert plan.violations[0] == "clusters must be at least 400 r lambda / c = 88.8889 apart, not 80"
        assert "4608 rounds" in plan.violations[1]  # 50 * 2 / 0.18 * log 4000 = 4607.8
        assert "all data together has 2,000" in plan.violations[2]

    def test_a_setting_that_the_theorem_covers(self) -> None:
        plan = plan_gape(10**11, 1.0, 1e-5, smallest_cluster=10**11 // 3, **{**CLUSTERS, "samples": 40})
        assert plan.violations == ()
        assert plan.least_cluster < 10**11 / 3
        assert "with probability 0.9" in plan.guarantee
        small = plan_gape(10**11, 1.0, 1e-5, smallest_cluster=500, **{**CLUSTERS, "samples": 40})
        assert len(small.violations) == 1
        assert "the smallest has 500" in small.violations[0]
