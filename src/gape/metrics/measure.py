"""One figure of an evaluation, and how figures are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gape.core.errors import InputError
from gape.metrics.intervals import Interval


@dataclass(frozen=True)
class Scoring:
    """How points are scored; the defaults are the command's."""

    k: int = 3  # a ball reaches to so many-th nearest other record
    blur: float = 0.05  # of the Sinkhorn divergence
    sample: int = 2000  # most points of each side for W1, Sinkhorn and the n-grams' distances
    seed: int = 0  # of the samples, of the bootstrap, and of who is drawn for the baseline

    def __post_init__(self) -> None:
        if self.k < 1 or self.sample < 1 or self.seed < 0:
            raise InputError(
                f"k and sample must be at least 1 and seed at least 0, got {self.k}, {self.sample} and {self.seed}"
            )
        if not 0 < self.blur < math.inf:
            raise InputError(f"blur must be positive, got {self.blur:g}; 0.05 is usual")


@dataclass(frozen=True)
class Measure:
    """One figure: what it is called, its value and bootstrap interval, and what it says."""

    name: str
    value: float
    says: str
    low: float | None = None
    high: float | None = None
    real: float | None = None  # the same of as many real records

    @classmethod
    def within(cls, name: str, interval: Interval, says: str) -> Measure:
        """Make one with its interval."""
        return cls(name, interval.value, says, interval.low, interval.high)
