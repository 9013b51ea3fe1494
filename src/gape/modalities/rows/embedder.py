"""Rows of a table as points: every column counts alike, whatever it holds."""

import math
from dataclasses import dataclass

import numpy as np

from gape.core.types import Floats, Points, Samples
from gape.modalities.rows.schema import Choices, Column, Schema

# Steps of the scale on which a number is marked. Two numbers that are a share f of the range apart are sqrt(f) apart,
# down to one step, so that what is close in a wide range is told apart: with a plain scale incomes drown in choices.
_STEPS = 16

_AT_ONCE = 10_000  # rows embedded together, in float64


@dataclass(frozen=True)
class RowEmbedder:
    """Embeds rows that are lines of JSON, so that two which differ in a share f of their columns are sqrt(f) apart.

    A choice is a unit vector of its own, over sqrt 2. A number fills a scale from the least to the most. An empty cell
    is as far from every number as the ends of the range are from each other.
    """

    schema: Schema

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per sample, of norm 1 at most."""
        parts = [self._some(samples[start : start + _AT_ONCE]) for start in range(0, max(len(samples), 1), _AT_ONCE)]
        return np.concatenate(parts)

    def _some(self, samples: Samples) -> Points:
        codes = self.schema.codes(samples)
        columns = self.schema.columns.values()
        blocks = [_block(column, codes[:, place]) for place, column in enumerate(columns)]
        points: Points = (np.concatenate(blocks, axis=1) / math.sqrt(len(blocks))).astype(np.float32)
        return points


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
