"""Schemas of tables: the possible values of each column, and rows as lines of JSON.

A schema is a TOML file with one table per column:

    [age]
    least = 17                            # integers; 17.0 would allow fractions
    most = 90

    [income]
    choices = ["<=50K", ">50K"]

    [weight]
    least = 30.0
    most = 200.0
    decimals = 1                          # by default a thousandth of the range
    missing = true                        # cells may be empty

All of it must be public knowledge and must not be derived from the private data: the smallest and the largest value
that occur belong to two records. A row is held as a line of JSON, so that everything that works on texts works on rows.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gape._support.values import brief, nearest_name, toml_file
from gape.core.errors import InputError
from gape.core.types import Floats, Indices, Samples, as_samples
from gape.modalities.tables import missing

MOST_CHOICES = 1_000  # each choice is a dimension of the embedding
BINS = 20  # per range of a number, to compare distributions

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True)
class Choices:
    """A column that holds one of a few values."""

    values: tuple[str | int, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        if {type(value) for value in self.values} not in ({str}, {int}):
            raise ValueError("choices must be a list of texts or a list of integers")
        if type(self.values[0]) is int and not all(-(2**63) <= int(value) < 2**63 for value in self.values):
            raise ValueError("integers of more than 64 bits must be written as texts")
        different = len(self._indices) == len(self.values) and all(str(value).strip() for value in self.values)
        if not 2 <= len(self.values) <= MOST_CHOICES or not different:
            raise ValueError(f"there must be 2 to {MOST_CHOICES:,} choices, all different and not blank")

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {str(value).strip(): index for index, value in enumerate(self.values)}

    @property
    def count(self) -> int:
        """The number of values, including the empty cell if it is allowed."""
        return len(self.values) + int(self.missing)

    def code(self, cell: object) -> float:
        """Return the index of a value; 7, 7.0 and "7.0" are the same, and so are True, "True" and "true"."""
        index = next((self._indices[text] for text in _spellings(cell) if text in self._indices), None)
        if index is None:
            raise ValueError(f"a value that is none of its {len(self.values)} choices")
        return float(index)

    def cell(self, code: float) -> Cell:
        """Return the value of an index."""
        return self.values[int(code)]

    def bins(self, codes: Floats) -> Indices:
        """Return the indices; an empty cell has the last."""
        return np.where(np.isnan(codes), len(self.values), codes).astype(np.int64)


@dataclass(frozen=True)
class Numbers:
    """A column that holds numbers from `least` to `most`, rounded to `decimals` digits."""

    least: float
    most: float
    decimals: int = 0
    missing: bool = False

    def __post_init__(self) -> None:
        if not -1e15 <= self.least < self.most <= 1e15:
            raise ValueError("least must be less than most")
        if not 0 <= self.decimals <= 12:
            raise ValueError("decimals must lie between 0 and 12")
        if any(round(bound, self.decimals) != bound for bound in (self.least, self.most)):
            raise ValueError(f"least and most must have at most {self.decimals} decimals, or decimals must be larger")

    @property
    def range(self) -> float:
        """The difference between the largest and the smallest number."""
        return self.most - self.least

    def code(self, cell: object) -> float:
        """Return the number, or the nearest number that the column can hold."""
        if isinstance(cell, bool | np.bool_) or not isinstance(cell, str | Real | Decimal):
            raise TypeError(f"a value of type {type(cell).__name__} instead of a number")
        try:
            number = float(cell)
        except OverflowError:
            number = math.inf if cell > 0 else -math.inf  # type: ignore[operator]
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError("a value that is not a number")
        return float(self.rounded(np.array([number]))[0])

    def rounded(self, numbers: Floats) -> Floats:
        """Replace numbers by the nearest ones that the column can hold."""
        inside: Floats = np.clip(numbers, self.least, self.most)
        return np.round(inside, self.decimals) + 0.0  # turns -0.0 into 0.0

    def cell(self, code: float) -> Cell:
        """Return the number as it is written to a row."""
        return round(float(code), self.decimals) if self.decimals else int(code)

    def bins(self, codes: Floats) -> Indices:
        """Return the bin of each number; an empty cell has the last."""
        bins = np.minimum((np.nan_to_num(codes - self.least) / self.range * BINS).astype(np.int64), BINS - 1)
        return np.where(np.isnan(codes), BINS, bins)


Column: TypeAlias = Choices | Numbers


@dataclass(frozen=True, repr=False)
class Schema:
    """The columns of a table. Rows are coded as numbers, (n, columns): the index of a choice, a number, or NaN."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError(
                "a schema needs at least one column, got none; give each column a table with choices, or least and most"
            )
        object.__setattr__(self, "columns", dict(self.columns))

    def __repr__(self) -> str:
        content = repr(sorted(self.columns.items())) + repr(list(self.columns))
        return f"Schema({len(self.columns)} columns, {hashlib.sha256(content.encode()).hexdigest()[:12]})"

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read a schema from TOML."""
        tables = toml_file(path, "the columns of")
        columns = {}
        for name, table in tables.items():
            where = f"column {brief(name)} of {path}"
            if not isinstance(table, dict):
                raise InputError(f"{where} must be a table with choices, or least and most, got {brief(table)}")
            columns[name] = _column(table, where)
        return cls(columns)

    def row(self, cells: Sequence[Any], where: str) -> str:
        """Return a row of private cells, in the order of the columns, as a line of JSON. No message quotes a cell."""
        codes = np.full((1, len(self.columns)), np.nan)
        for index, ((name, column), cell) in enumerate(zip(self.columns.items(), cells, strict=True)):
            if missing(cell) or (isinstance(cell, str) and not cell.strip()):
                if not column.missing:
                    raise InputError(f"{where} is empty in column {name!r}; fill it in, or set missing = true there")
                continue
            try:
                codes[0, index] = column.code(cell)
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{where} has {error} in column {name!r}; fix or remove the row, or extend the column in the "
                    "schema, using public knowledge only"
                ) from None
        return str(self.lines(codes)[0])

    def without(self, name: str) -> "Schema":
        """Return the schema of all other columns."""
        if name not in self.columns or len(self.columns) == 1:
            raise InputError(
                f"{name!r} is not a column of the schema, or its only one; name one of {list(self.columns)}"
            )
        return Schema({other: column for other, column in self.columns.items() if other != name})

    def lines(self, codes: Floats) -> Samples:
        """Return coded rows, (n, columns), as lines of JSON, (n,)."""
        parts = [
            [None if math.isnan(code) else column.cell(code) for code in codes[:, index].tolist()]
            for index, column in enumerate(self.columns.values())
        ]
        rows = zip(*parts, strict=True)
        return as_samples([json.dumps(dict(zip(self.columns, row, strict=True)), ensure_ascii=False) for row in rows])

    def codes(self, lines: Samples) -> Floats:
        """Return the codes, (n, columns), of lines, (n,), written by `lines` or `row` of this schema."""
        codes = np.empty((len(lines), len(self.columns)))
        for index, line in enumerate(lines):
            try:
                cells = json.loads(line)
                if list(cells) != list(self.columns):
                    raise ValueError
                codes[index] = [
                    math.nan if cells[name] is None and column.missing else column.code(cells[name])
                    for name, column in self.columns.items()
                ]
            except (ValueError, TypeError, RecursionError):
                raise InputError(
                    f"text {index + 1} of {len(lines)} is not a row of this schema; use rows of it"
                ) from None
        return codes

    def bins(self, codes: Floats) -> Indices:
        """Return the index of each cell's value, or of its bin, (n, columns)."""
        columns = self.columns.values()
        return np.stack([column.bins(codes[:, index]) for index, column in enumerate(columns)], axis=1)


def _column(table: dict[str, Any], where: str) -> Column:
    known = ("choices", "missing") if "choices" in table else ("least", "most", "decimals", "missing")
    for name in table:
        if name not in known:
            raise InputError(f"{where} has {brief(name)}; did you mean {nearest_name(name, known)!r}?")
    empty = table.get("missing", False)
    if not isinstance(empty, bool):
        raise InputError(f"missing of {where} must be true or false, got {brief(empty)}")
    try:
        if "choices" in table:
            if not isinstance(table["choices"], list):
                raise ValueError("choices must be a list of texts or a list of integers")
            return Choices(tuple(table["choices"]), empty)
        bounds = [table.get(name) for name in ("least", "most")]
        if not all(type(bound) in {int, float} and abs(bound) <= 1e15 for bound in bounds):  # type: ignore[arg-type]
            raise ValueError("it needs choices, or least and most as numbers between -1e15 and 1e15")
        least, most = (float(bound) for bound in bounds)  # type: ignore[arg-type]
        whole = all(type(bound) is int for bound in bounds)
        decimals = table.get("decimals", 0 if whole else _usual_decimals(least, most))
        if type(decimals) is not int:
            raise ValueError("decimals must be an integer")
        return Numbers(least, most, decimals, empty)
    except ValueError as error:
        raise InputError(f"{where}: {error}, got {brief(table)}") from None


def _usual_decimals(least: float, most: float) -> int:
    """Return enough decimals for a step of about a thousandth of the range, and for both ends."""
    steps = 3 - math.floor(math.log10(most - least)) if most > least else 0
    fine = (digits for digits in range(13) if all(round(bound, digits) == bound for bound in (least, most)))
    return min(max(0, steps, next(fine, 12)), 12)


def _spellings(cell: object) -> Iterator[str]:
    """Yield the spellings that a value may have among choices; files and frames write the same value differently."""
    if isinstance(cell, Integral) and not -(2**63) <= int(cell) < 2**63:
        return  # Python may refuse to convert so many digits
    text = str(cell).strip()
    yield text
    if text.lower() in {"true", "false"}:
        yield from (text.lower(), text.capitalize(), *([str(int(cell))] if isinstance(cell, bool | np.bool_) else []))
    try:
        number = float(text)
    except ValueError:
        return
    if math.isfinite(number) and number.is_integer():
        yield str(int(number))
