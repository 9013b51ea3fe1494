"""The four parts of a run that can be exchanged: generator, embedder, electorate, selector."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from gape.core.types import Counts, Floats, Indices, NoisyVotes, Points, Samples


class Generator(Protocol):
    """A generative model reached by two calls; it never sees anything private."""

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` unconditional samples (the paper's RandomAPI)."""
        ...

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Write one variation of every sample, each at its own scale s^2 (the paper's VariationAPI(y, s^2)).

        All candidates of a round are asked for in one call, so that a model can write as many at once as it can hold.
        """
        ...


class Embedder(Protocol):
    """Maps samples into the Euclidean space where votes are cast."""

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per sample, (len(samples), d)."""
        ...


class Electorate(Protocol):
    """The private side: anything that can count votes. Its exact counts are read by `release_votes` alone."""

    @property
    def dimension(self) -> int:
        """Width d of the embeddings it compares."""
        ...

    @property
    def votes_per_unit(self) -> int:
        """The most votes one privacy unit casts in one round, each for another candidate."""
        ...

    @property
    def unit(self) -> str:
        """What one privacy unit is, as the privacy statement should name it: "record", "user", ..."""
        ...

    def fingerprint(self, salt: bytes) -> str:
        """Identify the private dataset under a salt, whatever the order of its records."""
        ...

    def count(self, candidates: Points, turn: int) -> Counts:
        """Count the exact votes of round `turn`, (v,). Private: for `release_votes` only."""
        ...


@runtime_checkable
class NoisyElectorate(Electorate, Protocol):
    """An electorate whose votes arrive with their noise: exact counts exist nowhere, and `count` refuses."""

    @property
    def secure(self) -> bool:
        """Whether nobody can predict or repeat the noise; a run with any other is not private."""
        ...

    def noisy_count(self, candidates: Points, turn: int, sigma: float) -> NoisyVotes:
        """Return the votes of round `turn` with noise that is worth N_Z(0, sigma^2) on each, (v,)."""
        ...


@dataclass(frozen=True)
class Selection:
    """The survivors of a round; algorithms add their diagnostics as further fields."""

    indices: Indices  # into the candidates; repeated where a rule draws with replacement


class Selector(Protocol):
    """Picks at most `size` survivors from the noisy votes: post-processing, free of privacy cost."""

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
        """Select from the candidates at `points`, (v, d), with noisy `votes`, (v,)."""
        ...


@runtime_checkable
class SampleSelector(Selector, Protocol):
    """A selector that also looks at what the candidates are, not only at where they lie."""

    def among(self, samples: Samples) -> Selector:
        """Return the rule for these candidates, (v, ...)."""
        ...
