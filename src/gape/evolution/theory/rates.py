"""How many samples find the smallest clusters, and how small a cluster can be: the theorem of cluster discovery."""

import math
from dataclasses import dataclass

from gape.core.errors import InputError
from gape.evolution.theory.plans import paper_threshold
from gape.privacy.accounting import Neighbours, noise_scale

_FAILURE = 0.05  # beta, unless given


@dataclass(frozen=True)
class ClusterLimits:
    """The best number of samples and the least cluster, by the theorem's constants and by its rate.

    `samples` and `least_cluster` minimise 8 n / m + 3 m_V tau, the size above which the theorem covers a cluster.
    `rate_samples` and `rate_cluster` are the paper's rates with the constant 1 and no logarithms, sqrt(n / sigma) and
    sqrt(n sigma). The rates promise nothing: they say how both change with n and sigma.
    """

    records: int
    sigma: float  # noise on a count, with one vote per record
    samples: int
    least_cluster: float
    rate_samples: int
    rate_cluster: int

    @property
    def sentences(self) -> tuple[str, str]:
        """One sentence on the number of samples, and one on the least cluster."""
        none = ", more than the data has" if self.least_cluster >= self.records else ""
        rate = f"{self.rate_samples:,} sample{'s' * (self.rate_samples != 1)}"
        size = f"{self.rate_cluster:,} record{'s' * (self.rate_cluster != 1)}"
        samples = (
            "To find small clusters with one vote per record, the paper's theory suggests about "
            f"{rate} by its asymptotic rate, sqrt(n / sigma) with the constant 1, or "
            f"{self.samples:,} by its theorem with all constants."
        )
        cluster = (
            f"The smallest cluster that can be found has about {size} by the paper's asymptotic rate, "
            f"sqrt(n sigma) with the constant 1; its theorem requires more than {self.least_cluster:,.0f}{none}."
        )
        return samples, cluster


def cluster_limits(
    records: int,
    epsilon: float,
    delta: float,
    rounds: int,
    *,
    per_sample: int,
    failure_probability: float = _FAILURE,
    neighbours: Neighbours = "replace",
) -> ClusterLimits:
    """Return the number of samples m that lets the theorem cover the smallest clusters, and their size.

    Theorem "Cluster Discovery" covers clusters of more than 8 n / m + 3 m_V tau records, where m_V = m `per_sample`
    candidates (a sample and its variations) and tau = sigma sqrt(2 log(6 T m_V / beta)). The first term falls with m
    and the second rises, so both are least near m = sqrt(8 n / (3 tau per_sample)).

    Up to constants and logarithms this is m ~ sqrt(n / sigma) and |C| ~ sqrt(n sigma). The paper writes it with the
    effective rank lambda of the generator: it takes T = 50 lambda / c log(R / r) rounds, and sigma grows with sqrt(T),
    so m ~ sqrt(n) / lambda^(1/4) and |C| ~ sqrt(n) lambda^(1/4) at a fixed epsilon. Here T is given instead of lambda.
    """
    if records < 1 or per_sample < 1 or rounds < 1:
        raise InputError(
            f"records, rounds and per_sample must be at least 1, got {records}, {rounds} and {per_sample}; a sample "
            "is a candidate itself, and each of its variations is another"
        )
    if not 0 < failure_probability < 1:
        raise InputError(f"failure_probability must be between 0 and 1, got {failure_probability}; 0.05 is usual")
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon must be positive and finite, got {epsilon}; without noise there is no best m")
    sigma = noise_scale(epsilon, delta, rounds, neighbours=neighbours)

    def least_cluster(m: int) -> float:
        candidates = m * per_sample
        tau = paper_threshold(sigma, rounds, candidates, failure_probability)
        return 8 * records / m + 3 * candidates * tau

    # The first term is convex in m, and so is the second: bisect for the first m that is not worse than the next.
    low, high = 1, records
    while low < high:
        m = (low + high) // 2
        if least_cluster(m) <= least_cluster(m + 1):
            high = m
        else:
            low = m + 1
    rate = math.sqrt(records / sigma)
    return ClusterLimits(
        records,
        sigma,
        samples=low,
        least_cluster=least_cluster(low),
        rate_samples=max(1, round(rate)),
        rate_cluster=math.ceil(math.sqrt(records * sigma)),
    )
