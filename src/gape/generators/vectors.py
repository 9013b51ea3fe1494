"""Generators of vectors: the paper's models of a VariationAPI."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Points, Samples


@dataclass(frozen=True, eq=False)
class StartFromSet:
    """Draws random samples from given points. If exactly as many are requested, returns all of them in order."""

    points: Samples

    def random(self, count: int, rng: np.random.Generator) -> Points:
        """Draw `count` of the points, with repetition only if there are fewer."""
        points = np.asarray(self.points, dtype=np.float32)
        if count == len(points):
            return points.copy()
        return points[rng.choice(len(points), size=count, replace=count > len(points))]


@dataclass(frozen=True)
class StartFromBox:
    """Draws random samples uniformly from a box."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def random(self, count: int, rng: np.random.Generator) -> Points:
        """Draw `count` points uniformly."""
        if len(self.low) != len(self.high) or not all(a < b for a, b in zip(self.low, self.high, strict=True)):
            raise InputError(f"a box needs low < high in each coordinate, got {self.low} and {self.high}; swap them")
        return rng.uniform(self.low, self.high, size=(count, len(self.low))).astype(np.float32)


@dataclass(frozen=True, eq=False)
class GaussianGenerator:
    """VariationAPI(y, s^2) = N(y, s^2 Sigma / tr Sigma): mean y and total variance s^2, in any shape.

    `factor` is (d, k) with Sigma = factor factor^T; `isotropic`, `low_rank` and `diagonal` construct the usual ones.
    """

    start: StartFromSet | StartFromBox
    factor: Floats

    @classmethod
    def isotropic(cls, start: StartFromSet | StartFromBox, dimension: int) -> GaussianGenerator:
        """Equal variance in every direction: effective rank d."""
        return cls(start, np.eye(dimension))

    @classmethod
    def diagonal(cls, start: StartFromSet | StartFromBox, variances: tuple[float, ...]) -> GaussianGenerator:
        """Independent coordinates with variances in these proportions; zero for a coordinate that does not vary."""
        if not variances or not min(variances) >= 0:
            raise InputError(f"variances must be one or more numbers of at least 0, got {variances}; use 0 or more")
        return cls(start, np.diag(np.sqrt(np.asarray(variances, dtype=np.float64))))

    @classmethod
    def low_rank(cls, start: StartFromSet | StartFromBox, basis: Floats) -> GaussianGenerator:
        """Equal variance within the span of the columns of `basis`, (d, k), and none outside."""
        left, singular, _ = np.linalg.svd(np.asarray(basis, dtype=np.float64), full_matrices=False)
        # Columns that depend on others add no direction; without this cut, rounding would choose one for them.
        return cls(start, left[:, singular > 1e-10 * singular.max(initial=0.0)])

    def random(self, count: int, rng: np.random.Generator) -> Points:
        """Draw the initial samples."""
        return self.start.random(count, rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Points:
        """Draw one variation of each sample, with its scale as the total variance."""
        trace = float(np.sum(self.factor**2))
        if trace <= 0:
            raise InputError("the covariance of a generator must not be zero; give at least one positive variance")
        step = rng.standard_normal((len(samples), self.factor.shape[1])) @ self.factor.T
        varied: Points = (samples + np.sqrt(scales / trace)[:, None] * step).astype(np.float32)
        return varied


@dataclass(frozen=True)
class SnakingPath:
    """The paper's pathological VariationAPI: a one-dimensional path that winds up and down through the plane.

    Vertical segments of height `height`, `gap` apart, joined alternately at the top and at the bottom. A point is
    varied along the path, by a Gaussian step of variance s^2 in arc length, and never leaves it.
    """

    segments: int = 6
    height: float = 4.0
    gap: float = 1.0
    start_at: float = 0.0  # arc length of the first sample; further samples follow at `spacing`
    spacing: float = 0.0

    def __post_init__(self) -> None:
        if self.segments < 1 or not (self.height > 0 and self.gap > 0):
            raise InputError(
                f"segments, height and gap must be above 0, got {self.segments}, {self.height} and {self.gap}; the "
                "defaults are 6, 4.0 and 1.0"
            )

    @property
    def length(self) -> float:
        """Arc length of the whole path."""
        return self.segments * self.height + (self.segments - 1) * self.gap

    def at(self, arc: Floats) -> Points:
        """Return the points at the given arc lengths, (n, 2)."""
        arc = np.clip(np.asarray(arc, dtype=np.float64), 0.0, self.length)
        period = self.height + self.gap
        segment = np.minimum(np.floor(arc / period), self.segments - 1)
        rest = arc - segment * period
        up = np.minimum(rest, self.height)
        y = np.where(segment % 2 == 0, up, self.height - up)
        x = segment * self.gap + np.maximum(rest - self.height, 0.0)
        return np.stack([x, y], axis=1).astype(np.float32)

    def arc(self, points: Samples) -> Floats:
        """Return the arc lengths of points on the path, the inverse of `at`."""
        x, y = np.asarray(points, dtype=np.float64).T
        period = self.height + self.gap
        slack = 2.0**-22 * (1.0 + x / self.gap)  # twice the rounding error of float32
        segment = np.floor(x / self.gap + slack)
        across = x - segment * self.gap
        up = np.where(segment % 2 == 0, y, self.height - y)
        arc: Floats = segment * period + up + np.where(across > slack * self.gap, across, 0.0)
        return arc

    def random(self, count: int, rng: np.random.Generator) -> Points:  # noqa: ARG002  (the start is fixed)
        """Return `count` points along the path from `start_at`."""
        return self.at(self.start_at + self.spacing * np.arange(count, dtype=np.float64))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Points:
        """Step along the path: near in geodesic distance, not necessarily in the plane."""
        return self.at(self.arc(samples) + np.sqrt(scales) * rng.standard_normal(len(samples)))
