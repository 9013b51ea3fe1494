"""Signal against noise: what the noisy votes of a round say, computed from them and from sigma alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gape.core.types import Floats, NoisyVotes
from gape.runs.record import Round

LEVELS = (1, 2, 3)  # in sigmas

_BINS = 40  # at most
_LOWEST = -4.0  # in sigmas; lower votes count into the first bin
_HIGHEST = 36.0  # at most, in sigmas; higher votes count into the last bin


@dataclass(frozen=True)
class Signal:
    """The noisy votes of one round, measured by their noise."""

    candidates: int
    above: tuple[int, ...]  # candidates with more than 1, 2, 3 sigma; without noise, with any vote at all
    by_noise: tuple[float, ...]  # how many noise alone would put there
    effective: float | None  # candidates that share the votes, as if evenly; None where noise hides it
    edges: Floats  # of the histogram, in votes
    counts: Floats  # per bin
    noise: Floats | None  # expected per bin, had there been no votes at all


def measure(each: Round, sigma: float, edges: Floats) -> Signal:
    """Measure a round; `edges` are those of all rounds, so that their histograms can be compared."""
    votes, v = each.votes, len(each.votes)
    counts = np.histogram(np.clip(votes, edges[0], edges[-1]), edges)[0].astype(np.float64)
    if not sigma:
        return Signal(v, (int((votes > 0).sum()),), (0.0,), effective_candidates(votes, sigma), edges, counts, None)
    expected = v * np.diff([0.0, *(_below(edge / sigma) for edge in edges[1:-1]), 1.0])
    return Signal(
        candidates=v,
        above=tuple(int((votes > level * sigma).sum()) for level in LEVELS),
        by_noise=tuple(v * (1.0 - _below(level)) for level in LEVELS),
        effective=effective_candidates(votes, sigma),
        edges=edges,
        counts=counts,
        noise=expected,
    )


def measure_all(rounds: tuple[Round, ...], sigma: float) -> list[Signal]:
    """Measure every round, over the same bins."""
    edges = _edges(rounds, sigma)
    return [measure(each, sigma, edges) for each in rounds]


def effective_candidates(votes: NoisyVotes, sigma: float) -> float | None:
    """Estimate (sum of votes)^2 / sum of squared votes: how many candidates would share the votes, if evenly.

    Noise adds v sigma^2 to the sum of squares on average, which is taken off again. None where what is left is within
    two standard deviations of that noise, or where the votes do not even sum to something above theirs.
    """
    w = votes.astype(np.float64)
    v = len(w)
    squares = float(w @ w) - v * sigma**2
    total = float(w.sum())
    if squares <= 2 * math.sqrt(2 * v) * sigma**2 or total <= 2 * math.sqrt(v) * sigma:
        return None
    return min(float(v), max(1.0, total**2 / squares))


def _edges(rounds: tuple[Round, ...], sigma: float) -> Floats:
    """Return edges between whole votes, so that every bin holds equally many numbers of votes."""
    most = max(float(each.votes.max()) for each in rounds)
    low, high = (_LOWEST * sigma, min(max(most, 6 * sigma), _HIGHEST * sigma)) if sigma else (0.0, most)
    width = max(1, round(sigma / 2), math.ceil((high - low) / _BINS))
    first = math.floor(low) - 0.5
    return first + width * np.arange(math.ceil((high + 0.5 - first) / width) + 1, dtype=np.float64)


def _below(sigmas: float) -> float:
    """The share of a Gaussian below so many sigmas; the discrete one differs by less than can be drawn."""
    return 0.5 * math.erfc(-sigmas / math.sqrt(2))
