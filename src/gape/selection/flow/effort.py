"""The efforts of a local search, and its progress."""

from dataclasses import dataclass
from enum import IntEnum

# Swaps must lower the objective by this share of it. A certificate claims 1e-9; the bounds round at 1e-13.
LEAST_GAIN = 1e-10


class Effort(IntEnum):
    """How much work to spend on one candidate. Cheap efforts come first, so that few expensive ones are needed."""

    FLOW_HELD = 0  # take a swap that pays with the flow into the negative weights held
    CANDIDATE_ADDED = 1  # or with the flow re-optimised for the candidate beside all of the selected
    BEST_PAIRS = 2  # or that pays exactly, with one of the most promising selected points
    PROOF = 3  # or any swap that pays


@dataclass(frozen=True)
class SearchProgress:
    """Progress of a search: `settled` candidates have been tried with this effort since the last swap."""

    effort: Effort
    cost: float
    swaps: int
    settled: int
    candidates: int
