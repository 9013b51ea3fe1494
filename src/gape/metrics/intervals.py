"""Bootstrap intervals: how much a mean over scored records might change with other records from the same source."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gape.core.errors import InputError
from gape.core.types import Floats


@dataclass(frozen=True)
class Interval:
    """A value, and the range that holds a share `level` of its resampled values."""

    value: float
    low: float
    high: float
    level: float


def bootstrap(
    scores: ArrayLike,
    rng: np.random.Generator,
    *,
    statistic: Callable[[Floats], float] = np.mean,
    level: float = 0.95,
    resamples: int = 1000,
) -> Interval:
    """Return the percentile interval of `statistic` over records resampled with replacement (Efron, 1979).

    `scores` holds one number per scored record: `nearest_distances`, whether a ball was reached, whether a prediction
    was right. The interval does not cover another run of the generator or of the noise, another embedder, other
    synthetic points or, for metrics with balls or nearest neighbours, the other records that shape a record's own
    score; these need separate runs. It is meaningless for a maximum, which resampling can only lower, and its level is
    optimistic for a few dozen records.

    scores: (n,). The interval is not differentially private, just like the scores.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InputError(
            f"scores must be a non-empty list of finite numbers, got shape {values.shape}; remove other values"
        )
    if not 0 < level < 1 or resamples < 1:
        raise InputError(
            f"level must be between 0 and 1 and resamples at least 1, got {level} and {resamples}; use 0.95 and 1000"
        )
    drawn = [float(statistic(values[rng.integers(len(values), size=len(values))])) for _ in range(resamples)]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(values)), float(low), float(high), level)
