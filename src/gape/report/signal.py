"""How far the noisy votes of a round stand out from the noise. Uses the noisy votes and sigma only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gape.core.types import Floats, NoisyVotes
from gape.runs.folder.record import Round

LEVELS = (1, 2, 3)  # in sigmas

_BINS = 40  # at most
_LOWEST = -4.0  # in sigmas; fewer votes count in the first bin
_HIGHEST = 36.0  # in sigmas; more votes count in the last bin


@dataclass(frozen=True)
class Signal:
    """The noisy votes of one round compared with their noise."""

    candidates: int
    above: tuple[int, ...]  # candidates above 1, 2, 3 sigma; without noise, candidates with at least one vote
    by_noise: tuple[float, ...]  # the number expected there from noise alone
    effective: float | None  # effective number of candidates; None if noise hides it
    edges: Floats  # of the histogram, in votes
    counts: Floats  # per bin
    noise: Floats | None  # expected per bin from noise alone


def measure(round_: Round, sigma: float, edges: Floats) -> Signal:
    """Measure a round. All rounds of a run share `edges`, so that their histograms are comparable."""
    votes, v = round_.votes, len(round_.votes)
    counts = np.histogram(np.clip(votes, edges[0], edges[-1]), edges)[0].astype(np.float64)
    if not sigma:
        return Signal(v, (int((votes > 0).sum()),), (0.0,), effective_candidates(votes, sigma), edges, counts, None)
    return Signal(
        candidates=v,
        above=tuple(int((votes > level * sigma).sum()) for level in LEVELS),
        by_noise=tuple(v * (1.0 - _below(level)) for level in LEVELS),
        effective=effective_candidates(votes, sigma),
        edges=edges,
        counts=counts,
        noise=v * np.diff([0.0, *(_below(edge / sigma) for edge in edges[1:-1]), 1.0]),
    )


def measure_all(rounds: tuple[Round, ...], sigma: float) -> list[Signal]:
    """Measure every round with the same bins."""
    edges = _bin_edges(rounds, sigma)
    return [measure(round_, sigma, edges) for round_ in rounds]


def effective_candidates(votes: NoisyVotes, sigma: float) -> float | None:
    """Estimate (sum of votes)^2 / sum of squared votes, the number of candidates that would share the votes evenly.

    Noise adds v sigma^2 to the sum of squares on average, which is subtracted. Returns None if the rest, or the sum of
    votes, is within two standard deviations of its noise.
    """
    w = votes.astype(np.float64)
    v = len(w)
    squares = float(w @ w) - v * sigma**2
    total = float(w.sum())
    if squares <= 2 * math.sqrt(2 * v) * sigma**2 or total <= 2 * math.sqrt(v) * sigma:
        return None
    return min(float(v), max(1.0, total**2 / squares))


def _bin_edges(rounds: tuple[Round, ...], sigma: float) -> Floats:
    """Return edges halfway between whole votes, so that every bin covers the same number of values."""
    highest = max(float(round_.votes.max()) for round_ in rounds)
    low, high = (_LOWEST * sigma, min(max(highest, 6 * sigma), _HIGHEST * sigma)) if sigma else (0.0, highest)
    width = max(1, round(sigma / 2), math.ceil((high - low) / _BINS))
    first = math.floor(low) - 0.5
    return first + width * np.arange(math.ceil((high + 0.5 - first) / width) + 1, dtype=np.float64)


def _below(sigmas: float) -> float:
    """Return the Gaussian distribution function; the discrete Gaussian differs by less than a chart can show."""
    return 0.5 * math.erfc(-sigmas / math.sqrt(2))
