"""Mixtures of practical size, which the theorem of cluster discovery does not cover."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from experiments.common import free_account
from experiments.rules import rule
from scipy.stats import norm

from gape._support.geometry import distances
from gape.core.types import Floats, Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.evolution.theory import GapePlan, plan_gape
from gape.generators.vectors import GaussianGenerator, StartFromSet
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.voting.electorate import LocalElectorate

RECORDS = 2000  # n
APART = 10.0  # between neighbouring centres
SPREAD = 0.1  # of a cluster in each coordinate of the plane; in more dimensions its radius stays the same
DIAMETER = 1.0  # r; four records in a million lie farther than half of it from their centre
SEPARATION = APART - DIAMETER  # R
SCALES = (1.0, 0.1, 0.01)  # s^2; none leads from one cluster to another
COPIES = 2
ROUNDS = 20
FAILURE = 0.1  # beta of the theorem


@dataclass(frozen=True)
class Setting:
    """A mixture with one small cluster, the others alike, and how it is run."""

    clusters: int = 5
    share: float = 0.05  # of the smallest cluster
    samples: int = 10  # m
    epsilon: float = 4.0
    dimension: int = 2

    @property
    def name(self) -> str:
        """What tells this setting from the others."""
        return (
            f"clusters {self.clusters}, share {self.share:g}, m {self.samples}, epsilon {self.epsilon:g}, "
            f"dimension {self.dimension}"
        )

    @property
    def bound(self) -> float:
        """A cluster is kept if every record of it has a sample within R/8."""
        return SEPARATION / 8

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Records of every cluster, the smallest first."""
        smallest = round(self.share * RECORDS)
        each, more = divmod(RECORDS - smallest, self.clusters - 1)
        return (smallest, *(each + (place < more) for place in range(self.clusters - 1)))

    @property
    def centres(self) -> Floats:
        """The centres, (clusters, d): on a circle in the plane, or 10 from each other on axes of their own."""
        if self.dimension > 2:
            return np.eye(self.clusters, self.dimension) * APART / math.sqrt(2)
        angles = 2 * np.pi * np.arange(self.clusters) / self.clusters
        radius = APART / (2 * math.sin(math.pi / self.clusters))
        return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def theory(self) -> GapePlan:
        """What the theorem would set and ask for here, at an epsilon that is finite."""
        return plan_gape(
            RECORDS,
            self.epsilon,
            usual_delta(RECORDS),
            samples=self.samples,
            separation=SEPARATION,
            diameter=DIAMETER,
            effective_rank=self.dimension,
            anticoncentration=float(norm.ppf(2 / 3)) ** 2,  # a third of a Gaussian lies above sqrt(c) deviations
            failure_probability=FAILURE,
            smallest_cluster=self.sizes[0],
        )

    @property
    def least_cluster(self) -> float:
        """The least cluster of the theorem; without noise only its first term is left, 8 n / m."""
        return self.theory().least_cluster if math.isfinite(self.epsilon) else 8 * RECORDS / self.samples

    def run(self, method: str, seed: int) -> Floats:
        """Run once; return the coverage of every cluster in every round, (T + 1, clusters)."""
        rng = np.random.default_rng([seed, *b"mixture"])
        d = self.dimension
        spread = SPREAD * math.sqrt(2 / d)
        private = [
            centre + spread * rng.standard_normal((n, d)) for centre, n in zip(self.centres, self.sizes, strict=True)
        ]
        away = rng.standard_normal((self.samples, d))
        away *= 0.9 * SEPARATION / 8 / np.linalg.norm(away, axis=1, keepdims=True)
        start = self.centres[np.arange(self.samples) % self.clusters] + away  # every cluster has a sample within R/8
        plan = Plan(self.epsilon, usual_delta(RECORDS), ROUNDS, self.samples, scales=SCALES, copies=COPIES, seed=seed)
        plan, selector = rule(method, plan, RECORDS, SEPARATION)
        generator = GaussianGenerator.isotropic(StartFromSet(start), d)
        electorate = LocalElectorate(
            np.concatenate(private).astype(np.float32),
            votes_per_unit=plan.votes_per_unit,
            votes_per_record=plan.votes_per_record,
        )
        parts = (generator, IdentityEmbedder(), electorate, selector)
        with free_account() as account:
            states = evolve(plan, *parts, account, noise=SeededNoise(seed))
            return np.array([_coverage(private, state.synthetic) for state in states if state.proposal is None])


def _coverage(private: list[Points], samples: Samples) -> Floats:
    return np.array([distances(records, samples).min(axis=1).max() for records in private])


SHARES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
SWEEPS: dict[str, tuple[Setting, ...]] = {
    "clusters": tuple(Setting(clusters=k) for k in (2, 5, 10)),
    "share": tuple(Setting(share=share) for share in SHARES),
    "samples": tuple(Setting(samples=m) for m in (5, 10, 20, 40)),
    "epsilon": tuple(Setting(epsilon=epsilon) for epsilon in EPSILONS),
    "share, 20-D": tuple(Setting(share=share, dimension=20) for share in SHARES),
    "epsilon, 20-D": tuple(Setting(epsilon=epsilon, dimension=20) for epsilon in EPSILONS),
}
# Clusters for each of which there is a sample, or nearly: whether a rule keeps them all, over 200 runs.
MANY = tuple(
    Setting(clusters=clusters, samples=samples, epsilon=epsilon)
    for clusters, samples in ((8, 10), (10, 10), (10, 40))
    for epsilon in (1.0, 4.0)
)
SWEEPS["many clusters"] = MANY
SETTINGS = tuple(dict.fromkeys(setting for sweep in SWEEPS.values() for setting in sweep))
