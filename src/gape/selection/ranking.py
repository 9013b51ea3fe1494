"""Ranking selection (AugPE; Xie et al. 2024)."""

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Selection
from gape.core.types import Indices, NoisyVotes, Points


def ranking(votes: NoisyVotes, size: int) -> Indices:
    """Return the `size` candidates with the most noisy votes, most first, ties to the lowest index."""
    if not 1 <= size <= len(votes):
        raise InputError(
            f"ranking can select between 1 and {len(votes)} of {len(votes)} candidates, got size {size}; "
            "ask for fewer samples or make more candidates"
        )
    return np.argsort(-votes, kind="stable")[:size].astype(np.int64)


@dataclass(frozen=True)
class Ranking:
    """AugPE's selector: the m candidates with the most noisy votes."""

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,  # noqa: ARG002  (ranking ignores geometry, which is the paper's point)
        size: int,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Selection:
        """Select by rank."""
        return Selection(ranking(votes, size))
