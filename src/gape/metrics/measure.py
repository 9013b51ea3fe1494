"""A measure of an evaluation, and the settings that measures are computed with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gape.core.errors import InputError
from gape.metrics.intervals import Interval


@dataclass(frozen=True)
class Scoring:
    """How samples are scored; the defaults are those of `gape evaluate`."""

    k: int = 3  # the ball of a record reaches to its k-th nearest other record
    blur: float = 0.05  # of the Sinkhorn divergence
    sample: int = 2000  # most points of each side for W1, Sinkhorn W1 and the n-gram distances
    seed: int = 0  # for subsamples, the bootstrap, and the real records of the baseline

    def __post_init__(self) -> None:
        if self.k < 1 or self.sample < 1 or self.seed < 0:
            raise InputError(
                f"k and sample must be at least 1 and seed at least 0, got {self.k}, {self.sample} and {self.seed}"
            )
        if not 0 < self.blur < math.inf:
            raise InputError(f"blur must be positive, got {self.blur:g}; 0.05 is usual")


@dataclass(frozen=True)
class Measure:
    """One measure: its name, its value with a bootstrap interval, and an explanation in words."""

    name: str
    value: float
    says: str
    low: float | None = None
    high: float | None = None
    real: float | None = None  # the same measure of as many real records

    @classmethod
    def within(cls, name: str, interval: Interval, says: str) -> Measure:
        """Make a measure with its interval."""
        return cls(name, interval.value, says, interval.low, interval.high)


def nth_nearest(k: int) -> str:
    """Return "nearest", "2nd nearest", "3rd nearest" and so on."""
    return {1: "", 2: "2nd ", 3: "3rd "}.get(k, f"{k}th ") + "nearest"
