"""Rows of a table, generated from its schema without any model."""

from dataclasses import dataclass, field, replace

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Samples
from gape.modalities.rows.columns import Choices, Column
from gape.modalities.rows.schema import Schema

_EMPTY = 0.1  # probability that a number is missing at the start, if it may be
_WIDEST = 5 / 3  # times its scale, a variation of the first round changes
_COOLED, _BEND = 0.98, 0.2  # how much smaller variations become over the rounds, most of it in the first ones
_ANYWHERE = 0.5  # probability that a new number is drawn from the whole range, and not near the old one


@dataclass(frozen=True)
class RowGenerator:
    """Random rows have uniform cells; a variation at scale s changes a share s of the cells, and at least one.

    A changed cell takes the value of another sample, or a new one: for choices any other choice, for numbers any number
    of the range, or one a normal step away with a standard deviation of s times the range.

    `crossed` is the probability of taking the value of another sample. The samples were voted for, so values that are
    common among them are common among the records, and rows learn from each other (experiments/tables).

    Over the rounds of an evolution, variations are annealed as in Tab-PE instead (`annealed_at`): every number takes a
    small step, uniform within s times the range, choices change with probability s, and s falls from round to round.
    """

    schema: Schema
    crossed: float = 0.9
    progress: float | None = field(default=None, repr=False)  # share of the rounds that is done; None outside rounds

    def __post_init__(self) -> None:
        if not 0 <= self.crossed <= 1:
            raise InputError(f"crossed must lie between 0 and 1, got {self.crossed}; 0.9 is usual")

    def annealed_at(self, progress: float) -> "RowGenerator":
        """Return the generator of a round before which a share `progress` of the rounds is done."""
        return replace(self, progress=progress)

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` rows."""
        columns = self.schema.columns.values()
        return self.schema.lines(np.stack([_anywhere(column, count, rng) for column in columns], axis=1))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Return one variation of each row, crossing rows with one another."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 changes every cell")
        if not len(samples):
            return samples.copy()
        codes = self.schema.codes(samples)
        if self.progress is not None:
            rates = np.minimum(1.0, _WIDEST * scales * (1 - _COOLED * self.progress**_BEND))
            return self.schema.lines(self._stepped(codes, rates, rng))
        rows, width = np.arange(len(codes)), codes.shape[1]
        columns = enumerate(self.schema.columns.values())
        fresh = np.stack([_fresh(column, codes[:, i], scales, rng) for i, column in columns], axis=1)
        others = codes[rng.integers(len(codes), size=codes.shape), np.arange(width)]
        touched = rng.random(codes.shape) < scales[:, None]
        touched[rows, rng.integers(width, size=len(codes))] = True
        varied = np.where(touched, np.where(rng.random(codes.shape) < self.crossed, others, fresh), codes)
        same = ((varied == codes) | (np.isnan(varied) & np.isnan(codes))).all(axis=1)
        cell = rows, rng.integers(width, size=len(codes))
        varied[cell] = np.where(same, fresh[cell], varied[cell])
        return self.schema.lines(varied)

    def _stepped(self, codes: Floats, rates: Floats, rng: np.random.Generator) -> Floats:
        """Let every number take a step, and change choices and empty cells with the probability of their row."""
        rows, width = np.arange(len(codes)), codes.shape[1]
        others = codes[rng.integers(len(codes), size=codes.shape), np.arange(width)]
        touched = rng.random(codes.shape) < rates[:, None]
        touched[rows, rng.integers(width, size=len(codes))] = True
        varied = codes.copy()
        for index, column in enumerate(self.schema.columns.values()):
            own, changed = codes[:, index], touched[:, index]
            if isinstance(column, Choices):
                fresh = _fresh(column, own, rates, rng)
                taken = rng.random(len(codes)) < self.crossed
                varied[:, index] = np.where(changed, np.where(taken, others[:, index], fresh), own)
            else:
                steps = column.rounded(own + rng.uniform(-1, 1, len(codes)) * rates * column.range)
                emptied = changed & (np.isnan(own) | np.isnan(others[:, index]))
                varied[:, index] = np.where(emptied, others[:, index], steps)
        return varied


def _anywhere(column: Column, count: int, rng: np.random.Generator) -> Floats:
    """Draw codes uniformly, independently of the data."""
    if isinstance(column, Choices):
        return _as_code(column, rng.integers(column.count, size=count))
    step = 10.0**-column.decimals
    drawn = column.rounded(rng.uniform(column.least - step / 2, column.most + step / 2, count))
    return np.where(column.missing & (rng.random(count) < _EMPTY), np.nan, drawn)


def _fresh(column: Column, codes: Floats, scales: Floats, rng: np.random.Generator) -> Floats:
    """Draw a new value for each code: another choice, or a number anywhere in the range or near the old one."""
    if isinstance(column, Choices):
        current = column.bins(codes)
        return _as_code(column, (current + rng.integers(1, column.count, size=len(codes))) % column.count)
    anywhere = _anywhere(column, len(codes), rng)
    near = column.rounded(codes + scales * column.range * rng.normal(size=len(codes)))
    return np.where(np.isnan(codes) | (rng.random(len(codes)) < _ANYWHERE), anywhere, near)


def _as_code(column: Choices, indices: np.ndarray) -> Floats:
    return np.where(indices == len(column.values), np.nan, indices.astype(np.float64))
