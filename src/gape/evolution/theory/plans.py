"""The parameters and guarantees of the paper's theorems, computed before anything is run.

There is one planner per theorem. It returns all quantities that follow from the constants of the theorem with their
formulas, the guarantee as a sentence, and the conditions of the theorem that the setting violates. Nothing here looks
at data.

One thing differs from the paper. Its sigma = 2 sqrt(T log(1.25/delta)) / epsilon holds only for epsilon below 1 and is
larger than necessary. It is replaced by `noise_scale`, which is certified for every epsilon and for the discrete noise
that is added. Everything else follows from sigma as in the paper.
"""

import math
from dataclasses import dataclass, replace

from gape.core.errors import InputError
from gape.privacy.accounting import noise_scale


@dataclass(frozen=True)
class Quantity:
    """One number of a plan: its name, its symbol in the paper, its formula and its value."""

    name: str
    symbol: str
    formula: str
    value: float


@dataclass(frozen=True)
class WorstCasePlan:
    """Beyond Worst-Case Private Evolution (Algorithm 3) at given constants, as in its theorem."""

    records: int
    epsilon: float
    delta: float
    doubling_dimension: float
    effective_rank: float
    anticoncentration: float
    rounds: int
    votes_sigma: float  # of the noise on each count
    sigma: float  # of the noise on each share of the records
    samples: int
    resolution: float
    finest: int
    violations: tuple[str, ...]

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales s^2 of the variations, coarsest first."""
        return _scales(0, self.finest)

    @property
    def candidates(self) -> int:
        """Number of candidates per round, m_V: the samples and their variations."""
        return self.samples * (1 + len(self.scales))

    @property
    def error(self) -> float:
        """Leading term of the bound on the expected W1 distance, without constants and logarithms."""
        return self.effective_rank * math.pow(self.sigma, 1 / self.doubling_dimension)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """All quantities that follow from the constants."""
        return (
            Quantity("rounds", "T", "ceil(200 lambda / c * log(2 + n epsilon))", self.rounds),
            Quantity("noise on a share", "sigma", "noise on a count / n", self.sigma),
            Quantity("noise on a count", "n sigma", "least for (epsilon, delta) over T rounds", self.votes_sigma),
            Quantity("samples", "m", "ceil(1 / sigma)", self.samples),
            Quantity("resolution", "alpha", "min(1, sigma^(1/k))", self.resolution),
            Quantity("finest scale", "l*", "ceil(log2(200 lambda / (c alpha^2)))", self.finest),
            Quantity("variations of a sample", "l* + 1", "one at each scale 2^0, ..., 2^-l*", len(self.scales)),
            Quantity("candidates of a round", "m_V", "m (l* + 2)", self.candidates),
            Quantity("leading term of the error", "W1", "lambda sigma^(1/k)", self.error),
        )

    @property
    def guarantee(self) -> str:
        """The guarantee of the theorem, as a sentence."""
        return (
            f"If the domain has diameter 1 and doubling dimension {self.doubling_dimension:g}, and every record is "
            f"reachable with effective rank {self.effective_rank:g} and anticoncentration {self.anticoncentration:g}, "
            f"then after {self.rounds} rounds the expected W1 distance of the {self.samples} samples to the "
            f"{self.records} records is of the order of {self.error:.3g}, up to constants and logarithms, for any "
            "dimension of the embedding."
        )


def plan_worst_case(
    records: int,
    epsilon: float,
    delta: float,
    *,
    doubling_dimension: float,
    effective_rank: float,
    anticoncentration: float,
    rounds: int | None = None,
) -> WorstCasePlan:
    """Return the parameters of Theorem "private-evolution-worst-case": T, sigma, m, alpha, the scales, m_V, the error.

    On a domain of diameter 1 (scale embeddings to it) and doubling dimension k, with the data reachable at effective
    rank lambda and anticoncentration c, the expected W1 error is O~(lambda sigma^(1/k)). `rounds` is the theorem's T
    unless given.
    """
    _check(records, epsilon, effective_rank, anticoncentration)
    if not 2 <= doubling_dimension < math.inf:
        raise InputError(
            f"doubling_dimension must be at least 2 and finite, got {doubling_dimension}; use 2 for lower values"
        )
    contraction = anticoncentration / (200 * effective_rank)  # gamma = c / (200 lambda)
    T = math.ceil(math.log(2 + records * epsilon) / contraction) if rounds is None else rounds
    votes_sigma = noise_scale(epsilon, delta, T)
    sigma = votes_sigma / records
    alpha = min(1.0, sigma ** (1 / doubling_dimension))
    fewest = math.ceil(max(0.0, math.log(contraction / sigma ** (1 / doubling_dimension))) / contraction)
    conditions = {
        f"it takes at least {fewest} rounds, 200 lambda / c * log(c / (200 lambda sigma^(1/k))), not {T}": fewest <= T,
        f"{records} records are too few: noise of {sigma:.3g} on every share leaves a bound of the domain's own "
        "diameter": alpha < 1,
    }
    return WorstCasePlan(
        records,
        epsilon,
        delta,
        doubling_dimension,
        effective_rank,
        anticoncentration,
        rounds=T,
        votes_sigma=votes_sigma,
        sigma=sigma,
        samples=math.ceil(1 / sigma),
        resolution=alpha,
        finest=math.ceil(math.log2(1 / (contraction * alpha**2))),
        violations=tuple(words for words, holds in conditions.items() if not holds),
    )


@dataclass(frozen=True)
class GapePlan:
    """GAPE (Algorithm 4) at given constants, as in the theorem of cluster discovery."""

    records: int
    epsilon: float
    delta: float
    samples: int
    separation: float
    diameter: float
    effective_rank: float
    anticoncentration: float
    failure_probability: float
    rounds: int
    sigma: float
    coarsest: int
    finest: int
    copies: int
    violations: tuple[str, ...] = ()

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales s^2 of the variations, coarsest first."""
        return _scales(self.coarsest, self.finest)

    @property
    def candidates(self) -> int:
        """Number of candidates per round, m_V: the samples and their variations."""
        return self.samples * (1 + len(self.scales) * self.copies)

    @property
    def threshold(self) -> float:
        """Number of noisy votes tau above which a candidate can be selected."""
        return paper_threshold(self.sigma, self.rounds, self.candidates, self.failure_probability)

    @property
    def least_cluster(self) -> float:
        """Size above which the theorem covers a cluster, in records."""
        return 8 * self.records / self.samples + 3 * self.candidates * self.threshold

    @property
    def coverage(self) -> float:
        """Maximum distance from a record to the nearest sample under the guarantee."""
        return 100 * self.diameter * self.effective_rank / self.anticoncentration

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """All quantities that follow from the constants."""
        return (
            Quantity("rounds", "T", "ceil(50 lambda / c * log(R / r))", self.rounds),
            Quantity("noise on a count", "sigma", "least for (epsilon, delta) over T rounds", self.sigma),
            Quantity("coarsest scale", "l", "ceil(-log2(R^2))", self.coarsest),
            Quantity("finest scale", "l*", "ceil(log2(200 lambda / (c r^2)))", self.finest),
            Quantity("variations at each scale", "", "ceil(4 log(3 T n / beta))", self.copies),
            Quantity("candidates of a round", "m_V", "m (1 + scales * variations)", self.candidates),
            Quantity("threshold", "tau", "sigma sqrt(2 log(6 T m_V / beta))", self.threshold),
            Quantity("least cluster", "|C|", "8 n / m + 3 m_V tau", self.least_cluster),
            Quantity("coverage", "rho(D, S)", "100 r lambda / c", self.coverage),
        )

    @property
    def guarantee(self) -> str:
        """The guarantee of the theorem, as a sentence."""
        return (
            f"If the data lies in clusters of diameter {self.diameter:g} that are {self.separation:g} or more apart, "
            f"each with more than {self.least_cluster:,.0f} of the {self.records:,} records and a first sample within "
            f"{self.separation / 8:g}, and every record is reachable with effective rank {self.effective_rank:g} and "
            f"anticoncentration {self.anticoncentration:g}, then after {self.rounds} rounds every record has a sample "
            f"within {self.coverage:g}, with probability {1 - self.failure_probability:g}."
        )


def plan_gape(
    records: int,
    epsilon: float,
    delta: float,
    *,
    samples: int,
    separation: float,
    diameter: float,
    effective_rank: float,
    anticoncentration: float,
    failure_probability: float,
    rounds: int | None = None,
    smallest_cluster: int | None = None,
) -> GapePlan:
    """Return the parameters and the guarantee of Theorem "Cluster Discovery": T, sigma, scales, copies, m_V and tau.

    For clusters of diameter r at least R apart with R >= 400 lambda r / c, each with more than 8 n / m + 3 m_V tau
    records and a first sample within R/8, every record has a sample within 100 lambda r / c with probability 1 - beta.
    `rounds` is the theorem's T unless given. If `smallest_cluster` is given, it is compared with that minimum size.
    """
    _check(records, epsilon, effective_rank, anticoncentration)
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}; use 1 or more")
    if not 0 < failure_probability < 1:
        raise InputError(f"failure_probability must be between 0 and 1, got {failure_probability}; 0.05 is usual")
    if not (diameter > 0 and 0 < separation < math.inf):
        raise InputError(
            f"separation and diameter must be positive and finite, got {separation} and {diameter}; "
            "give them in the units of the embedding"
        )
    reach = effective_rank / anticoncentration  # lambda / c
    enough = max(1, math.ceil(50 * reach * math.log(separation / diameter)))
    T = enough if rounds is None else rounds
    plan = GapePlan(
        records,
        epsilon,
        delta,
        samples,
        separation,
        diameter,
        effective_rank,
        anticoncentration,
        failure_probability,
        rounds=T,
        sigma=noise_scale(epsilon, delta, T),
        coarsest=math.ceil(-2 * math.log2(separation)),
        finest=math.ceil(math.log2(200 * reach / diameter**2)),
        copies=math.ceil(4 * math.log(3 * T * records / failure_probability)),
    )
    smallest = records if smallest_cluster is None else smallest_cluster
    apart = 400 * diameter * reach
    conditions = {
        f"clusters must be at least 400 r lambda / c = {apart:g} apart, not {separation:g}": separation >= apart,
        f"it takes {enough} rounds, 50 lambda / c * log(R / r), not {T}": enough <= T,
        f"every cluster needs more than {plan.least_cluster:,.0f} records, and "
        + (
            f"all data together has {records:,}"
            if smallest_cluster is None
            else f"the smallest has {smallest_cluster:,}"
        ): smallest > plan.least_cluster,
    }
    return replace(plan, violations=tuple(words for words, holds in conditions.items() if not holds))


def paper_threshold(sigma: float, rounds: int, candidates: int, failure_probability: float) -> float:
    """Return tau = sigma sqrt(2 log(6 T m_V / beta)), which the noise exceeds in some round with probability beta / 3.

    Algorithm 4, line 6.
    """
    return sigma * math.sqrt(2 * math.log(6 * rounds * candidates / failure_probability))


def _scales(first: int, last: int) -> tuple[float, ...]:
    """Return the scales s^2 = 2^-l for l from `first` to `last`."""
    return tuple(2.0**-level for level in range(first, last + 1))


def _check(records: int, epsilon: float, effective_rank: float, anticoncentration: float) -> None:
    if records != int(records) or records < 1:
        raise InputError(
            f"records must be a whole number of at least 1, got {records}; give the size of the private data"
        )
    if not 0 < epsilon < math.inf:
        raise InputError(
            f"epsilon must be positive and finite, got {epsilon}; without noise the paper's parameters are undefined, "
            "so give Plan its own"
        )
    if not 1 <= effective_rank < math.inf:
        raise InputError(
            f"effective_rank must be at least 1 and finite, got {effective_rank}; an isotropic generator has rank d"
        )
    if not 0 < anticoncentration <= 2:
        raise InputError(
            f"anticoncentration must be above 0 and at most 2, got {anticoncentration}; Gaussian generators allow 0.18"
        )
