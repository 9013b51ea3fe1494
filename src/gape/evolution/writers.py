"""Several writers: who writes which candidate, by the noisy votes that their texts got. Post-processing, at no cost."""

from dataclasses import dataclass

import numpy as np

from gape.core.protocols import Generator, SharedGenerator
from gape.core.types import Floats, Indices, NoisyVotes, Samples

EVEN = 0.2  # part of the candidates that is divided equally, so that each writer can still win votes


@dataclass(frozen=True)
class Judged:
    """Candidates of a round that has voted: who wrote them, and their noisy votes."""

    authors: Indices  # (v,)
    scales: Floats  # (v,); 0 for a sample that was kept
    votes: NoisyVotes  # (v,)


def start(generator: Generator, count: int, rng: np.random.Generator) -> tuple[Samples, Indices | None]:
    """Return random samples and, if there are several writers, who wrote each: equally many by all."""
    if not isinstance(generator, SharedGenerator):
        return generator.random(count, rng), None
    authors = assigned(_equal(generator.writers), count, rng)
    return generator.write(authors, rng), authors


def varied(
    generator: Generator, samples: Samples, scales: Floats, judged: Judged | None, rng: np.random.Generator
) -> tuple[Samples, Indices | None]:
    """Return a variation of each sample and, if there are several writers, who wrote each."""
    if not isinstance(generator, SharedGenerator):
        return generator.vary(samples, scales, rng), None
    shares = _equal(generator.writers) if judged is None else shares_of(judged, generator.writers)
    authors = assigned(shares, len(samples), rng)
    return generator.rewrite(samples, scales, authors, rng), authors


def shares_of(judged: Judged, writers: int) -> Floats:
    """Return the share of each writer, (writers,): `EVEN` of all equally, the rest by the mean votes of its new texts.

    Kept samples do not count, because only good ones are kept. A negative mean counts as zero. If all are zero, the
    shares are equal.
    """
    new = judged.scales > 0 if (judged.scales > 0).any() else np.ones(len(judged.scales), dtype=bool)
    authors = judged.authors[new]
    written = np.bincount(authors, minlength=writers)
    votes = np.bincount(authors, weights=judged.votes[new], minlength=writers)
    means = np.maximum(votes / np.maximum(written, 1), 0.0)
    if not means.any():
        return _equal(writers)
    shares: Floats = EVEN * _equal(writers) + (1 - EVEN) * means / means.sum()
    return shares


def assigned(shares: Floats, count: int, rng: np.random.Generator) -> Indices:
    """Give each of `count` candidates a writer, (count,), at random, in these shares rounded by largest remainders."""
    whole = np.floor(shares * count).astype(np.int64)
    largest = np.argsort(whole - shares * count, kind="stable")[: count - int(whole.sum())]
    whole[largest] += 1
    authors: Indices = rng.permutation(np.repeat(np.arange(len(shares)), whole))
    return authors


def _equal(writers: int) -> Floats:
    return np.full(writers, 1 / writers)
