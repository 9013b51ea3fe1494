"""The number of samples and the least cluster, against brute force and the paper's rate."""

import math
from typing import Any

import pytest

from gape.core.errors import InputError
from gape.evolution.theory import cluster_limits, plan_gape
from gape.privacy.accounting import noise_scale


@pytest.mark.parametrize(
    ("records", "epsilon", "rounds", "per_sample"), [(2000, 4.0, 20, 7), (75_000, 1.0, 10, 8), (5_000_000, 8.0, 3, 2)]
)
def test_no_other_number_of_samples_finds_smaller_clusters(
    records: int, epsilon: float, rounds: int, per_sample: int
) -> None:
    limits = cluster_limits(records, epsilon, 1e-6, rounds, per_sample=per_sample, failure_probability=0.1)
    sigma = noise_scale(epsilon, 1e-6, rounds)

    def least(m: int) -> float:
        tau = sigma * math.sqrt(2 * math.log(6 * rounds * m * per_sample / 0.1))
        return 8 * records / m + 3 * m * per_sample * tau

    best = min(range(1, 3000), key=least)
    assert limits.sigma == sigma
    assert limits.samples == best
    assert limits.least_cluster == pytest.approx(least(best))
    assert limits.rate_samples == round(math.sqrt(records / sigma))
    assert limits.rate_cluster == math.ceil(math.sqrt(records * sigma))


def test_it_is_the_size_that_the_planner_asks_for() -> None:
    common: dict[str, Any] = {"separation": 100.0, "diameter": 0.02, "effective_rank": 2.0, "anticoncentration": 0.18}
    plan = plan_gape(10**9, 1.0, 1e-9, samples=100, failure_probability=0.1, **common)
    limits = cluster_limits(
        10**9, 1.0, 1e-9, plan.rounds, per_sample=plan.candidates // plan.samples, failure_probability=0.1
    )
    at_best = plan_gape(10**9, 1.0, 1e-9, samples=limits.samples, failure_probability=0.1, **common)
    assert limits.least_cluster == pytest.approx(at_best.least_cluster)
    for m in (limits.samples - 1, limits.samples + 1):
        assert plan_gape(10**9, 1.0, 1e-9, samples=m, failure_probability=0.1, **common).least_cluster >= (
            limits.least_cluster
        )


def test_both_follow_the_papers_powers_of_n_and_of_lambda() -> None:
    # T is proportional to lambda. m ~ n^(1/2) lambda^(-1/4), |C| ~ n^(1/2) lambda^(1/4), up to logarithms.
    base = cluster_limits(10**8, 0.5, 1e-10, 20, per_sample=8)
    larger = cluster_limits(10**10, 0.5, 1e-10, 20, per_sample=8)
    slower = cluster_limits(10**8, 0.5, 1e-10, 20 * 16, per_sample=8)
    assert larger.rate_samples / base.rate_samples == pytest.approx(10, rel=0.01)
    assert larger.rate_cluster / base.rate_cluster == pytest.approx(10, rel=0.01)
    assert base.rate_samples / slower.rate_samples == pytest.approx(2, rel=0.05)
    assert slower.rate_cluster / base.rate_cluster == pytest.approx(2, rel=0.05)
    assert larger.samples / base.samples == pytest.approx(10, rel=0.1)
    assert slower.least_cluster / base.least_cluster == pytest.approx(2, rel=0.1)


def test_sentences_name_the_constant_and_what_cannot_be() -> None:
    small = cluster_limits(2000, 4.0, 1e-5, 20, per_sample=7)
    samples, cluster = small.sentences
    assert f"about {small.rate_samples:,} samples by its asymptotic rate" in samples
    assert "with the constant 1" in samples
    assert "with the constant 1" in cluster
    assert cluster.endswith(", more than the data has.")
    large = cluster_limits(10**9, 4.0, 1e-10, 20, per_sample=7)
    assert large.sentences[1].endswith(f"requires more than {large.least_cluster:,.0f}.")


def test_refusals() -> None:
    for arguments in ((0, 1.0, 1e-5, 3), (10, math.inf, 1e-5, 3), (10, 1.0, 1e-5, 0)):
        with pytest.raises(InputError, match="must be"):
            cluster_limits(*arguments, per_sample=8)
    with pytest.raises(InputError, match="failure_probability"):
        cluster_limits(10, 1.0, 1e-5, 3, per_sample=8, failure_probability=1.0)
