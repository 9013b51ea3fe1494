"""Estimating true votes from the noisy votes of this round and from those of the previous round.

A survivor stays a candidate, and its variations resemble it, so the votes of the last round say something about those
of this round. Let y_i be the noisy votes of candidate i, and x_i the votes estimated for the sample that it varies.
Among the candidates of one scale (0 for kept samples) the model is that of Fay and Herriot (1979), with known noise:

    y_i = p_i + u_i + e_i,   p_i = mean(y) + b (x_i - mean(x)),   Var u_i = tau^2,   Var e_i = sigma^2 + mean(y),

where the second part of the noise is how much the votes of equally many other records would differ (Poisson). The best
linear estimate of the votes of other records is

    w_i = p_i + g (y_i - p_i),   g = tau^2 / (tau^2 + sigma^2 + mean(y)).

b >= 0 and tau are estimated from the noisy votes of each scale. If earlier votes say nothing, b is near 0; without
noise, g is near 1. Where a scale has too few candidates to estimate them, votes are taken as they are. All of it is
post-processing of released votes.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Candidates, InformedSelector, Selection, Selector
from gape.core.types import Floats, NoisyVotes, Points

_FEWEST = 20  # candidates of a scale by which b and tau can be estimated


@dataclass(frozen=True)
class Remembering:
    """Passes estimated votes to another selector, in place of the noisy ones.

    The estimates combine the noisy votes of a candidate with the estimate for the sample that it varies. Those of the
    survivors are returned with them, for the next round.
    """

    selector: Selector
    sigma: float  # the standard deviation of the noise

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise InputError(
                f"sigma must be finite and at least 0, got {self.sigma}; give the noise scale of the votes"
            )

    def among(self, candidates: Candidates) -> Selector:
        """Return the rule for these candidates."""
        inner = self.selector.among(candidates) if isinstance(self.selector, InformedSelector) else self.selector
        return partial(self._select, inner, candidates.scales, candidates.before)

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
        """Select as in a first round, where nothing is known of the candidates."""
        return self._select(self.selector, np.zeros(len(votes)), None, votes, points, size, rng)

    def _select(
        self,
        inner: Selector,
        scales: Floats,
        before: Floats | None,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,
    ) -> Selection:
        weights = believed_votes(votes, self.sigma, scales, before)
        selection = inner(cast(NoisyVotes, weights), points, size, rng)  # rules compare votes, whole or not
        return replace(selection, believed=weights[selection.indices])


def believed_votes(votes: NoisyVotes, sigma: float, scales: Floats, before: Floats | None) -> Floats:
    """Estimate the votes of each candidate, (v,), at least 0, as in this module's docstring.

    `before` has x_i, (v,), the votes that the sample it varies was believed to have; None in the first round.
    """
    noisy = votes.astype(np.float64)
    if before is None:
        scales, before = np.zeros(len(noisy)), np.zeros(len(noisy))
    kinds, sizes = np.unique(scales, return_counts=True)
    if sizes.min(initial=len(noisy)) < _FEWEST:
        return np.maximum(noisy, 0.0)
    believed = np.empty(len(noisy))
    for scale in kinds:
        own = scales == scale
        believed[own] = _estimate(noisy[own], before[own], sigma)
    return believed


def _estimate(votes: Floats, before: Floats, sigma: float) -> Floats:
    mean, deviations = max(float(votes.mean()), 0.0), before - before.mean()
    spread = float(np.mean(deviations**2))
    slope = max(0.0, float(np.mean(deviations * (votes - votes.mean()))) / spread) if spread > 0 else 0.0
    predicted = mean + slope * deviations
    noise = sigma**2 + mean
    signal = max(0.0, float(np.var(votes - predicted)) - noise)
    trust = signal / (signal + noise) if signal > 0 else 0.0
    estimated: Floats = np.maximum(predicted + trust * (votes - predicted), 0.0)
    return estimated
