"""Algorithms 3 and 4 with the paper's parameters, ready for `evolve` or `run`.

Both take the constants of the theorems as public arguments: nothing here looks at data. One thing differs from the
pseudocode: its sigma = 2 sqrt(T log(1.25/delta)) / epsilon, which holds for epsilon below 1 and is larger than need
be, is replaced by `noise_scale`, certified for every epsilon and for the discrete noise that is added. All else
follows from sigma as printed.
"""

import math
from dataclasses import dataclass

from gape.errors import InputError
from gape.plan import Plan
from gape.privacy.accounting import noise_scale
from gape.protocols import Selector
from gape.selection.bounded_lipschitz import BoundedLipschitz
from gape.selection.local_search import Gape


@dataclass(frozen=True)
class Preset:
    """What `evolve` and `run` need to be one of the paper's algorithms."""

    plan: Plan
    selector: Selector


def beyond_worst_case(
    records: int,
    epsilon: float,
    delta: float,
    *,
    rounds: int | None = None,
    doubling_dimension: float,
    effective_rank: float,
    anticoncentration: float,
    seed: int = 0,
) -> Preset:
    """Beyond Worst-Case Private Evolution (Algorithm 3), as in Theorem "private-evolution-worst-case".

    On a domain of diameter 1 (scale embeddings to it) and doubling dimension k, with the data reachable at
    effective rank lambda and anticoncentration c, the expected W1 error is O~(lambda sigma^(1/k)), where sigma is
    the noise of the normalised histogram (l. 2). Then m = ceil(1 / sigma) and alpha = min(1, sigma^(1/k)) (l. 3), one
    variation at each scale 2^0, ..., 2^-l* with l* = ceil(log2(200 lambda / (c alpha^2))) beside the sample
    itself (l. 4-5), and `rounds` is the theorem's ceil(200 lambda / c log(2 + n epsilon)) unless given.
    """
    _check(records, epsilon, effective_rank, anticoncentration)
    if not 2 <= doubling_dimension < math.inf:
        raise InputError(
            f"doubling_dimension must be at least 2 and finite, got {doubling_dimension}; use 2 for anything lower"
        )
    contraction = anticoncentration / (200 * effective_rank)  # gamma = c / (200 lambda)
    T = math.ceil(math.log(2 + records * epsilon) / contraction) if rounds is None else rounds
    votes_sigma = noise_scale(epsilon, delta, T)
    sigma = votes_sigma / records
    alpha = min(1.0, sigma ** (1 / doubling_dimension))
    plan = Plan(
        epsilon=epsilon,
        delta=delta,
        rounds=T,
        samples=math.ceil(1 / sigma),
        scales=_scales(0, math.ceil(math.log2(1 / (contraction * alpha**2)))),
        sigma=votes_sigma,
        seed=seed,
    )
    return Preset(plan, BoundedLipschitz(records))


def gape_with_guarantee(
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
    seed: int = 0,
) -> Preset:
    """GAPE (Algorithm 4) as in Theorem "Cluster Discovery".

    For clusters of diameter r at least R apart with R >= 400 lambda r / c, each with more than 8 n / m + 3 m_V tau
    records and a first sample within R/8, every record has a synthetic sample within 100 lambda r / c with
    probability 1 - beta. Each sample is kept and has ceil(4 log(3 T n / beta)) variations at each scale 2^-l, l from
    ceil(-log2 R^2) to ceil(log2(200 lambda / (c r^2))) (l. 3-4), at most m_V candidates in all (l. 5), of which those
    above tau = sigma sqrt(2 log(6 T m_V / beta)) noisy votes can be selected (l. 6). `rounds` is the theorem's
    ceil(50 lambda / c log(R / r)) unless given.
    """
    _check(records, epsilon, effective_rank, anticoncentration)
    if not 0 < failure_probability < 1:
        raise InputError(f"failure_probability must lie between 0 and 1, got {failure_probability}; use 0.05, say")
    if not (diameter > 0 and 0 < separation < math.inf):
        raise InputError(
            f"separation and diameter must be positive and finite, got {separation} and {diameter}; "
            "give them in the units of the embedding"
        )
    least = 400 * effective_rank * diameter / anticoncentration
    if separation < least:
        raise InputError(
            f"separation must be at least 400 effective_rank diameter / anticoncentration = {least:g} for the theorem "
            f"to hold, got {separation:g}; use Plan and Gape for a run without its guarantee"
        )
    reach = effective_rank / anticoncentration  # lambda / c
    T = math.ceil(50 * reach * math.log(separation / diameter)) if rounds is None else rounds
    sigma = noise_scale(epsilon, delta, T)
    plan = Plan(
        epsilon=epsilon,
        delta=delta,
        rounds=T,
        samples=samples,
        scales=_scales(math.ceil(-2 * math.log2(separation)), math.ceil(math.log2(200 * reach / diameter**2))),
        copies=math.ceil(4 * math.log(3 * T * records / failure_probability)),
        sigma=sigma,
        seed=seed,
    )
    tau = sigma * math.sqrt(2 * math.log(6 * T * plan.candidates / failure_probability))
    return Preset(plan, Gape(separation, tau))


def _scales(first: int, last: int) -> tuple[float, ...]:
    """The scales s^2 = 2^-l for l from `first` to `last`."""
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
            f"anticoncentration must lie above 0 and be at most 2, got {anticoncentration}; a Gaussian generator "
            "allows 0.18"
        )
