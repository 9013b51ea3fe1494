"""Read the rows of a private table from files or memory."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from itertools import islice
from typing import Any, Protocol

import numpy as np

from gape.core.errors import InputError, RunError
from gape.core.types import Samples, as_samples
from gape.modalities.records import Records, contents_of, open_table, record_user
from gape.modalities.tables import Table, missing


class RowSchema(Protocol):
    """A schema of named columns that writes the cells of a row as a line of JSON."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns by name."""
        ...

    def row(self, cells: Sequence[Any], where: str) -> str:
        """Return a row of private cells, in the order of the columns, as a line of JSON. No message quotes a cell."""
        ...


def load_rows(source: object, schema: RowSchema, user: str | None = None, most: int | None = None) -> Records:
    """Read the rows of a private table, each as a line of JSON, with the user of each if a column is named.

    A source is anything with columns that `load_texts` reads. Columns that are not in the schema are left out. A number
    outside its range becomes the nearest end; anything else that the schema does not allow is refused. All rows are in
    memory; more than `most` are refused.
    """
    records = next(row_blocks(source, schema, user, None if most is None else most + 1))
    if most is not None and len(records) > most:
        raise InputError(
            f"{records.source} has more than {most:,} rows, too many to hold in memory for rounds, evaluations and "
            "comparisons; use a random sample of them, or a survey alone"
        )
    return records


def row_blocks(source: object, schema: RowSchema, user: str | None, size: int | None) -> Iterator[Records]:
    """Read what `load_rows` reads, at most `size` rows at a time; with None all at once."""
    table, once = open_rows(source, schema.columns, user)
    rows = enumerate(table.rows(once), start=1)
    block = _read(table, once, islice(rows, size), schema, user)
    if not len(block):
        raise InputError(f"{table.source} holds no rows; add at least one record")
    while len(block):
        yield block
        block = _read(table, once, islice(rows, size), schema, user)


def _read(
    table: Table, once: Sequence[str], rows: Iterable[tuple[int, Sequence[Any]]], schema: RowSchema, user: str | None
) -> Records:
    """Read numbered rows of a table, whose cells are in the columns `once`."""
    positions = {name: position for position, name in enumerate(once)}
    lines, users, contents = [], [], []
    for number, cells in rows:
        where = f"{table.row} {number} of {table.source}"
        lines.append(schema.row([cells[positions[name]] for name in schema.columns], where))
        contents.append("\0".join(map(content_of, cells)).encode(errors="surrogatepass"))
        if user is not None:
            users.append(record_user(cells[positions[user]], where, user))
    owners = None if user is None else as_samples(users)
    return Records(as_samples(lines), None, owners, 0, table.source, tuple(contents))


def require_rows(samples: Samples) -> Samples:
    """Return samples that are rows, as lines of JSON; refuse others, because a run folder may come from anyone."""
    try:
        if all(map(_is_row, contents_of(samples))):
            return samples
    except (ValueError, TypeError, RecursionError):
        pass
    raise RunError("a column does not hold rows; restore it from a copy")


def _is_row(line: str) -> bool:
    row = json.loads(line)
    turns = [turn for cell in row.values() if isinstance(cell, list) for turn in cell] if isinstance(row, dict) else []
    return isinstance(row, dict) and all(isinstance(turn, dict) and {"role", "content"} <= set(turn) for turn in turns)


def open_rows(source: object, columns: Iterable[str], user: str | None) -> tuple[Table, list[str]]:
    """Open a table, and return the names of all columns that occur once, in order: they identify a record."""
    table, names = open_table(source), list(columns)
    if not table.names:
        raise InputError(f"{table.source} has no columns; use a table with the columns of the schema")
    if user in names:
        raise InputError(f"column {user!r} holds the user and is not synthesised; leave it out of the schema")
    occurs = Counter(table.names)
    for name in (
        names if user is None else [*names, user]
    ):  # messages name only these: without a header, other names are cells
        if occurs[name] != 1:
            found = f"{occurs[name] or 'no'} column{'s' * (occurs[name] > 1)} {name!r} among its {len(table.names)}"
            raise InputError(f"{table.source} has {found}; give it a header with each column of the schema once")
    return table, sorted(name for name, times in occurs.items() if times == 1)


def content_of(cell: Any) -> str:
    """Return the content of a cell, the same whether it comes from a file or a frame."""
    if missing(cell):
        return ""
    if isinstance(cell, float | np.floating | Decimal) and math.isfinite(cell) and cell == int(cell):
        cell = int(cell)
    if isinstance(cell, datetime) and cell.time() == time():
        cell = cell.date()  # frames hold days as midnights
    if isinstance(cell, list | dict):
        return json.dumps(cell, sort_keys=True, ensure_ascii=False, default=str)
    return str(cell).strip()
