"""Schemas of rows that hold texts beside other cells.

The file is that of a table (`gape.modalities.rows.schema`), with a kind of column for texts, and one for conversations
(`gape.modalities.mixed.turns`):

    [review]
    text = "customer reviews of restaurants"    # what the texts are
    words = 80                                  # about how many words a text has
    agrees = ["stars"]                          # columns that a text must agree with; by default all before it, and
                                                # all that hold no texts
    missing = true                              # cells may be empty
    weight = 2                                  # how much it counts in the distance between two rows

A column of choices can say what its values mean for a text, and how a text with a value may begin:

    [stars]
    choices = [1, 2, 3, 4, 5]
    means.1 = "You are very angry."             # told to the model instead of the value
    openings.1 = ["Terrible", "Never again"]    # first words, for models that can continue them

All of it must be public knowledge.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gape._support.values import brief
from gape.core.errors import InputError
from gape.core.types import Samples, as_samples
from gape.modalities.mixed.columns import TELLING, Prose, Telling, prose_of, telling_of
from gape.modalities.mixed.turns import turns_of
from gape.modalities.rows.columns import Choices, Column, holds_texts, weight_of
from gape.modalities.rows.schema import Schema, column_tables

# Whether a text that may be missing is there, as a column of cells (`MixedSchema.outline`).
_PRESENCE = Choices(("written", "empty"))


@dataclass(frozen=True, repr=False)
class MixedSchema:
    """The columns of rows with texts, in their order. A row is held as a line of JSON."""

    names: tuple[str, ...]
    cells: Schema | None  # the columns without texts; None if there are none
    texts: Mapping[str, Prose]
    weights: Mapping[str, float] = field(default_factory=dict)  # of columns of texts that do not count once
    telling: Mapping[str, Telling] = field(default_factory=dict)  # of columns whose values are told in words

    def __post_init__(self) -> None:
        for name, text in self.texts.items():
            for other in text.agrees or ():
                if other == name or other not in self.told(name, everything=True):
                    raise InputError(
                        f"column {brief(name)} agrees with {brief(other)}, which is not a column before it; name "
                        "columns without texts, or texts that stand before it in the schema"
                    )

    def __repr__(self) -> str:
        content = repr((self.names, self.cells, sorted(self.texts.items()), sorted(self.weights.items())))
        content += repr(sorted(self.telling.items())) if self.telling else ""
        return f"MixedSchema({len(self.names)} columns, {hashlib.sha256(content.encode()).hexdigest()[:12]})"

    @classmethod
    def read(cls, path: str | Path) -> "MixedSchema":
        """Read a schema from TOML."""
        tables = column_tables(path)
        texts: dict[str, Prose] = {}
        weights: dict[str, float] = {}
        for name, table in tables.items():
            if holds_texts(table):
                where = f"column {brief(name)} of {path}"
                texts[name] = turns_of(table, where) if "roles" in table else prose_of(table, where)
                weights[name] = weight_of(table, where)
        if not texts:
            raise InputError(f"{path} has no column of texts; use the modality rows, or describe one with text = ...")
        others = {
            name: {key: value for key, value in table.items() if key not in TELLING}
            for name, table in tables.items()
            if name not in texts
        }
        cells = Schema.of(others, path) if others else None
        told = (
            {name: telling_of(tables[name], cells.columns[name], f"column {brief(name)} of {path}") for name in others}
            if cells
            else {}
        )
        return cls(
            tuple(tables),
            cells,
            texts,
            {name: weight for name, weight in weights.items() if weight != 1},
            {name: telling for name, telling in told.items() if telling is not None},
        )

    @property
    def columns(self) -> dict[str, Column | Prose]:
        """All columns by name, in their order."""
        return {name: self.texts[name] if name in self.texts else self._cell(name) for name in self.names}

    @property
    def outline(self) -> Schema | None:
        """The cells of a row, and for each text that may be missing whether it is there; None if there are neither."""
        present = {name: _PRESENCE for name, text in self.texts.items() if text.missing}
        columns = {**({} if self.cells is None else self.cells.columns), **present}
        return Schema(columns) if columns else None

    def told(self, name: str, *, everything: bool = False) -> tuple[str, ...]:
        """Return the columns that the text `name` must agree with; with `everything`, those that it could."""
        agrees = self.texts[name].agrees
        if agrees is not None and not everything:
            return agrees
        before = self.names[: self.names.index(name)]
        return tuple(other for other in self.names if other not in self.texts or other in before)

    def cell(self, name: str, value: str) -> Any:
        """Return the value of a cell that is written as `value`."""
        column = None if self.cells is None else self.cells.columns.get(name)
        if column is None:
            raise InputError(f"{name!r} is not a column without texts; name one of them")
        try:
            return column.cell(column.code(value))
        except ValueError as error:
            raise InputError(f"{brief(value)} is {error} for column {brief(name)}; use a value of the schema") from None

    def without(self, name: str) -> "MixedSchema":
        """Return the schema of all columns but one that holds no texts."""
        alone = self.cells is None or len(self.cells.columns) == 1
        return replace(
            self,
            names=tuple(other for other in self.names if other != name),
            cells=None if self.cells is None or alone else self.cells.without(name),
            texts={own: text.without(name) for own, text in self.texts.items()},
            telling={other: telling for other, telling in self.telling.items() if other != name},
        )

    def row(self, cells: Sequence[Any], where: str) -> str:
        """Return a row of private cells, in the order of the columns, as a line of JSON. No message quotes a cell."""
        given = dict(zip(self.names, cells, strict=True))
        row: dict[str, Any] = {}
        if self.cells is not None:
            row = json.loads(self.cells.row([given[name] for name in self.cells.columns], where))
        for name, text in self.texts.items():
            row[name] = text.read(given[name], f"{where}, in column {name!r},")
            if row[name] is None and not text.missing:
                raise InputError(f"{where} is empty in column {name!r}; fill it in, or set missing = true there")
        return self.line(row)

    def split(self, lines: Samples) -> tuple[list[dict[str, Any]], dict[str, list[str | None]]]:
        """Return the cells of rows, (n,), and their texts by column, (n,) each; None for a missing text."""
        cells, texts = [], {name: list[str | None]() for name in self.texts}
        for index, line in enumerate(lines):
            try:
                row = json.loads(line)
                if list(row) != list(self.names):
                    raise ValueError
                for name, column in self.texts.items():
                    texts[name].append(None if row[name] is None and column.missing else column.shown(row[name]))
            except (ValueError, TypeError, RecursionError):
                raise InputError(
                    f"text {index + 1} of {len(lines)} is not a row of this schema; use rows of it"
                ) from None
            cells.append({name: row[name] for name in self.names if name not in self.texts})
        return cells, texts

    def join(self, cells: Sequence[Mapping[str, Any]], texts: Mapping[str, Sequence[str | None]]) -> Samples:
        """Return rows as lines of JSON, (n,), from what `split` returns."""
        rows = []
        for index, others in enumerate(cells):
            written = {name: texts[name][index] for name in self.texts}
            values = {name: None if text is None else self.texts[name].value(text) for name, text in written.items()}
            rows.append(self.line({**others, **values}))
        return as_samples(rows)

    def cell_lines(self, cells: Sequence[Mapping[str, Any]]) -> Samples:
        """Return cells as lines of the schema `cells`."""
        return as_samples([json.dumps(row, ensure_ascii=False) for row in cells])

    def _cell(self, name: str) -> Column:
        if self.cells is None:
            raise InputError(f"{name!r} is not a column of the schema; name one of {', '.join(map(brief, self.names))}")
        return self.cells.columns[name]

    def line(self, row: Mapping[str, Any]) -> str:
        """Return a row as a line of JSON, in the order of the columns."""
        return json.dumps({name: row[name] for name in self.names}, ensure_ascii=False)
