"""Tables: what each column can hold, and rows as lines of JSON.

A schema is a TOML file with a table for each column:

    [age]
    least = 17                            # whole numbers; 17.0 would allow fractions
    most = 90

    [income]
    choices = ["<=50K", ">50K"]

    [weight]
    least = 30.0
    most = 200.0
    decimals = 1                          # by default a thousandth of the range
    missing = true                        # cells may be empty

All of it is public knowledge, and none of it may be read off the private data: the least and the largest value that
occur belong to two records. A row is held as a line of JSON, so that whatever works on texts works on rows.
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

MOST_CHOICES = 1_000  # each is a dimension of the embedding
BINS = 20  # into which the range of a number is divided to compare how values are spread

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True)
class Choices:
    """A column that holds one of a few values."""

    values: tuple[str | int, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        if {type(value) for value in self.values} not in ({str}, {int}):
            raise ValueError("choices must be a list of texts, or one of whole numbers")
        if type(self.values[0]) is int and not all(-(2**63) <= int(value) < 2**63 for value in self.values):
            raise ValueError("whole numbers of more than 64 bits must be written as texts")
        different = len(self._places) == len(self.values) and all(str(value).strip() for value in self.values)
        if not 2 <= len(self.values) <= MOST_CHOICES or not different:
            raise ValueError(f"choices must be 2 to {MOST_CHOICES:,}, different and none of them blank")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {str(value).strip(): place for place, value in enumerate(self.values)}

    @property
    def count(self) -> int:
        """How many values there are, an empty cell being one where it is allowed."""
        return len(self.values) + int(self.missing)

    def code(self, cell: object) -> float:
        """Return the place of a value in the list; 7, 7.0 and "7.0" are one, and so are True, "True" and "true"."""
        place = next((self._places[said] for said in _spellings(cell) if said in self._places), None)
        if place is None:
            raise ValueError(f"a value that is none of its {len(self.values)} choices")
        return float(place)

    def cell(self, code: float) -> Cell:
        """Return the value at a place."""
        return self.values[int(code)]

    def bins(self, codes: Floats) -> Indices:
        """Return the places, an empty cell having the last."""
        return np.where(np.isnan(codes), len(self.values), codes).astype(np.int64)


@dataclass(frozen=True)
class Numbers:
    """A column that holds numbers from `least` to `most`, rounded to so many decimals."""

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
            raise ValueError(f"least and most must have no more than {self.decimals} decimals, or decimals be more")

    @property
    def range(self) -> float:
        """How far the largest is from the least."""
        return self.most - self.least

    def code(self, cell: object) -> float:
        """Return the number, moved to the nearest that the column can hold."""
        if isinstance(cell, bool | np.bool_) or not isinstance(cell, str | Real | Decimal):
            raise TypeError(f"{type(cell).__name__} where a number should be")
        try:
            number = float(cell)
        except OverflowError:
            number = math.inf if cell > 0 else -math.inf  # type: ignore[operator]
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError("something else than a number")
        return float(self.rounded(np.array([number]))[0])

    def rounded(self, numbers: Floats) -> Floats:
        """Move numbers to the nearest that the column can hold."""
        inside: Floats = np.clip(numbers, self.least, self.most)
        return np.round(inside, self.decimals) + 0.0  # for no -0.0

    def cell(self, code: float) -> Cell:
        """Return the number as it is written."""
        return round(float(code), self.decimals) if self.decimals else int(code)

    def bins(self, codes: Floats) -> Indices:
        """Return which part of the range each is in, an empty cell in the last."""
        places = np.minimum((np.nan_to_num(codes - self.least) / self.range * BINS).astype(np.int64), BINS - 1)
        return np.where(np.isnan(codes), BINS, places)


Column: TypeAlias = Choices | Numbers


@dataclass(frozen=True, repr=False)
class Schema:
    """The columns of a table. Rows are coded as numbers, (n, columns): a place among choices, a number, or NaN."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("a schema needs at least one column; give each a table with choices, or least and most")
        object.__setattr__(self, "columns", dict(self.columns))

    def __repr__(self) -> str:
        told = repr(sorted(self.columns.items())) + repr(list(self.columns))
        return f"Schema({len(self.columns)} columns, {hashlib.sha256(told.encode()).hexdigest()[:12]})"

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read a schema from TOML."""
        tables = toml_file(path, "the columns of")
        columns = {}
        for name, told in tables.items():
            where = f"column {brief(name)} of {path}"
            if not isinstance(told, dict):
                raise InputError(f"{where} must be a table with choices, or least and most, got {brief(told)}")
            columns[name] = _column(told, where)
        return cls(columns)

    def row(self, cells: Sequence[Any], where: str) -> str:
        """Write a row of private cells, in the order of the columns, as a line. No message quotes a cell."""
        codes = np.full((1, len(self.columns)), np.nan)
        for place, ((name, column), cell) in enumerate(zip(self.columns.items(), cells, strict=True)):
            if missing(cell) or (isinstance(cell, str) and not cell.strip()):
                if not column.missing:
                    raise InputError(f"{where} has nothing in column {name!r}; fill it in, or set missing = true there")
                continue
            try:
                codes[0, place] = column.code(cell)
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{where} has {error} in column {name!r}; mend the row or leave it out, or widen the column of the "
                    "schema by what is public knowledge"
                ) from None
        return str(self.lines(codes)[0])

    def without(self, name: str) -> "Schema":
        """Return the schema of all other columns."""
        if name not in self.columns or len(self.columns) == 1:
            raise InputError(
                f"{name!r} is no column of the schema with others beside it; name one of {list(self.columns)}"
            )
        return Schema({other: column for other, column in self.columns.items() if other != name})

    def lines(self, codes: Floats) -> Samples:
        """Write coded rows, (n, columns), as lines of JSON, (n,)."""
        parts = [
            [None if math.isnan(code) else column.cell(code) for code in codes[:, place].tolist()]
            for place, column in enumerate(self.columns.values())
        ]
        rows = zip(*parts, strict=True)
        return as_samples([json.dumps(dict(zip(self.columns, row, strict=True)), ensure_ascii=False) for row in rows])

    def codes(self, lines: Samples) -> Floats:
        """Read lines, (n,), that `lines` or `row` of this schema has written: the codes, (n, columns)."""
        codes = np.empty((len(lines), len(self.columns)))
        for place, line in enumerate(lines):
            try:
                cells = json.loads(line)
                if list(cells) != list(self.columns):
                    raise ValueError
                codes[place] = [
                    math.nan if cells[name] is None and column.missing else column.code(cells[name])
                    for name, column in self.columns.items()
                ]
            except (ValueError, TypeError, RecursionError):
                raise InputError(
                    f"text {place + 1} of {len(lines)} is no row of this schema; give rows of it"
                ) from None
        return codes

    def bins(self, codes: Floats) -> Indices:
        """Return which value, or which part of its range, every cell has, (n, columns)."""
        columns = self.columns.values()
        return np.stack([column.bins(codes[:, place]) for place, column in enumerate(columns)], axis=1)


def _column(told: dict[str, Any], where: str) -> Column:
    known = ("choices", "missing") if "choices" in told else ("least", "most", "decimals", "missing")
    for name in told:
        if name not in known:
            raise InputError(f"{where} has {brief(name)}; did you mean {nearest_name(name, known)!r}?")
    empty = told.get("missing", False)
    if not isinstance(empty, bool):
        raise InputError(f"missing of {where} must be true or false, got {brief(empty)}")
    try:
        if "choices" in told:
            if not isinstance(told["choices"], list):
                raise ValueError("choices must be a list of texts, or one of whole numbers")
            return Choices(tuple(told["choices"]), empty)
        bounds = [told.get(name) for name in ("least", "most")]
        if not all(type(bound) in {int, float} and abs(bound) <= 1e15 for bound in bounds):  # type: ignore[arg-type]
            raise ValueError("it needs choices, or least and most as numbers within 1e15 of zero")
        least, most = (float(bound) for bound in bounds)  # type: ignore[arg-type]
        whole = all(type(bound) is int for bound in bounds)
        decimals = told.get("decimals", 0 if whole else _usual_decimals(least, most))
        if type(decimals) is not int:
            raise ValueError("decimals must be a whole number")
        return Numbers(least, most, decimals, empty)
    except ValueError as error:
        raise InputError(f"{where}: {error}, got {brief(told)}") from None


def _usual_decimals(least: float, most: float) -> int:
    """So many that a step is about a thousandth of the range, and that both ends can be written."""
    steps = 3 - math.floor(math.log10(most - least)) if most > least else 0
    fine = (digits for digits in range(13) if all(round(bound, digits) == bound for bound in (least, most)))
    return min(max(0, steps, next(fine, 12)), 12)


def _spellings(cell: object) -> Iterator[str]:
    """Give the ways in which a value may stand among choices: files and frames write the same one differently."""
    if isinstance(cell, Integral) and not -(2**63) <= int(cell) < 2**63:
        return  # whose digits may be more than can be written
    said = str(cell).strip()
    yield said
    if said.lower() in {"true", "false"}:
        yield from (said.lower(), said.capitalize(), *([str(int(cell))] if isinstance(cell, bool | np.bool_) else []))
    try:
        number = float(said)
    except ValueError:
        return
    if math.isfinite(number) and number.is_integer():
        yield str(int(number))
