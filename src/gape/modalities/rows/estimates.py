"""What noisy counts say about single columns: shares of cells, and parts that stand out from the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape.core.types import Floats, Indices

FINE = 20  # parts of a column at most
RARE = 0.01  # share of the records below which choices are counted together
_STANDS_OUT = 3.0  # standard deviations of noise


@dataclass(frozen=True)
class Level:
    """Noisy counts of a column, and their variance, by groups of its cells."""

    groups: Indices  # (cells,)
    counts: Floats  # (groups,)
    variance: float


@dataclass(frozen=True)
class ColumnEstimate:
    """What is known of a column: the share of each cell, and the parts in which pairs count it."""

    shares: Floats  # (cells,), at least 0, with sum 1
    parts: Indices  # (cells,)
    counts: NoisyColumn
    total: float  # number of records, about
    widths: Floats  # (ordered,): of the cells that lie in order; 0 if one value has its own among wider ones

    @property
    def ordered(self) -> int:
        """How many of the cells lie in order."""
        return len(self.widths)

    @classmethod
    def of(cls, levels: Sequence[Level], total: float, widths: Floats) -> ColumnEstimate:
        """Estimate a column from noisy counts. Neighbours that drown in noise share what they have."""
        noisy, ordered = NoisyColumn.of(levels), len(widths)
        shares = noisy.nearest(total, ordered) / total
        rare = max(RARE, 3 * float(noisy.variances(np.arange(len(shares))).max()) ** 0.5 / total)
        return cls(shares, merged(shares, FINE, ordered, rare), noisy, total, widths)


@dataclass(frozen=True)
class NoisyColumn:
    """The best unbiased counts of cells from one or two levels (Hay et al. 2010), and their covariance.

    Cells of one block share the answers about it: a block has the variance `whole`, and a cell in it the variance
    `fine` around its share of the block.
    """

    noisy: Floats  # (cells,)
    blocks: Indices  # (cells,)
    fine: float
    whole: Floats  # (blocks,)

    @classmethod
    def of(cls, levels: Sequence[Level]) -> NoisyColumn:
        """Combine counts of cells, the last level, with those of blocks, if there are any."""
        *above, cells = levels
        if not above:
            return cls(cells.counts, np.arange(len(cells.counts)), 0.0, np.full(len(cells.counts), cells.variance))
        (level,) = above
        widths = np.bincount(level.groups)
        sums = np.bincount(level.groups, weights=cells.counts)
        precision = 1 / level.variance, 1 / (cells.variance * widths)
        best = (level.counts * precision[0] + sums * precision[1]) / (precision[0] + precision[1])
        noisy = cells.counts + ((best - sums) / widths)[level.groups]
        return cls(noisy, level.groups, cells.variance, 1 / (precision[0] + precision[1]))

    def sums(self, groups: Indices) -> Floats:
        """Return the counts of groups of cells, (groups,)."""
        return np.bincount(groups, weights=self.noisy).astype(np.float64)

    def variances(self, groups: Indices) -> Floats:
        """Return the variances of the counts of groups of cells, (groups,)."""
        widths = np.zeros((int(groups.max()) + 1, len(self.whole)))
        np.add.at(widths, (groups, self.blocks), 1.0)
        shares = widths / np.bincount(self.blocks)
        found: Floats = (shares**2 * self.whole + widths * (1 - shares) * self.fine).sum(axis=1)
        return found

    def precision(self) -> Floats:
        """Return the inverse of the covariance of the counts, (cells, cells)."""
        same = (self.blocks[:, None] == self.blocks).astype(np.float64)
        precision: Floats = same / self.whole[self.blocks]
        if self.fine:
            precision += (np.eye(len(self.blocks)) - same / same.sum(axis=0)) / self.fine
        return precision

    def nearest(self, total: float, ordered: int) -> Floats:
        """Return counts of cells of sum `total`, none below 0: those of blocks first, then those of cells in them."""
        blocks = self.blocks[:ordered].max() + 1 if ordered else 0
        outer = _smoothed(self.sums(self.blocks), self.whole, total, blocks)
        if len(self.whole) == len(self.noisy):
            return outer
        counts = np.zeros(len(self.noisy))
        for block, held in enumerate(outer):
            inside = np.flatnonzero(self.blocks == block)
            variances = np.full(len(inside), self.fine)
            counts[inside] = _smoothed(self.noisy[inside], variances, held, len(inside)) if held > 0 else 0.0
        return counts


def _smoothed(noisy: Floats, variances: Floats, total: float, ordered: int) -> Floats:
    """Return counts of sum `total`, none below 0. Neighbours in order that drown in noise share what they have."""
    groups = _told_apart(noisy, variances, ordered)
    held, spread = (np.bincount(groups, weights=values).astype(np.float64) for values in (noisy, variances))
    found: Floats = (projected(held, total, spread) / np.bincount(groups))[groups]
    return found


def _told_apart(noisy: Floats, variances: Floats, ordered: int) -> Indices:
    """Return groups of counts: neighbours in order are merged until their sum stands out from the noise."""
    groups, group, held, spread = np.arange(len(noisy)), 0, 0.0, 0.0
    for index in range(ordered):
        alone = noisy[index] >= _STANDS_OUT * math.sqrt(variances[index])
        if spread and (alone or held >= _STANDS_OUT * math.sqrt(spread)):
            group, held, spread = group + 1, 0.0, 0.0
        groups[index] = group
        held, spread = held + float(noisy[index]), spread + float(variances[index])
    if ordered:
        groups[ordered:] = group + 1 + np.arange(len(noisy) - ordered)
    return groups


def projected(noisy: Floats, total: float, variances: Floats | None = None) -> Floats:
    """Return the counts of sum `total`, none below 0, that are nearest to noisy ones (L2, by relative variances)."""
    weights = np.ones(noisy.shape) if variances is None else variances / variances.mean()
    order = np.argsort(-(noisy / weights).ravel(), kind="stable")
    flat, spread = noisy.ravel()[order], weights.ravel()[order]
    excess = (np.cumsum(flat) - total) / np.cumsum(spread)
    cut = excess[np.flatnonzero(flat / spread > excess)[-1]]
    kept: Floats = np.maximum(noisy - cut * weights, 0.0)
    return kept


def merged(shares: Floats, most: int, ordered: int, rare: float) -> Indices:
    """Merge cells into at most `most` parts: neighbours in order up to about equal shares, choices by frequency."""
    parts = np.zeros(len(shares), dtype=np.int64)
    if ordered:
        parts[:ordered] = _even(shares[:ordered], most - (len(shares) - ordered), rare)
        parts[ordered:] = parts[:ordered].max() + 1
        return parts
    frequent = np.argsort(-shares, kind="stable")
    single = [index for index in frequent[: most - 1] if shares[index] >= rare]
    if len(single) >= len(shares) - 1:
        return np.arange(len(shares))
    parts[:] = len(single)
    parts[single] = np.arange(len(single))
    return parts


def _even(shares: Floats, most: int, least: float) -> Indices:
    """Return parts of neighbouring cells; a cell with the share of a whole part has one of its own."""
    least = max(least, shares.sum() / most)
    parts, part, held = np.zeros(len(shares), dtype=np.int64), 0, 0.0
    for index, share in enumerate(shares):
        if index and (held >= least or (share >= least and held > 0)):
            part, held = part + 1, 0.0
        parts[index] = part
        held += float(share)
    return parts
