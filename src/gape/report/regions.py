"""Which regions are thin: clusters of candidates, with their share of the noisy votes against that of the samples."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape._support.clustering import assign, k_means
from gape._support.geometry import distances
from gape.core.types import Floats, Indices, NoisyVotes, Points

_FEWEST, _MOST = 2, 12
_SAMPLES_PER_REGION = 8
_WORDS = 3
_WORD = re.compile(r"[^\W\d_]{4,}")
_COMMON = 0.2  # share of all texts from which on a word tells nothing
_SURE = 2.0  # standard deviations of the noise


@dataclass(frozen=True)
class Region:
    """A cluster of candidates."""

    words: tuple[str, ...]  # that tell it from the others; none for vectors
    typical: str  # the sample, or else the candidate, nearest to its centre
    votes: float  # share of the noisy votes; may be negative
    error: float  # what that share is sure to, within two standard deviations of the noise
    samples: float  # share of the samples
    real: float | None = None  # share of the private points; in an internal report alone

    @property
    def verdict(self) -> str:
        """Thin, full, or even, as far as the noise lets one say."""
        gap = self.samples - self.votes
        return "even" if abs(gap) <= self.error else "thin" if gap < 0 else "full"


@dataclass(frozen=True)
class Voted:
    """Candidates of the last round that were embedded: all of them, or some drawn at random."""

    points: Points  # (c, d)
    texts: Sequence[str]  # (c,)
    votes: NoisyVotes  # (c,)
    share: float  # of all candidates of the round


@dataclass(frozen=True)
class Regions:
    """Clusters of the candidates, the largest gap first; none where noise hides even the sum of all votes."""

    found: tuple[Region, ...]
    candidates: int  # on which they rest
    share: float  # of all candidates of the round


def find_regions(
    voted: Voted, samples: Points, texts: Sequence[str], sigma: float, seed: int, private: Points | None = None
) -> Regions:
    """Cluster the candidates by k-means and compare shares; `samples`, (m, d), and their `texts` are those of S(T).

    A sum of c votes has variance c sigma^2, and more where only some candidates were embedded, by the chance of which.
    A share s of the total then has (1 - s)^2 times that of its own votes plus s^2 times that of all others, over the
    squared total.
    """
    total = float(voted.votes.sum())
    if total <= _SURE * sigma * math.sqrt(len(voted.votes)):
        return Regions((), len(voted.votes), voted.share)
    k = min(max(_FEWEST, len(samples) // _SAMPLES_PER_REGION), _MOST)
    centres = k_means(voted.points, k, np.random.default_rng([seed, *b"regions"]))
    own, near = assign(voted.points, centres)[0], assign(samples, centres)[0]
    real = None if private is None else np.bincount(assign(private, centres)[0], minlength=len(centres)) / len(private)
    words = _distinctive([voted.texts[i] for i in range(len(own))], own, len(centres))
    everything, found = _variance(voted.votes, sigma, voted.share), []
    for place, centre in enumerate(centres):
        inside = voted.votes[own == place]
        share, variance = float(inside.sum()) / total, _variance(inside, sigma, voted.share)
        spread = math.sqrt((1 - share) ** 2 * variance + share**2 * max(0.0, everything - variance))
        found.append(
            Region(
                words=words[place],
                typical=_typical(centre, place, (samples, texts, near), (voted.points, voted.texts, own)),
                votes=share,
                error=_SURE * spread / total,
                samples=float((near == place).mean()),
                real=None if real is None else float(real[place]),
            )
        )
    found.sort(key=lambda each: each.samples - each.votes)
    return Regions(tuple(found), len(own), voted.share)


def _variance(votes: NoisyVotes, sigma: float, share: float) -> float:
    """Return the variance of a sum of votes: that of their noise, and that of which candidates were drawn."""
    return len(votes) * sigma**2 + (1 - share) * float(np.sum(votes.astype(np.float64) ** 2))


def _typical(centre: Floats, place: int, *sources: tuple[Points, Sequence[str], Indices]) -> str:
    """Return the text nearest to a centre, from the first source that has any in its cluster."""
    for points, texts, own in sources:
        members = np.flatnonzero(own == place)
        if len(members):
            gaps = distances(points[members], centre[None, :])[:, 0]
            return texts[int(members[int(np.argmin(gaps))])]
    return ""


def _distinctive(texts: Sequence[str], own: Indices, k: int) -> list[tuple[str, ...]]:
    """Return for each cluster the words whose log-odds against the other texts are surest above zero.

    A word counts once a text. The odds get half a text on either side, and are measured by their standard deviation,
    so that rare words do not come out; nor do those of every fifth text or more.
    """
    inside: list[Counter[str]] = [Counter() for _ in range(k)]
    for text, place in zip(texts, own, strict=True):
        inside[place].update(set(_WORD.findall(text.lower())))
    everywhere = sum(inside, Counter())
    sizes = np.bincount(own, minlength=k)
    words = []
    for place in range(k):
        n, others = int(sizes[place]), len(texts) - int(sizes[place])
        scored = [
            (_surprise(has, n, everywhere[word] - has, others), word)
            for word, has in inside[place].items()
            if has > 1 and everywhere[word] <= _COMMON * len(texts)
        ]
        words.append(tuple(word for score, word in sorted(scored, key=lambda each: (-each[0], each[1])) if score > 1))
    return [each[:_WORDS] for each in words]


def _surprise(has: int, n: int, had: int, others: int) -> float:
    a, b, c, d = has + 0.5, n - has + 0.5, had + 0.5, others - had + 0.5
    return math.log(a * d / (b * c)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
