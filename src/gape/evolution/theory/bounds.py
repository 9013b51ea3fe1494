"""The lemmas behind the paper's theorems, with their constants, and the terms A, B and C of the error bound.

The paper bounds the error after a round by A + 2 B + C (Section "Proof Outline"): what a round of variations leaves of
the distance, the noise on the votes, and the draw of m samples. Where it writes O(.), its proofs leave one absolute
constant open, that of chaining. It is 12 here, which the usual argument gives (`gaussian_complexity`), so that every
bound below is a number.
"""

import math
from dataclasses import dataclass

from scipy.integrate import quad
from scipy.optimize import brentq

from gape.core.errors import InputError
from gape.evolution.theory.plans import WorstCasePlan

PROBABILITY = 1 / 4  # of one variation that comes nearer, in Lemma "contraction-one-scale"
CHAINING = 12.0  # the absolute constant C of Lemma "chaining"


@dataclass(frozen=True)
class Contraction:
    """Lemma "contraction-one-scale": a variation at one of `scales` is within `bound`, with `probability` or more."""

    scales: tuple[float, float]  # the least and the largest s^2 that the lemma covers
    bound: float  # on the distance of the variation from the target
    squared_factor: float  # 1 - c / (25 lambda), the same for squared distances
    probability: float

    def failure(self, copies: int) -> float:
        """Return the largest probability that none of `copies` independent variations comes within the bound."""
        return float((1 - self.probability) ** copies)


def contraction(distance: float, effective_rank: float, anticoncentration: float) -> Contraction:
    """Bound the distance of one variation z of y from a target x, |x - y| = `distance` (Lemma "contraction-one-scale").

    If x is reachable from VariationAPI(y, s^2) with effective rank lambda and anticoncentration c, and s^2 lies in
    [c |x - y|^2 / (400 lambda), c |x - y|^2 / (200 lambda)], then with probability 1/4 or more

        |z - x|^2 <= (1 - c / (25 lambda)) |x - y|^2.
    """
    _check_generator(effective_rank, anticoncentration)
    _check_positive("distance", distance)
    unit = anticoncentration * distance**2 / effective_rank
    factor = 1 - anticoncentration / (25 * effective_rank)
    return Contraction((unit / 400, unit / 200), math.sqrt(factor) * distance, factor, PROBABILITY)


def finest_level(resolution: float, effective_rank: float, anticoncentration: float) -> int:
    """Return l* = ceil(log2(200 lambda / (c alpha^2))): variations down to scale 2^-l* approach up to alpha."""
    _check_generator(effective_rank, anticoncentration)
    _check_positive("resolution", resolution)
    return math.ceil(math.log2(200 * effective_rank / (anticoncentration * resolution**2)))


def expected_contraction(distance: float, resolution: float, effective_rank: float, anticoncentration: float) -> float:
    """Bound the expected squared distance of a target to the nearest candidate of the next round.

    On a domain of diameter 1, with one variation at each scale 2^0, ..., 2^-l* beside the samples themselves and the
    nearest sample at `distance` (Corollary "expected-contraction-all-scale"):

        E[min_v |x - v|^2] <= max(alpha^2, (1 - c / (100 lambda)) |x - y|^2).
    """
    _check_generator(effective_rank, anticoncentration)
    _check_positive("resolution", resolution)
    if not 0 <= distance <= 1:
        raise InputError(f"distance must be between 0 and 1, got {distance}; scale the domain to diameter 1")
    return max(resolution**2, (1 - anticoncentration / (100 * effective_rank)) * distance**2)


def contraction_term(previous: float, resolution: float, effective_rank: float, anticoncentration: float) -> float:
    """Bound term A, the expected W1 distance of the records to the histogram of the next candidates.

        A = E[W1(mu_D, mu_V)] <= (1 - gamma) W1(mu_D, mu_S) + alpha,    gamma = c / (200 lambda)

    `previous` is W1(mu_D, mu_S) of the samples that were varied (Lemma "norm-to-W1-contraction" with the corollary).
    """
    _check_generator(effective_rank, anticoncentration)
    return (1 - _gamma(effective_rank, anticoncentration)) * previous + resolution


def gaussian_complexity(points: int, doubling_dimension: float) -> float:
    """Bound the Gaussian complexity G_n of the bounded 1-Lipschitz functions, for n = `points`.

    On a domain of diameter 1 and doubling dimension k (Lemmas "chaining" and "domain-covering-number", Proposition
    "gaussian-complexity"),

        G_n <= C min_a [a + n^(-1/2) integral from a to 1 of sqrt((5/b)^k log(8/b)) db],

    which is of the order of n^(-1/max(2, k)) up to logarithms, and never more than 1. The paper leaves C open. C = 12
    holds: chain f through covers at 2^-j, j = 1, ..., N. A link has at most N(2^-j)^2 values, each at most 3 * 2^-j, so
    all links cost 6 sum_j 2^-j sqrt(log N(2^-j) / n) <= 12 times the integral from 2^-(N+1), and what is left of f
    costs 2^-N, at most 4 a for the largest N with 2^-(N+1) >= a.
    """
    n, k = points, doubling_dimension
    if n < 1 or not 0 < k < math.inf:
        raise InputError(
            f"points must be at least 1 and doubling_dimension positive and finite, got {points} and "
            f"{doubling_dimension}; a line has dimension 1"
        )

    def log_entropy(radius: float) -> float:  # of the integrand over sqrt(n), whose powers would overflow
        return (k * math.log(5 / radius) + math.log(math.log(8 / radius)) - math.log(n)) / 2

    if log_entropy(1.0) >= 0:  # the bracket falls with a up to its largest value, 1
        return 1.0
    # The bracket is least where its slope, 1 minus the integrand, vanishes: above 5 n^(-1/k), where (5/a)^k is n.
    least = brentq(log_entropy, 5.0 * n ** (-1 / k), 1.0)
    integral = quad(lambda radius: math.exp(log_entropy(radius)), least, 1.0, limit=200)[0]
    return float(min(1.0, CHAINING * (least + integral)))


def noise_term(candidates: int, sigma: float, doubling_dimension: float) -> float:
    """Bound term B, the expected bounded-Lipschitz distance of the noisy histogram to the exact one.

        B = E[BL(mu_V, mu_V + Z)] <= m_V sigma G_(m_V)    for Z ~ N(0, sigma^2 I)

    `sigma` is the noise on a share of the records, n times smaller than that on a count (Lemma
    "noisy-histogram-error"). The error has it twice, because the projection moves as far again.
    """
    _check_positive("sigma", sigma)
    return candidates * sigma * gaussian_complexity(candidates, doubling_dimension)


def sampling_term(samples: int, doubling_dimension: float) -> float:
    """Bound term C, the expected W1 distance of m draws to the distribution they come from (Lemma "subsampling-error").

    C = E[W1(mu_S, bar mu_V)] <= sqrt(2 pi) G_m
    """
    return math.sqrt(2 * math.pi) * gaussian_complexity(samples, doubling_dimension)


@dataclass(frozen=True)
class ErrorBound:
    """The bound on the expected W1 error of Algorithm 3 after T rounds, term by term, constants included."""

    start: float  # (1 - gamma)^T W1(mu_S(0), mu_D)
    resolution: float  # alpha / gamma
    noise: float  # 2 B / gamma
    sampling: float  # C / gamma

    @property
    def total(self) -> float:
        """The sum, or the diameter 1 of the domain where that is less."""
        return min(1.0, self.start + self.resolution + self.noise + self.sampling)

    @property
    def says_something(self) -> bool:
        """Whether the bound is below the diameter of the domain, which holds without any theorem."""
        return self.total < 1


def error_bound(plan: WorstCasePlan, start: float = 1.0) -> ErrorBound:
    """Bound the expected W1 error of Algorithm 3 with all constants (proof of "private-evolution-worst-case").

        Gamma_T <= (1 - gamma)^T Gamma_0 + (alpha + 2 m_V sigma G_(m_V) + sqrt(2 pi) G_m) / gamma

    The theorem states this up to constants and logarithms, as `WorstCasePlan.error` does. With the constants it takes
    very many records to say anything: 1 / gamma alone is 200 lambda / c. `start` is the W1 distance before round 1.
    """
    gamma = _gamma(plan.effective_rank, plan.anticoncentration)
    return ErrorBound(
        start=(1 - gamma) ** plan.rounds * start,
        resolution=plan.resolution / gamma,
        noise=2 * noise_term(plan.candidates, plan.sigma, plan.doubling_dimension) / gamma,
        sampling=sampling_term(plan.samples, plan.doubling_dimension) / gamma,
    )


def _gamma(effective_rank: float, anticoncentration: float) -> float:
    return anticoncentration / (200 * effective_rank)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise InputError(f"{name} must be positive and finite, got {value}; give it in the units of the embedding")


def _check_generator(effective_rank: float, anticoncentration: float) -> None:
    if not 1 <= effective_rank < math.inf or not 0 < anticoncentration <= 2:
        raise InputError(
            f"effective_rank must be at least 1 and anticoncentration above 0 and at most 2, got {effective_rank} and "
            f"{anticoncentration}; an isotropic Gaussian in d dimensions has d and 0.18"
        )
