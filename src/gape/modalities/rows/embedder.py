"""Rows of a table as points, such that every column has equal weight, whatever it holds."""

import math
from dataclasses import dataclass

import numpy as np

from gape.core.types import Floats, Points, Samples
from gape.modalities.rows.columns import Choices, Column
from gape.modalities.rows.schema import Schema

# Number of steps on the scale of a number. Two numbers that differ by a share f of the range are sqrt(f) apart, down to
# one step, so that close numbers in a wide range stay distinguishable: on a linear scale, incomes would hardly count
# compared to choices.
_STEPS = 16

_AT_ONCE = 10_000  # rows embedded together, in float64


@dataclass(frozen=True)
class RowEmbedder:
    """Embeds rows that are lines of JSON; two rows that differ in a share f of their columns are sqrt(f) apart.

    Each choice is a unit vector divided by sqrt 2. A number fills a scale from the least to the largest value. An empty
    cell is as far from every number as the ends of the range are from each other. A column of
    weight w counts as w columns.
    """

    schema: Schema

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per sample, with a norm of at most 1."""
        parts = [
            self._embed_block(samples[start : start + _AT_ONCE]) for start in range(0, max(len(samples), 1), _AT_ONCE)
        ]
        return np.concatenate(parts)

    @property
    def widths(self) -> dict[str, int]:
        """The number of dimensions of each column, in their order."""
        return {name: _block(column, np.zeros(1)).shape[1] for name, column in self.schema.columns.items()}

    def _embed_block(self, samples: Samples) -> Points:
        codes = self.schema.codes(samples)
        weights = [self.schema.weights.get(name, 1.0) for name in self.schema.columns]
        blocks = [
            _block(column, codes[:, i]) / math.sqrt(sum(weights) / weights[i])
            for i, column in enumerate(self.schema.columns.values())
        ]
        return np.concatenate(blocks, axis=1).astype(np.float32)


def _block(column: Column, codes: Floats) -> Floats:
    if isinstance(column, Choices):
        block: Floats = np.eye(column.count)[column.bins(codes)] / math.sqrt(2)
        return block
    filled = np.clip((codes - column.least)[:, None] / column.range * _STEPS - np.arange(_STEPS), 0.0, 1.0)
    if not column.missing:
        return filled / math.sqrt(_STEPS)
    empty = np.isnan(codes)
    filled[empty] = 0.5  # as far from an empty scale as from a full one
    away = np.where(empty, math.sqrt(0.75), 0.0)
    return np.concatenate([filled / math.sqrt(_STEPS), away[:, None]], axis=1)
