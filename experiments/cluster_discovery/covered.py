"""Instances that the theorem of cluster discovery covers, and the parts that make a run of its size affordable.

The theorem asks for billions of records and tens of thousands of candidates a round. Both are many and yet few here:
records share few distinct values, and candidates few distinct places. Nothing is approximated for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from experiments.common import free_account

from gape._support.fingerprint import dataset_fingerprint
from gape.core.errors import InputError
from gape.core.protocols import Selection, Selector
from gape.core.types import Counts, Floats, NoisyVotes, Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.evolve import evolve
from gape.evolution.presets import Preset, gape_with_guarantee
from gape.evolution.theory import GapePlan, plan_gape
from gape.generators.vectors import StartFromSet
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.selection.flow.objective import signed_points
from gape.selection.flow.search import Search
from gape.selection.kmedoids import k_medoids
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.voting.nearest import nearest

EPSILON = 1.0
RECORDS = 10**11  # n
DIAMETER = 1.0  # r
RANK, ANTICONCENTRATION = 1.0, 1.5  # lambda and c of `ThreeSteps`
FAILURE = 0.1  # beta
NEAREST = 400 * DIAMETER * RANK / ANTICONCENTRATION  # the least R that the theorem allows


@dataclass(frozen=True, eq=False)
class ThreeSteps:
    """VariationAPI(y, s^2) on a line: a step of -sqrt(1.5) s, 0 or sqrt(1.5) s, each with probability 1/3.

    Mean y and variance s^2. A line has effective rank 1. Towards either side P(step >= sqrt(1.5) s) = 1/3, so every
    point is reachable from every other with anticoncentration c = 3/2, the largest that holds for both sides.
    """

    start: StartFromSet

    def random(self, count: int, rng: np.random.Generator) -> Points:
        """Draw the start."""
        return self.start.random(count, rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Points:
        """Step once from each sample."""
        steps = np.sqrt(ANTICONCENTRATION * scales) * rng.integers(-1, 2, size=len(samples))
        varied: Points = (samples + steps[:, None]).astype(np.float32)
        return varied


@dataclass(frozen=True, eq=False)
class RepeatedElectorate:
    """Private values on a line, each held by many records that vote alike: the cost is that of the distinct values."""

    values: Points  # (p, 1), distinct
    records: Counts  # (p,), how many records have each value

    @property
    def dimension(self) -> int:
        """A line has one."""
        return 1

    @property
    def votes_per_unit(self) -> int:
        """A record casts one vote."""
        return 1

    @property
    def unit(self) -> str:
        """What one privacy unit is."""
        return "record"

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset by its values and how many records have each."""
        pairs = zip(self.values, self.records, strict=True)
        return dataset_fingerprint((value.tobytes() + count.tobytes() for value, count in pairs), salt)

    def count(self, candidates: Points, turn: int) -> Counts:  # noqa: ARG002  (the same in every round)
        """Count the votes (Algorithm 2). Private: for `release_votes` only."""
        first = np.sort(np.unique(candidates, return_index=True)[1])  # of coinciding candidates the first wins anyway
        counts = np.zeros(len(candidates), dtype=np.int64)
        np.add.at(counts, first[nearest(self.values, candidates[first])], self.records)
        return counts


@dataclass(frozen=True)
class Merged(Selection):
    """The survivors, and how many places had a candidate above the threshold."""

    places: int
    swaps: int


@dataclass(frozen=True)
class MergedGape:
    """GAPE's selector where many candidates coincide: the same local search, on places instead of candidates.

    The truncated distance is a metric, so weights in one place cancel or add up at no cost, and the objective of a
    selection is that of the places with their summed weights. What can be selected is, as before, a place with one
    candidate above the threshold. Of candidates in one place the first above it is returned, and the others never: a
    second one cannot lower the objective.
    """

    separation: float
    threshold: float

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the search is deterministic)
    ) -> Merged:
        """Select by local search, until no swap of places lowers the objective."""
        above = np.flatnonzero(votes > self.threshold)
        if not len(above) or votes.sum() < 0:
            return Merged(np.array([np.argmax(votes)]), places=0, swaps=0)
        places, of = np.unique(points[:, 0], return_inverse=True)
        weights = np.bincount(of, weights=votes, minlength=len(places))
        candidates, first = np.unique(of[above], return_index=True)
        start = np.argsort(-weights[candidates], kind="stable")[:size]
        if len(candidates) <= size:
            return Merged(above[first[start]], len(candidates), swaps=0)
        search = Search(signed_points(places[:, None], weights, self.separation), candidates, start)
        search.run(certify=True)
        return Merged(above[first[search.best[0]]], len(candidates), search.swaps)


@dataclass(frozen=True)
class MergedKMedoids:
    """K-medoids where many candidates coincide: their positive votes add up, and the cost is the same."""

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the start is deterministic)
    ) -> Selection:
        """Select by clustering the places."""
        places, first, of = np.unique(points[:, 0], return_index=True, return_inverse=True)
        weights = np.bincount(of, weights=np.maximum(votes, 0), minlength=len(places))
        return Selection(first[k_medoids(places[:, None], weights, min(size, len(places))).indices])


@dataclass(frozen=True)
class Instance:
    """Clusters on a line that satisfy every condition of the theorem.

    All clusters but the last have the least size that the theorem allows, in `light` distinct values each; the last has
    the rest of the records, in `heavy` distinct values. With a `fraction` below 1 they have that much of the least
    size, which the theorem does not cover.
    """

    name: str
    clusters: int
    samples: int  # m
    separation: float  # R
    light: int
    heavy: int
    near: bool = False  # S(0) lies inside the clusters; otherwise between 0.1 R and R/8 away
    gap: float = 1.0  # between neighbouring clusters, in R
    fraction: float = 1.0

    @property
    def bound(self) -> float:
        """A cluster is kept if every record of it has a sample within what the theorem promises."""
        return self.theory.coverage

    @cached_property
    def theory(self) -> GapePlan:
        """What the theorem sets and promises, with what it finds violated."""
        return self._theory(self.sizes[0])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Records of every cluster."""
        size = math.floor(self.fraction * self._theory(None).least_cluster) + 1
        rest = RECORDS - (self.clusters - 1) * size
        if rest < size:
            raise InputError(
                f"{self.clusters} clusters of {size:,} records each are more than {RECORDS:,}; ask for more samples"
            )
        return (*(size,) * (self.clusters - 1), rest)

    def _theory(self, smallest: int | None) -> GapePlan:
        return plan_gape(
            RECORDS,
            EPSILON,
            usual_delta(RECORDS),
            samples=self.samples,
            separation=self.separation,
            diameter=DIAMETER,
            effective_rank=RANK,
            anticoncentration=ANTICONCENTRATION,
            failure_probability=FAILURE,
            smallest_cluster=smallest,
        )

    @property
    def left_ends(self) -> Floats:
        """Where the clusters begin, (clusters,); between them is the gap and a little, for float32 to round away."""
        return np.arange(self.clusters, dtype=np.float64) * (self.gap * self.separation + 1.01 * DIAMETER)

    @cached_property
    def values(self) -> tuple[Points, ...]:
        """The distinct values of every cluster, (p, 1) each, evenly over nearly its diameter."""
        counts = [self.light] * (self.clusters - 1) + [self.heavy]
        return tuple(
            (left + np.linspace(0.0, 0.999 * DIAMETER, count))[:, None].astype(np.float32)
            for left, count in zip(self.left_ends, counts, strict=True)
        )

    def electorate(self) -> RepeatedElectorate:
        """Return the records: those of a cluster divided evenly over its values."""
        records = []
        for size, values in zip(self.sizes, self.values, strict=True):
            each, more = divmod(size, len(values))
            records.append(np.full(len(values), each) + (np.arange(len(values)) < more))
        return RepeatedElectorate(np.concatenate(self.values), np.concatenate(records))

    def first_samples(self, rng: np.random.Generator) -> Points:
        """Draw S(0), (m, 1): the clusters take turns, and every one has a sample within R/8."""
        left = self.left_ends[np.arange(self.samples) % self.clusters]
        if self.near:
            return (left + rng.uniform(0.0, DIAMETER, self.samples))[:, None].astype(np.float32)
        away = rng.uniform(0.1, 0.124, self.samples) * self.separation
        on_right = rng.random(self.samples) < 0.5
        return np.where(on_right, left + DIAMETER + away, left - away)[:, None].astype(np.float32)

    def preset(self, seed: int) -> Preset:
        """Return GAPE as the theorem sets it; refused where a condition is violated, unless that is the point."""
        return gape_with_guarantee(self.theory, without_guarantee=self.fraction < 1, seed=seed)

    def coverage(self, samples: Samples) -> Floats:
        """Return the distance of the worst record of every cluster to its nearest sample, (clusters,)."""
        return np.array([np.abs(values - samples[:, 0]).min(axis=1).max() for values in self.values])

    def run(self, method: str, seed: int) -> Floats:
        """Run once with the preset's plan; return the coverage of every cluster in every round, (T + 1, clusters)."""
        preset = self.preset(seed)
        start = StartFromSet(self.first_samples(np.random.default_rng([seed, *b"start"])))
        parts = (ThreeSteps(start), IdentityEmbedder(), self.electorate(), rule(method, preset.selector))
        with free_account() as account:
            states = evolve(preset.plan, *parts, account, noise=SeededNoise(seed))
            return np.array([self.coverage(state.synthetic) for state in states if state.proposal is None])


def rule(method: str, preset: Selector) -> Selector:
    """Return a selection rule by name; GAPE's is the preset's, on places."""
    if method == "GAPE" and isinstance(preset, Gape):
        return MergedGape(preset.separation, preset.threshold)
    others: dict[str, Selector] = {"Ranking": Ranking(), "Subsampling": Subsampling(), "K-medoids": MergedKMedoids()}
    return others[method]


PAIR = Instance("pair", 2, 17, NEAREST, light=30, heavy=17, near=True, gap=20.0)
FIVE = Instance("five", 5, 64, 1000.0, light=3, heavy=3)
COVERED = (PAIR, FIVE)
BELOW = tuple(replace(PAIR, name=f"pair at {fraction:g}", fraction=fraction) for fraction in (1e-2, 1e-4, 1e-6))
