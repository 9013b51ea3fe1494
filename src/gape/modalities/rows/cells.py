"""The cells that a survey counts: every column divided into at most a few hundred public cells."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape.core.types import Floats, Indices
from gape.modalities.rows.columns import Choices, Column, Numbers
from gape.modalities.rows.schema import Schema

MOST_VALUES = 128  # numbers with up to as many values have a cell for each of them
MOST_STRETCHES = 20  # in which columns of many cells are also counted
STRETCHES = 100  # equal parts of the range of other numbers


@dataclass(frozen=True)
class ColumnCells:
    """The cells of one column: the values of a choice or of a small range of numbers, otherwise stretches of the range.

    Both ends of a range, and 0 inside it, have cells of their own, because many records often share them. An empty cell
    of the table has the last one.
    """

    column: Column

    @property
    def count(self) -> int:
        """The number of cells."""
        if isinstance(self.column, Choices):
            return self.column.count
        inner = self._values if self._single else len(self._starts) - 1
        return inner + int(self.column.missing)

    @property
    def ordered(self) -> int:
        """The number of cells that lie in order; 0 for choices, which have none."""
        return 0 if isinstance(self.column, Choices) else self.count - int(self.column.missing)

    @cached_property
    def widths(self) -> Floats:
        """How many numbers each cell in order holds, (ordered,); 0 for the cells of both ends of a range and of 0."""
        column = self.column
        if self._single or not isinstance(column, Numbers):
            return np.ones(self.ordered)
        widths: Floats = np.rint(np.diff(self._starts) * 10.0**column.decimals)
        widths[np.searchsorted(self._starts, self._own, side="right") - 1] = 0
        return widths

    @cached_property
    def stretches(self) -> Indices | None:
        """The part of the range that each cell lies in, (cells,), if there are several cells for each; or None."""
        if self.ordered < MOST_STRETCHES * 2:
            return None
        inside = np.arange(self.ordered) * MOST_STRETCHES // self.ordered
        if not self._single and isinstance(self.column, Numbers):
            along = (self._starts[:-1] - self._starts[0]) / (self._starts[-1] - self._starts[0])
            inside = (along * MOST_STRETCHES).astype(np.int64)
        empty = np.full(self.count - self.ordered, inside.max() + 1)
        return np.unique(np.concatenate([inside, empty]), return_inverse=True)[1]

    def of(self, codes: Floats) -> Indices:
        """Return the cell of each code, (n,)."""
        column = self.column
        if isinstance(column, Choices):
            return column.bins(codes)
        known = np.where(np.isnan(codes), column.least, codes)
        if self._single:
            cells = np.rint((known - column.least) * 10.0**column.decimals).astype(np.int64)
        else:
            cells = np.searchsorted(self._starts, known, side="right") - 1
        return np.where(np.isnan(codes), self.count - 1, cells)

    def draw(self, cells: Indices, rng: np.random.Generator) -> Floats:
        """Draw a code from each cell, uniformly over the numbers that the column can hold."""
        column = self.column
        if isinstance(column, Choices):
            return np.where(cells == len(column.values), np.nan, cells.astype(np.float64))
        empty = cells >= self.ordered
        if self._single:
            values = column.least + cells.astype(np.float64) * 10.0**-column.decimals
            return np.where(empty, np.nan, column.rounded(values))
        inside = np.minimum(cells, self.ordered - 1)
        low, high = self._starts[inside], self._starts[inside + 1]
        return np.where(empty, np.nan, column.rounded(low + (high - low) * rng.random(len(cells))))

    @cached_property
    def _values(self) -> int:
        """The number of values that a column of numbers can hold."""
        column = self.column
        return round(column.range * 10.0**column.decimals) + 1 if isinstance(column, Numbers) else 0

    @property
    def _single(self) -> bool:
        return self._values <= MOST_VALUES

    @property
    def _own(self) -> list[float]:
        """The numbers of a range that have cells of their own."""
        column = self.column
        if not isinstance(column, Numbers):
            return []
        return [column.least, column.most, *([0.0] if column.least < 0 < column.most else [])]

    @cached_property
    def _starts(self) -> Floats:
        """Where the cells begin, and where the last one ends, (ordered + 1,)."""
        column = self.column
        if not isinstance(column, Numbers):
            return np.zeros(1)
        step = 10.0**-column.decimals
        even = column.least + column.range * np.arange(STRETCHES) / STRETCHES
        own = self._own
        starts = [*(np.ceil(even / step - 1e-6) * step), *own, *(value + step for value in own)]
        # Half a step below the numbers that they hold, so that rounding cannot move a number to its neighbour.
        return np.unique(np.round(starts, column.decimals)) - step / 2


@dataclass(frozen=True)
class Cells:
    """The cells of all columns of a schema."""

    schema: Schema

    @cached_property
    def columns(self) -> tuple[ColumnCells, ...]:
        """The cells of each column, in their order."""
        return tuple(ColumnCells(column) for column in self.schema.columns.values())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest whole numbers that tell the cells of every column apart."""
        return np.dtype(np.min_scalar_type(max(column.count for column in self.columns) - 1))

    def of(self, codes: Floats) -> NDArray[Any]:
        """Return the cells of coded rows, (n, columns)."""
        found = np.empty(codes.shape, self.dtype)
        for index, column in enumerate(self.columns):
            found[:, index] = column.of(codes[:, index])
        return found
