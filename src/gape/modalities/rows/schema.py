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
    missing = true                        # cells may be empty; ["NA", "?"]: and are also spelled so
    weight = 2                            # counts twice as much as another column; 1 by default

    [visit]
    least = 2015-01-01                    # dates, written as in ISO 8601
    most = 2024-12-31
    resolution = "month"                  # year, month, day (the default) or hour

All of it must be public knowledge and must not be derived from the private data: the smallest and the largest value
that occur belong to two records. A row is held as a line of JSON, so that everything that works on texts works on rows.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gape._support.values import brief, toml_file
from gape.core.errors import InputError
from gape.core.types import Floats, Indices, Samples, as_samples
from gape.modalities.rows.columns import (
    FILL_IN,
    MOST_CHOICES,
    Choices,
    Column,
    Dates,
    Numbers,
    column_of,
    holds_texts,
    spellings_of_missing,
    weight_of,
)
from gape.modalities.tables import missing

__all__ = ["MOST_CHOICES", "Choices", "Column", "Dates", "Numbers", "Schema"]


@dataclass(frozen=True, repr=False)
class Schema:
    """The columns of a table. Rows are coded as numbers, (n, columns): the index of a choice, a number, or NaN."""

    columns: Mapping[str, Column]
    weights: Mapping[str, float] = field(default_factory=dict)  # of columns that do not count once
    spelled: Mapping[str, frozenset[str]] = field(default_factory=dict)  # texts that stand for empty cells

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError(
                "a schema needs at least one column, got none; give each column a table with choices, or least and most"
            )
        object.__setattr__(self, "columns", dict(self.columns))

    def __repr__(self) -> str:
        content = repr(sorted(self.columns.items())) + repr(list(self.columns))
        content += repr(sorted(self.weights.items())) if self.weights else ""
        content += repr([(name, sorted(texts)) for name, texts in sorted(self.spelled.items())]) if self.spelled else ""
        return f"Schema({len(self.columns)} columns, {hashlib.sha256(content.encode()).hexdigest()[:12]})"

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read a schema from TOML."""
        return cls.of(column_tables(path), path)

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]], path: str | Path) -> "Schema":
        """Make a schema of the tables of a TOML file."""
        columns, weights = {}, {}
        for name, table in tables.items():
            where = f"column {brief(name)} of {path}"
            if holds_texts(table):
                raise InputError(f"{where} holds texts; use the modality mixed")
            columns[name], weights[name] = column_of(table, where), weight_of(table, where)
        spelled = {name: spellings_of_missing(table, name) for name, table in tables.items()}
        return cls(
            columns,
            {name: weight for name, weight in weights.items() if weight != 1},
            {name: texts for name, texts in spelled.items() if texts},
        )

    @cached_property
    def blanks(self) -> tuple[frozenset[str], ...]:
        """The texts that stand for an empty cell of each column."""
        return tuple(self.spelled.get(name, frozenset()) | {""} for name in self.columns)

    def row(self, cells: Sequence[Any], where: str) -> str:
        """Return a row of private cells, in the order of the columns, as a line of JSON. No message quotes a cell."""
        return str(self.lines(np.array([self.code(cells, where)]))[0])

    def code(self, cells: Sequence[Any], where: str) -> list[float]:
        """Return the codes of a row of private cells, in the order of the columns. No message quotes a cell."""
        codes = []
        for (name, column), blanks, cell in zip(self.columns.items(), self.blanks, cells, strict=True):
            if is_empty(cell, blanks):
                if not column.missing:
                    raise InputError(f"{where} is empty in column {name!r}; fill it in, or set missing = true there")
                codes.append(math.nan)
                continue
            try:
                codes.append(column.code(cell))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{where} has {error} in column {name!r}; fix or remove the row, or extend the column in the "
                    'schema, using public knowledge only; missing = ["NA"] there makes NA an empty cell'
                ) from None
        return codes

    def without(self, name: str) -> "Schema":
        """Return the schema of all other columns."""
        if name not in self.columns or len(self.columns) == 1:
            raise InputError(
                f"{name!r} is not a column of the schema, or its only one; name one of "
                f"{', '.join(map(brief, self.columns))}"
            )
        weights = {other: weight for other, weight in self.weights.items() if other != name}
        columns = {other: column for other, column in self.columns.items() if other != name}
        return Schema(columns, weights, {other: texts for other, texts in self.spelled.items() if other != name})

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


def is_empty(cell: object, blanks: frozenset[str]) -> bool:
    """Return whether a private cell is empty, or is a text that stands for an empty one."""
    return missing(cell) or (isinstance(cell, str) and cell.strip() in blanks)


def column_tables(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read the tables of a schema file, one per column. The file is read again only if it changes."""
    return _tables(str(path), file_state(path))


def file_state(path: str | Path) -> tuple[int, ...] | None:
    """Return what tells whether a file has changed; None if it cannot be read."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None  # whoever reads it raises the error
    return status.st_mtime_ns, status.st_size, status.st_ino


@lru_cache(16)
def _tables(path: str, state: object) -> dict[str, dict[str, Any]]:  # noqa: ARG001  (part of the key)
    tables = toml_file(path, "the columns of")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(
                f"column {brief(name)} of {path} must be a table with choices, or least and most, got {brief(table)}"
            )
        for key, value in table.items():
            if value in (FILL_IN, [FILL_IN]):
                raise InputError(
                    f"{key} of column {brief(name)} of {path} is still to be filled in; write it from public "
                    "knowledge, not from the data"
                )
    return tables
