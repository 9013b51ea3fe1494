"""Rows of a table, from its schema alone: no model writes, and nothing is asked for."""

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Samples
from gape.modalities.rows.schema import Choices, Column, Schema

_EMPTY = 0.1  # how often a number is missing at the start, where it may be
_ANYWHERE = 0.5  # how often a new number is drawn from the whole range; else it is a step away


@dataclass(frozen=True)
class RowGenerator:
    """Random rows have every cell uniform in its column; a variation at scale s changes a share s of the cells.

    At least one cell changes. It takes the value of another of the samples, or a new one: of choices any other, of
    numbers any at all or one a normal step away, of standard deviation s times the range.

    `crossed` is how often it is another's. The samples have been voted for, so what is common among them is common
    among the records, and rows learn from each other (experiments/tables).
    """

    schema: Schema
    crossed: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.crossed <= 1:
            raise InputError(f"crossed must lie between 0 and 1, got {self.crossed}; 0.9 is usual")

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` rows."""
        columns = self.schema.columns.values()
        return self.schema.lines(np.stack([_anywhere(column, count, rng) for column in columns], axis=1))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Write one variation of every row, crossing them with one another."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 changes every cell")
        if not len(samples):
            return samples.copy()
        codes = self.schema.codes(samples)
        rows, width = np.arange(len(codes)), codes.shape[1]
        fresh = np.stack([_fresh(column, codes[:, place], scales, rng) for place, column in self._places], axis=1)
        others = codes[rng.integers(len(codes), size=codes.shape), np.arange(width)]
        touched = rng.random(codes.shape) < scales[:, None]
        touched[rows, rng.integers(width, size=len(codes))] = True
        varied = np.where(touched, np.where(rng.random(codes.shape) < self.crossed, others, fresh), codes)
        same = ((varied == codes) | (np.isnan(varied) & np.isnan(codes))).all(axis=1)
        cell = rows, rng.integers(width, size=len(codes))
        varied[cell] = np.where(same, fresh[cell], varied[cell])
        return self.schema.lines(varied)

    @property
    def _places(self) -> list[tuple[int, Column]]:
        return list(enumerate(self.schema.columns.values()))


def _anywhere(column: Column, count: int, rng: np.random.Generator) -> Floats:
    """Draw codes that say nothing of the data."""
    if isinstance(column, Choices):
        return _as_code(column, rng.integers(column.count, size=count))
    step = 10.0**-column.decimals
    drawn = column.rounded(rng.uniform(column.least - step / 2, column.most + step / 2, count))
    return np.where(column.missing & (rng.random(count) < _EMPTY), np.nan, drawn)


def _fresh(column: Column, codes: Floats, scales: Floats, rng: np.random.Generator) -> Floats:
    """Draw a new value for each: another choice, or a number anywhere or near."""
    if isinstance(column, Choices):
        now = column.bins(codes)
        return _as_code(column, (now + rng.integers(1, column.count, size=len(codes))) % column.count)
    anywhere = _anywhere(column, len(codes), rng)
    near = column.rounded(codes + scales * column.range * rng.normal(size=len(codes)))
    return np.where(np.isnan(codes) | (rng.random(len(codes)) < _ANYWHERE), anywhere, near)


def _as_code(column: Choices, places: np.ndarray) -> Floats:
    return np.where(places == len(column.values), np.nan, places.astype(np.float64))
