"""Regions of the embedding, as clusters of candidates: their share of the noisy votes against that of the samples."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import kmeans2, vq

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, NoisyVotes, Points

_FEWEST, _MOST = 2, 12  # regions
_SAMPLES_PER_REGION = 8
_LLOYD = 25  # iterations of k-means
_WORDS = 3  # number of words that describe a region
_WORD = re.compile(r"[^\W\d_]{4,}")
_COMMON = 0.2  # words in more than this share of all texts describe nothing
_DEVIATIONS = 2.0  # of the noise: smaller differences are not significant


@dataclass(frozen=True)
class Region:
    """A cluster of candidates."""

    words: tuple[str, ...]  # that distinguish it from the others; none for vectors
    typical: str  # the sample nearest to its centre, or the nearest candidate if it has no sample
    votes: float  # share of the noisy votes; may be negative
    error: float  # two standard deviations of that share
    samples: float  # share of the samples
    real: float | None = None  # share of the private points; only in an internal report
    pictured: bool = False  # whether `typical` is a picture

    @property
    def verdict(self) -> str:
        """Whether samples are missing or in excess, as far as the noise allows a verdict."""
        gap = self.samples - self.votes
        if abs(gap) <= self.error:
            return "within noise"
        return "underrepresented" if gap < 0 else "overrepresented"


@dataclass(frozen=True)
class Voted:
    """The embedded candidates of the last round: all of them, or a random sample."""

    points: Points  # (c, d)
    texts: Sequence[str]  # (c,)
    votes: NoisyVotes  # (c,)
    share: float  # of all candidates of the round
    pictured: bool = False  # whether the texts are pictures, as `data:` URLs


@dataclass(frozen=True)
class Regions:
    """Clusters of the candidates, the largest lack of samples first; none if noise hides even the total of votes."""

    clusters: tuple[Region, ...]
    candidates: int  # that were clustered
    share: float  # of all candidates of the round


def find_regions(
    voted: Voted, samples: Points, texts: Sequence[str], sigma: float, seed: int, private: Points | None = None
) -> Regions:
    """Cluster the candidates by k-means and compare shares; `samples`, (m, d), and their `texts` are S(T).

    A sum of c votes has variance c sigma^2, plus that of sampling if only some candidates were embedded. A share s of
    the total has (1 - s)^2 times the variance of its own votes plus s^2 times that of all others, over the squared
    total.
    """
    total = float(voted.votes.sum())
    if total <= _DEVIATIONS * sigma * math.sqrt(len(voted.votes)):
        return Regions((), len(voted.votes), voted.share)
    k = min(max(_FEWEST, len(samples) // _SAMPLES_PER_REGION), _MOST)
    centres = _centres(voted.points, k, np.random.default_rng([seed, *b"regions"]))
    of_candidate, of_sample = vq(voted.points, centres)[0], vq(samples, centres)[0]
    real = None if private is None else np.bincount(vq(private, centres)[0], minlength=len(centres)) / len(private)
    words = [()] * len(centres) if voted.pictured else _distinctive(voted.texts, of_candidate, len(centres))
    variance_of_all, clusters = _variance(voted.votes, sigma, voted.share), []
    for index, centre in enumerate(centres):
        votes = voted.votes[of_candidate == index]
        share, variance = float(votes.sum()) / total, _variance(votes, sigma, voted.share)
        spread = math.sqrt((1 - share) ** 2 * variance + share**2 * max(0.0, variance_of_all - variance))
        clusters.append(
            Region(
                words=words[index],
                typical=_typical(centre, index, (samples, texts, of_sample), (voted.points, voted.texts, of_candidate)),
                votes=share,
                error=_DEVIATIONS * spread / total,
                samples=float((of_sample == index).mean()),
                real=None if real is None else float(real[index]),
                pictured=voted.pictured,
            )
        )
    clusters.sort(key=lambda region: region.samples - region.votes)
    return Regions(tuple(clusters), len(of_candidate), voted.share)


def _centres(points: Points, k: int, rng: np.random.Generator) -> Floats:
    """Return at most k centres of k-means, each the nearest of some point."""
    k = min(k, len(np.unique(points, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a cluster without points, which is dropped
        centres, _ = kmeans2(points.astype(np.float64), k, iter=_LLOYD, minit="++", rng=rng)
    kept: Floats = centres[np.unique(vq(points, centres)[0])]
    return kept


def _variance(votes: NoisyVotes, sigma: float, share: float) -> float:
    """Return the variance of a sum of votes, from their noise and from sampling the candidates."""
    return len(votes) * sigma**2 + (1 - share) * float(np.sum(votes.astype(np.float64) ** 2))


def _typical(centre: Floats, cluster: int, *sources: tuple[Points, Sequence[str], Indices]) -> str:
    """Return the text nearest to a centre, from the first source with a member in the cluster."""
    for points, texts, assigned in sources:
        members = np.flatnonzero(assigned == cluster)
        if len(members):
            gaps = distances(points[members], centre[None, :])[:, 0]
            return texts[int(members[int(np.argmin(gaps))])]
    return ""


def _distinctive(texts: Sequence[str], assigned: Indices, k: int) -> list[tuple[str, ...]]:
    """Return for each cluster the words whose log-odds against the other texts are most significantly positive.

    A word counts once per text. Adding half a text to each count and dividing by the standard deviation excludes rare
    words; common words are excluded by `_COMMON`.
    """
    counts: list[Counter[str]] = [Counter() for _ in range(k)]
    for text, cluster in zip(texts, assigned, strict=True):
        counts[cluster].update(set(_WORD.findall(text.lower())))
    overall = sum(counts, Counter())
    sizes = np.bincount(assigned, minlength=k).tolist()
    words = []
    for count, size in zip(counts, sizes, strict=True):
        scored = [
            (-_z_score(inside, size, overall[word] - inside, len(texts) - size), word)
            for word, inside in count.items()
            if inside > 1 and overall[word] <= _COMMON * len(texts)
        ]
        words.append(tuple(word for score, word in sorted(scored)[:_WORDS] if score < -1))
    return words


def _z_score(inside: int, size: int, outside: int, others: int) -> float:
    """Return the log-odds ratio of a word inside and outside a cluster, in standard deviations."""
    a, b, c, d = inside + 0.5, size - inside + 0.5, outside + 0.5, others - outside + 0.5
    return math.log(a * d / (b * c)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
