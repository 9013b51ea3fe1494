"""What must hold of the default rule: with a sample for each cluster and epsilon 4 or more, no cluster is lost."""

import pytest
from experiments.cluster_discovery.practical import Setting
from experiments.mixture_2d import run as mixture
from experiments.rules import DEFAULT


@pytest.mark.parametrize(("clusters", "samples"), [(5, 5), (5, 10), (8, 10), (10, 10), (10, 40)])
@pytest.mark.parametrize("epsilon", [4.0, 8.0])
def test_the_default_keeps_every_cluster_that_there_is_a_sample_for(
    clusters: int, samples: int, epsilon: float
) -> None:
    setting = Setting(clusters=clusters, samples=samples, epsilon=epsilon)
    for seed in range(4):
        coverage = setting.run(DEFAULT, seed)[-1]
        assert (coverage <= setting.bound).all(), f"seed {seed}"


def test_the_default_keeps_both_clusters_of_the_papers_mixture() -> None:
    assert all(mixture.keeps_both((mixture.Case(DEFAULT, 4.0), seed)) for seed in range(30))
