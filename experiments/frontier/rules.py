"""Rules of selection that were tried: votes of earlier rounds remembered, and survivors chosen for W1 itself.

They know how `evolve` orders candidates (the samples first, then one block of variations for each scale), and keep what
they remember in the object, so they serve one run in one process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from gape.core.copies import Distinct
from gape.core.protocols import Candidates, Selection, Selector
from gape.core.types import Floats, Indices, NoisyVotes, Points, as_samples, texts_of
from gape.generators.labels import PerLabel
from gape.selection.local_search import CENTRES, QUALIFIED, local_search, threshold_for
from gape.selection.regions import by_region
from gape.selection.seats import fill_distinct_seats
from gape.voting.nearest import nearest

_ITERATIONS, _SMOOTHING, _SINKHORN = 8, 0.02, 120


@dataclass
class Tried:
    """A rule made of parts: which votes it believes, and how it picks survivors by them."""

    name: str  # "rank", "gape", "regions-share" or "balanced"
    sigma: float
    scales: tuple[float, ...]
    remember: bool = False
    spread: float | None = None  # distance of records from the candidate they vote for; None: as between candidates
    spare: float = 2.0  # candidates that qualify, in multiples of m
    centres: float = 0.5
    distinct: bool = True
    labels: tuple[str, ...] | None = None
    memory: Floats | None = field(default=None, repr=False)

    def among(self, candidates: Candidates) -> Selector:
        """Return the rule for these candidates."""
        samples = candidates.samples

        def select(votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
            weights = self._believed(np.asarray(votes, dtype=np.float64))
            if self.labels is None:
                chosen = self._pick(weights, points, size, texts_of(samples))
            else:
                inner = replace(self, remember=False, labels=None)
                rule = PerLabel(inner, self.labels).among(candidates)
                chosen = rule(weights, points, size, rng).indices  # type: ignore[arg-type]
            self.memory = weights[chosen]
            return Selection(chosen)

        return select

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
        """Select among candidates whose texts are not known."""
        unknown = as_samples([str(index) for index in range(len(votes))])
        return self.among(Candidates(unknown, np.zeros(len(votes))))(votes, points, size, rng)

    def _believed(self, votes: Floats) -> Floats:
        if not self.remember:
            return votes
        if self.memory is None or len(votes) != len(self.memory) * (1 + len(self.scales)):
            return _shrunk(votes, np.zeros(len(votes)), self.sigma)
        m = len(self.memory)
        kind = np.repeat([0.0, *self.scales], m)
        parents = np.tile(self.memory, 1 + len(self.scales))
        believed = np.empty(len(votes))
        for scale in np.unique(kind):
            own = kind == scale
            believed[own] = _shrunk(votes[own], parents[own], self.sigma)
        return believed

    def _pick(self, weights: Floats, points: Points, size: int, texts: Sequence[str]) -> Indices:
        positive = np.maximum(weights, 0.0)
        if self.name == "rank":
            return _first(weights, size, texts if self.distinct else None)
        if self.name == "gape":
            return self._search(positive, points, size, texts)
        if self.name == "regions-share":
            return self._by_share(positive, points, size, texts)
        pool = _first(weights, int(self.spare * size), texts if self.distinct else None)
        demand = np.flatnonzero(positive > 0)
        squares = np.maximum(2 - 2 * points[demand] @ points[pool].T, 0.0)
        if self.spread is None:
            among = np.maximum(2 - 2 * points[pool] @ points[pool].T, 0.0)
            np.fill_diagonal(among, np.inf)
            far = float(np.median(among.min(axis=1)))
        else:
            far = self.spread**2
        return pool[
            balanced(np.sqrt(squares + far).astype(np.float32), positive[demand], np.arange(min(size, len(pool))))
        ]

    def _search(self, weights: Floats, points: Points, size: int, texts: Sequence[str]) -> Indices:
        threshold = 0.0 if self.remember else self.sigma
        wanted = int(self.spare * size)
        if self.remember or (weights > threshold).sum() < wanted:
            threshold = max(0.0, float(np.nextafter(np.sort(weights)[::-1][wanted - 1], -np.inf)))
        sought = int(np.ceil(self.centres * size))
        found = local_search(points, weights, sought, separation=np.inf, threshold=threshold)
        return fill_distinct_seats(points, weights, found.indices, size, texts)[0]

    def _by_share(self, weights: Floats, points: Points, size: int, texts: Sequence[str]) -> Indices:
        """Seat the candidate with the most votes of each region, and fill by the votes of regions, not by rank."""
        threshold = threshold_for(weights, max(int(self.spare * size), QUALIFIED))
        found = local_search(points, weights, min(CENTRES, size), separation=np.inf, threshold=threshold)
        regions = nearest(points, points[found.indices])
        first = by_region(weights, regions)[: len(np.unique(regions))]
        return fill_distinct_seats(points, weights, first, size, texts)[0]


def _shrunk(votes: Floats, before: Floats, sigma: float) -> Floats:
    """Predict votes from those of the parent before, and believe what deviates as far as it exceeds the noise."""
    mean = max(float(votes.mean()), 0.0)
    spread = float(before.var())
    slope = max(0.0, float(np.mean((before - before.mean()) * (votes - votes.mean()))) / spread) if spread > 0 else 0.0
    predicted = mean + slope * (before - before.mean())
    noise = sigma**2 + mean
    signal = max(0.0, float((votes - predicted).var()) - noise)
    trust = signal / (signal + noise) if signal > 0 else 0.0
    believed: Floats = np.maximum(predicted + trust * (votes - predicted), 0.0)
    return believed


def _first(weights: Floats, size: int, texts: Sequence[str] | None) -> Indices:
    """Return the candidates with the largest weights, without near copies if there are enough."""
    order = np.argsort(-weights, kind="stable")
    if texts is None:
        return order[:size]
    seen, chosen, copies = Distinct(), list[int](), list[int]()
    for index in order:
        (chosen if seen.take(texts[index]) else copies).append(int(index))
        if len(chosen) == size:
            break
    return np.array((chosen + copies)[:size], dtype=np.int64)


def balanced(costs: Floats, weights: Floats, start: Indices) -> Indices:
    """Choose as many columns as `start` has so that transporting `weights` evenly to them is cheap.

    costs: (v, q), weights: (v,). Alternates between the transport plan of the chosen columns and, for each of them, the
    column that would be cheapest for what it is sent, until that stops paying.
    """
    shares = (weights / weights.sum()).astype(np.float32)
    chosen, best, least = start, start, np.inf
    for _ in range(_ITERATIONS):
        plan = _transport(costs[:, chosen], shares)
        cost = float((plan * costs[:, chosen]).sum())
        if cost >= least * (1 - 1e-4):
            break
        best, least = chosen, cost
        of_each = plan.T @ costs  # (m, q): what the share of each would cost at every column
        _, chosen = linear_sum_assignment(of_each)
    return best


def _transport(costs: Floats, shares: Floats) -> Floats:
    """Return an almost optimal transport plan from shares, (v,), to equal parts, (m,)."""
    m = costs.shape[1]
    kernel = np.exp(-(costs - costs.min(axis=1, keepdims=True)) / _SMOOTHING).astype(np.float32)
    to = np.full(m, 1 / m, dtype=np.float32)
    scale = np.ones(m, dtype=np.float32)
    for _ in range(_SINKHORN):
        rows = shares / np.maximum(kernel @ scale, 1e-30)
        scale = to / np.maximum(rows @ kernel, 1e-30)
    rows = shares / np.maximum(kernel @ scale, 1e-30)
    plan: Floats = rows[:, None] * kernel * scale
    return plan
