"""How far a search goes, and how far it is."""

from dataclasses import dataclass
from enum import IntEnum

# Swaps must lower the objective by this share of it. A certificate is stated for 1e-9; the bounds round at 1e-13.
LEAST_GAIN = 1e-10


class Effort(IntEnum):
    """How far to go for one candidate. The cheap efforts come first, so that proofs are not made in vain."""

    FLOW_HELD = 0  # take a swap that pays with the flow into the negative weights held
    CANDIDATE_ADDED = 1  # or with the flow re-optimised for the candidate beside all of the selected
    BEST_PAIRS = 2  # or with one of the selected points that promise the most, by the exact change of the objective
    PROOF = 3  # or at all


@dataclass(frozen=True)
class Progress:
    """How far a search is: `settled` of the candidates have been tried with this effort since the last swap."""

    effort: Effort
    cost: float
    swaps: int
    settled: int
    candidates: int
