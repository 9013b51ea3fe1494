"""Records that vote for candidates of their own label, counted label by label."""

from typing import Any

import numpy as np

from gape.core.types import Counts, Points
from gape.voting.nearest import Voters
from gape.voting.several import several_nearest

LABELS = tuple("0123456789")


class ByLabel:
    """An electorate that counts votes label by label: the same counts in a tenth of the time."""

    def __init__(self, points: Points, labels: Any, votes: int) -> None:
        """Keep points, (n, d), and the label of each."""
        self._voters = [Voters(points[labels == label]) for label in LABELS]
        self._width, self._votes = points.shape[1], votes
        self.unit, self.dimension, self.votes_per_unit = "record", points.shape[1] + len(LABELS), votes

    def fingerprint(self, salt: bytes) -> str:
        """Identify nothing: the ledger is in memory."""
        return salt.hex()

    def count(self, candidates: Points, turn: int) -> Counts:  # noqa: ARG002  (all records vote in all rounds)
        """Count the votes of all labels."""
        counts = np.zeros(len(candidates), dtype=np.int64)
        for index, voters in enumerate(self._voters):
            own = np.flatnonzero(candidates[:, self._width + index] > 0)
            if len(own):
                places = np.ascontiguousarray(candidates[own, : self._width])
                winners = several_nearest(voters, places, min(self._votes, len(own)))
                counts += np.bincount(own[winners.ravel()], minlength=len(counts))
        return counts
