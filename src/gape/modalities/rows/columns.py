"""Kinds of columns of a table whose cells can be written as numbers: choices, numbers and dates."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from gape._support.values import brief, nearest_name
from gape.core.errors import InputError
from gape.core.types import Floats, Indices

MOST_CHOICES = 1_000  # each choice is a dimension of the embedding
FILL_IN = "fill in from public knowledge"  # marks what a drafted schema lacks
HEAVIEST = 1_000  # largest weight of a column
COMMON = ("missing", "weight")  # keys that every kind of column has
BINS = 20  # per range of a number, to compare distributions

_RESOLUTIONS = ("year", "month", "day", "hour")
_PARTIAL_DATE = re.compile(r"(\d{4})(?:-(\d{2}))?")

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


@dataclass(frozen=True)
class Dates(Numbers):
    """A column that holds dates as the number of years, months, days or hours; in a row they are written in ISO 8601.

    Dates outside the range count as its nearest end. Time zones are ignored: a time counts as it is written.
    """

    resolution: str = "day"

    @classmethod
    def between(cls, least: date, most: date, resolution: str = "day", *, missing: bool = False) -> "Dates":
        """Return a column of dates from `least` to `most`."""
        if resolution not in _RESOLUTIONS:
            raise ValueError(f"resolution must be one of {', '.join(_RESOLUTIONS)}")
        first, last = (float(_periods(bound, resolution)) for bound in (least, most))
        return cls(first, last, 0, missing, resolution)

    def code(self, cell: object) -> float:
        """Return the number of the period that a date lies in, or of the nearest end of the range."""
        if isinstance(cell, np.datetime64):
            cell = cell.astype("datetime64[s]").item()
        if self.resolution == "year" and isinstance(cell, Integral):
            cell = f"{int(cell):04d}" if 0 < int(cell) < 10_000 else ""
        if isinstance(cell, str):
            text = cell.strip()
            partial = _PARTIAL_DATE.fullmatch(text)
            try:
                cell = date(int(partial[1]), int(partial[2] or 1), 1) if partial else datetime.fromisoformat(text)
            except ValueError:
                raise ValueError("a value that is not a date such as 2024-07-31") from None
        if not isinstance(cell, date):
            raise TypeError(f"a value of type {type(cell).__name__} instead of a date")
        return float(self.rounded(np.array([float(_periods(cell, self.resolution))]))[0])

    def cell(self, code: float) -> Cell:
        """Return the date as it is written to a row."""
        number = int(code)
        if self.resolution == "year":
            return f"{number:04d}"
        if self.resolution == "month":
            return f"{number // 12:04d}-{number % 12 + 1:02d}"
        if self.resolution == "day":
            return date.fromordinal(number).isoformat()
        moment = datetime.combine(date.fromordinal(number // 24), datetime.min.time()) + timedelta(hours=number % 24)
        return moment.isoformat(timespec="minutes")


def _periods(day: date, resolution: str) -> int:
    if resolution == "year":
        return day.year
    if resolution == "month":
        return day.year * 12 + day.month - 1
    return day.toordinal() if resolution == "day" else day.toordinal() * 24 + getattr(day, "hour", 0)


Column: TypeAlias = Choices | Numbers


def column_of(table: Mapping[str, Any], where: str) -> Column:
    """Return the column that a table of a schema describes."""
    dated = any(isinstance(table.get(name), date) for name in ("least", "most"))
    own = ("choices",) if "choices" in table else ("least", "most", "resolution" if dated else "decimals")
    refuse_unknown_keys(table, own, where)
    empty = bool(spellings_of_missing(table, where)) or may_be_missing(table, where)
    try:
        if dated:
            return _dates(table, missing=empty)
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


def _dates(table: Mapping[str, Any], *, missing: bool) -> Dates:
    least, most = table.get("least"), table.get("most")
    if not isinstance(least, date) or not isinstance(most, date):
        raise ValueError("least and most must both be dates")  # noqa: TRY004  (a message about the schema)
    return Dates.between(least, most, str(table.get("resolution", "day")), missing=missing)


def holds_texts(table: Mapping[str, Any]) -> bool:
    """Return whether a table of a schema describes a column of texts or conversations."""
    return "text" in table or "roles" in table


def refuse_unknown_keys(table: Mapping[str, Any], own: tuple[str, ...], where: str) -> None:
    """Refuse a key that columns of a kind do not have."""
    known = (*own, *COMMON)
    for name in table:
        if name not in known:
            raise InputError(f"{where} has {brief(name)}; did you mean {nearest_name(name, known)!r}?")


def may_be_missing(table: Mapping[str, Any], where: str) -> bool:
    """Return whether cells of a column may be empty."""
    empty = table.get("missing", False)
    if not isinstance(empty, bool):
        raise InputError(f"missing of {where} must be true or false, got {brief(empty)}")
    return empty


def spellings_of_missing(table: Mapping[str, Any], where: str) -> frozenset[str]:
    """Return the texts that stand for an empty cell of a column, besides blank ones."""
    empty = table.get("missing", False)
    if isinstance(empty, bool):
        return frozenset()
    if not isinstance(empty, list) or not empty or not all(isinstance(text, str) and text.strip() for text in empty):
        rule = 'true, false or how an empty cell is spelled, such as ["NA"]'
        raise InputError(f"missing of {where} must be {rule}, got {brief(empty)}")
    return frozenset(text.strip() for text in empty)


def weight_of(table: Mapping[str, Any], where: str) -> float:
    """Return how much a column counts in the distance between two rows, compared with other columns."""
    weight = table.get("weight", 1.0)
    if type(weight) not in {int, float} or not 0 < weight <= HEAVIEST:
        raise InputError(f"weight of {where} must be a number above 0 and up to {HEAVIEST}, got {brief(weight)}")
    return float(weight)


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
