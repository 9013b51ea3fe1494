"""Subsampling selection (SubsamplePE; Lin et al. 2024)."""

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Selection
from gape.core.types import NoisyVotes, Points


@dataclass(frozen=True)
class SubsamplingResult(Selection):
    """The draws, and whether they are uniform for lack of positive votes."""

    uniform: bool  # no noisy vote was positive, so the draws are uniform over all candidates


def subsampling(votes: NoisyVotes, size: int, rng: np.random.Generator) -> SubsamplingResult:
    """Draw `size` candidates with replacement, with probabilities proportional to max(votes, 0).

    If no noisy vote is positive, the draw is uniform over all candidates.
    """
    if size < 1 or not len(votes):
        raise InputError(
            f"subsampling needs a positive size and at least one candidate, got size {size} of {len(votes)}; use more"
        )
    weights = np.maximum(votes, 0).astype(np.float64)
    uniform = not weights.any()
    probabilities = None if uniform else weights / weights.sum()
    drawn = rng.choice(len(votes), size=size, replace=True, p=probabilities)
    return SubsamplingResult(drawn.astype(np.int64), uniform=uniform)


@dataclass(frozen=True)
class Subsampling:
    """SubsamplePE's selector: m independent draws from the noisy histogram."""

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,  # noqa: ARG002  (subsampling ignores geometry, which is the paper's point)
        size: int,
        rng: np.random.Generator,
    ) -> SubsamplingResult:
        """Select by drawing."""
        return subsampling(votes, size, rng)
