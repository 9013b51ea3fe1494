"""Texts from a public corpus. No model writes them, so all of them read well."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Embedder
from gape.core.types import Floats, Indices, Points, Samples, as_samples

# Distances kept at once, in float64: 32 MB.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class CorpusText:
    """Draws random texts from the corpus; a variation is another text of the corpus, near the sample.

    A variation at scale s is uniform among the ceil((N - 1)^s) nearest of the corpus' N texts other than the sample:
    a few at scales near 0, and all of them at scale 1. Repeated texts of the corpus count once.
    """

    texts: Sequence[str]
    embedder: Embedder

    def __post_init__(self) -> None:
        if len(self._positions) < 2:
            raise InputError(f"a corpus needs at least 2 different texts, got {len(self._positions)}; give it more")

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` texts without replacement, starting over when the corpus is used up."""
        corpus = self._corpus
        rounds = -(-count // len(corpus))
        order = [rng.permutation(len(corpus)) for _ in range(rounds)]
        return corpus[np.concatenate(order)[:count]] if order else corpus[:0].copy()

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
