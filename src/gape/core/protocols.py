"""The four replaceable parts of a run: generator, embedder, electorate and selector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gape.core.types import Counts, Floats, Indices, NoisyVotes, Points, Samples


class Generator(Protocol):
    """A generative model behind two calls. It never sees anything private."""

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` unconditional samples (the paper's RandomAPI)."""
        ...

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Write one variation of each sample, at its own scale s^2 (the paper's VariationAPI(y, s^2)).

        All candidates of a round are requested in one call, so that a model can use batches as large as it can hold.
        """
        ...


@runtime_checkable
class AnnealedGenerator(Generator, Protocol):
    """A generator whose variations become smaller from round to round."""

    def annealed_at(self, progress: float) -> Generator:
        """Return the generator for a round before which a share `progress` of the rounds, in [0, 1), is done."""
        ...


@runtime_checkable
class SharedGenerator(Generator, Protocol):
    """Several writers in one generator. A run decides who writes which candidate."""

    @property
    def writers(self) -> int:
        """The number of writers."""
        ...

    def write(self, authors: Indices, rng: np.random.Generator) -> Samples:
        """Draw one sample by each of these writers, (count,), given by their indices."""
        ...

    def rewrite(self, samples: Samples, scales: Floats, authors: Indices, rng: np.random.Generator) -> Samples:
        """Write one variation of each sample, by the writer given for it."""
        ...


@runtime_checkable
class ConditionalGenerator(Generator, Protocol):
    """A generator that can write samples with given values, such as texts of a label."""

    def vary_to(
        self, samples: Samples, scales: Floats, wanted: Sequence[Mapping[str, str]], rng: np.random.Generator
    ) -> Samples:
        """Write one variation of each sample with the values in `wanted`, by column; all other columns are free."""
        ...


class Questions(Protocol):
    """The public questions of one release of a survey. Each answer of a record is one count in a bin of its own."""

    @property
    def per_record(self) -> int:
        """Number of answers that a record gives."""
        ...

    @property
    def bins(self) -> int:
        """Number of counts."""
        ...

    @property
    def digest(self) -> str:
        """Identify the questions."""
        ...

    def encode(self, content: Samples | None, points: Points) -> Any:
        """Return what all questions of the survey ask about, one entry per record. A record affects only its own.

        Records are given by their content, None if only their embeddings are held, and by their embeddings, (n, d).
        """
        ...

    def tally(self, encoded: Any) -> Counts:
        """Count the answers of encoded records, (bins,). Private: for `release_answers` only."""
        ...


@runtime_checkable
class SurveyGenerator(Generator, Protocol):
    """A generator that first asks the records public questions, in one or more releases, and writes by the answers."""

    def questions(self, answers: Sequence[NoisyVotes], sigma: float, most: int) -> Questions:
        """Return the questions of the next release, given the noisy answers to those before.

        A record may give at most `most` answers.
        """
        ...

    def informed(self, answers: Sequence[NoisyVotes], sigma: float) -> Generator:
        """Return the generator that knows the noisy answers to all releases."""
        ...


@runtime_checkable
class TopicGenerator(Generator, Protocol):
    """A generator whose random samples are about public topics, and that can favour some of them."""

    def topics(self) -> Samples:
        """Return one public sample that stands for each topic, (k, ...)."""
        ...

    def favouring(self, shares: Floats) -> Generator:
        """Return the generator that draws topics with these probabilities, (k,)."""
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
        """Dimension d of the embeddings it compares."""
        ...

    @property
    def votes_per_unit(self) -> int:
        """Maximum number of votes one privacy unit casts per round, each for a different candidate."""
        ...

    @property
    def unit(self) -> str:
        """Name of the privacy unit in the privacy statement: "record", "user", ..."""
        ...

    def fingerprint(self, salt: bytes) -> str:
        """Identify the private dataset under a salt, independently of the order of its records."""
        ...

    def count(self, candidates: Points, turn: int) -> Counts:
        """Count the exact votes of round `turn`, (v,). Private: for `release_votes` only."""
        ...


@runtime_checkable
class Respondents(Electorate, Protocol):
    """An electorate whose records can also answer the questions of a survey."""

    def answer(self, questions: Questions, turn: int) -> Counts:
        """Count the exact answers of one record per unit, (bins,). Private: for `release_answers` only."""
        ...


@runtime_checkable
class NoisyElectorate(Electorate, Protocol):
    """An electorate that returns votes with noise already added: exact counts exist nowhere, and `count` raises."""

    @property
    def secure(self) -> bool:
        """Whether nobody can predict or repeat the noise. Otherwise the run is not private."""
        ...

    def noisy_count(self, candidates: Points, turn: int, sigma: float) -> NoisyVotes:
        """Return the votes of round `turn`, (v,), with noise at least as strong as N_Z(0, sigma^2) on each."""
        ...


@dataclass(frozen=True)
class Selection:
    """The survivors of a round. Algorithms add their diagnostics as further fields."""

    indices: Indices  # into the candidates; may repeat if a rule draws with replacement
    # Votes that each survivor is believed to have, (m,), for the next round; None if the rule remembers nothing.
    believed: Floats | None = field(default=None, kw_only=True)
    # Noisy votes of each survivor's label in all rounds so far, (m,); None if the rule knows no labels.
    label_votes: Floats | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Candidates:
    """What is known of the candidates of a round beside their embeddings. All of it is public."""

    samples: Samples  # (v, ...)
    scales: Floats  # (v,): the scale s^2 of the variation; 0 marks a sample that was kept
    before: Floats | None = None  # (v,): votes that the sample it varies was believed to have in the round before
    label_votes: Floats | None = None  # (v,): noisy votes of its label in all rounds before, if the rule knows labels

    def take(self, members: Indices) -> "Candidates":
        """Return some of the candidates."""
        before = None if self.before is None else self.before[members]
        label_votes = None if self.label_votes is None else self.label_votes[members]
        return Candidates(self.samples[members], self.scales[members], before, label_votes)


class Selector(Protocol):
    """Picks at most `size` survivors from the noisy votes. This is post-processing, with no privacy cost."""

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
        """Select from the candidates at `points`, (v, d), with noisy `votes`, (v,)."""
        ...


@runtime_checkable
class InformedSelector(Selector, Protocol):
    """A selector that also looks at the candidates themselves and at what earlier votes said of them."""

    def among(self, candidates: Candidates) -> Selector:
        """Return the rule for these candidates."""
        ...
