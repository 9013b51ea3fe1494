"""Texts from a public corpus. No model writes them, so all of them read well."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Embedder
from gape.core.types import Floats, Indices, Points, Samples, as_samples
from gape.voting.nearest import nearest

# Distances kept at once, in float64: 32 MB.
_BLOCK = 2**22

_TOPICS = 100  # texts that stand for topics; and at most one in _PER_TOPIC texts
_PER_TOPIC = 10


@dataclass(frozen=True, eq=False)
class CorpusText:
    """Draws random texts from the corpus; a variation is another text of the corpus, near the sample.

    A variation at scale s is uniform among the ceil((N - 1)^s) nearest of the corpus' N texts other than the sample:
    a few at scales near 0, and all of them at scale 1. Repeated texts of the corpus count once.
    """

    texts: Sequence[str]
    embedder: Embedder
    shares: Floats | None = field(default=None, repr=False)  # (N,), with which random texts are drawn; alike if None

    def __post_init__(self) -> None:
        if len(self._positions) < 2:
            raise InputError(f"a corpus needs at least 2 different texts, got {len(self._positions)}; give it more")

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` texts without replacement, starting over when the corpus is used up."""
        corpus = self._corpus
        rounds = -(-count // len(corpus))
        order = [self._shuffled(rng) for _ in range(rounds)]
        return corpus[np.concatenate(order)[:count]] if order else corpus[:0].copy()

    def topics(self) -> Samples:
        """Return some texts of the corpus, the same ones each time: a topic is the texts that are nearest to one."""
        count = max(1, min(_TOPICS, len(self._corpus) // _PER_TOPIC))
        return self._corpus[np.random.default_rng(0).permutation(len(self._corpus))[:count]]

    def favouring(self, shares: Floats) -> "CorpusText":
        """Return the generator that draws texts of these topics with these probabilities."""
        topic = nearest(self._points, self._embed(self.topics()))
        sizes = np.bincount(topic, minlength=len(shares))
        drawn = shares[topic] / sizes[topic]
        return replace(self, shares=drawn / drawn.sum())

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Draw one neighbour of each sample. Samples that are not in the corpus are embedded first."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 draws from the whole corpus")
        near = np.ceil(float(len(self._corpus) - 1) ** scales).astype(np.int64)
        ranks = rng.integers(near)
        points, own = self._embed(samples), self._own(samples)
        neighbours = np.empty(len(samples), dtype=np.int64)
        step = max(1, _BLOCK // len(self._corpus))
        for start in range(0, len(samples), step):
            rows = slice(start, start + step)
            away = distances(points[rows], self._points)
            inside = np.flatnonzero(own[rows] >= 0)
            away[inside, own[rows][inside]] = np.inf
            for i, rank in enumerate(ranks[rows]):
                neighbours[start + i] = np.argpartition(away[i], rank)[rank]
        return self._corpus[neighbours]

    def _shuffled(self, rng: np.random.Generator) -> Indices:
        """Draw an order of the texts, in which those with larger shares come sooner."""
        if self.shares is None:
            return rng.permutation(len(self._corpus))
        return np.argsort(rng.exponential(size=len(self.shares)) / self.shares)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {text: position for position, text in enumerate(dict.fromkeys(self.texts))}

    @cached_property
    def _corpus(self) -> Samples:
        return as_samples(list(self._positions))

    @cached_property
    def _points(self) -> Points:
        return self.embedder.embed(self._corpus)

    def _own(self, samples: Samples) -> Indices:
        """Return the position of each sample in the corpus, or -1 if it is not there."""
        return np.array([self._positions.get(text, -1) for text in samples], dtype=np.int64)

    def _embed(self, samples: Samples) -> Points:
        own = self._own(samples)
        points = self._points[own]
        if (elsewhere := own < 0).any():
            points[elsewhere] = self.embedder.embed(samples[elsewhere])
        return points
