"""The survey of texts: how many records are nearest to each of a list of public topics.

One release before the first round. A record answers with the topic whose point is nearest to its own, as in a vote. The
question is asked `times` times, each time with noise of its own, so that the mean has the noise sigma / sqrt(times):
survey and rounds have one sigma, and `times` is the share of the budget that the survey has. The noisy counts say from
which topics the random samples are drawn; that is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gape._support.fingerprint import points_digest, samples_digest
from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, TopicGenerator
from gape.core.types import Counts, Floats, NoisyVotes, Points, Samples
from gape.voting.nearest import nearest

EVEN = 0.1  # share of the random samples that are about all topics alike, so that none is lost in the noise


def times_for(share: float, votes: int) -> int:
    """Return how often to ask, at least once, so that a survey has a share of the budget beside `votes` per unit."""
    return max(1, round(share / (1 - share) * votes))


@dataclass(frozen=True, eq=False)
class NearestTopic:
    """Which topic is nearest to a record; asked `per_record` times."""

    points: Points  # of the topics, (k, d)
    per_record: int
    known_as: str = ""  # digest of the topics themselves, which other machines may embed slightly differently

    @property
    def bins(self) -> int:
        """The number of counts."""
        return self.per_record * len(self.points)

    @property
    def digest(self) -> str:
        """Identify the questions."""
        return f"{self.per_record} times: {self.known_as or points_digest(self.points)}"

    def encode(self, content: Samples | None, points: Points) -> Points:  # noqa: ARG002  (embeddings are asked for)
        """Return what the question asks about: the points of the records, (n, d)."""
        return points

    def tally(self, encoded: Points) -> Counts:
        """Count the records nearest to each topic, (bins,). Private: for `release_answers` only."""
        counts = np.bincount(nearest(encoded, self.points), minlength=len(self.points))
        return np.tile(counts.astype(np.int64), self.per_record)


@dataclass(frozen=True)
class TopicSurvey:
    """Asks each record for its nearest topic first, and then draws random samples about the topics of the answers."""

    writer: TopicGenerator
    embedder: Embedder | None = field(default=None, repr=False)  # of candidates; None if nothing is asked any more

    def questions(self, answers: Sequence[NoisyVotes], sigma: float, most: int) -> NearestTopic:  # noqa: ARG002  (one release)
        """Return the question of the only release, asked as often as a record may answer."""
        if self.embedder is None:
            raise InputError("a survey compares records with topics, and there is no embedder; give one")
        topics = self.writer.topics()
        return NearestTopic(self.embedder.embed(topics), most, samples_digest(topics))

    def informed(self, answers: Sequence[NoisyVotes], sigma: float) -> Generator:
        """Return the generator that draws topics by the noisy answers."""
        counts = answers[0].reshape(-1, len(self.writer.topics()))  # (times, k)
        return self.writer.favouring(topic_shares(counts.mean(axis=0), sigma / math.sqrt(len(counts))))

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw samples about all topics alike, because nothing was asked yet."""
        return self.writer.random(count, rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Return one variation of each sample."""
        return self.writer.vary(samples, scales, rng)


def topic_shares(counts: Floats, noise: float) -> Floats:
    """Estimate the share of each topic, (k,), from counts with Gaussian noise of this standard deviation.

    Counts are drawn towards their mean as far as the noise explains their spread (James and Stein), negative ones are
    taken for 0, and a tenth is divided equally.
    """
    even = np.full(len(counts), 1 / len(counts))
    mean = float(counts.mean())
    spread = float(((counts - mean) ** 2).mean())
    kept = max(0.0, 1 - noise**2 / spread) if spread > 0 else 0.0
    likely = np.maximum(mean + kept * (counts - mean), 0.0)
    if mean <= 0 or not likely.any():
        return even
    shares: Floats = (1 - EVEN) * likely / likely.sum() + EVEN * even
    return shares
