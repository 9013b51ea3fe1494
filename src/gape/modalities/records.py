"""Private records and how they are loaded."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gape.core.errors import InputError
from gape.core.types import as_samples
from gape.modalities.files import LONGEST, from_path
from gape.modalities.rows.schema import Schema
from gape.modalities.tables import SOME, Table, from_arrow, from_frame, from_items, is_name, missing, shown

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"([+-]?\d{1,40})\.0+")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,8})?")  # which decimal arithmetic does not round


@dataclass(frozen=True, eq=False)
class Records:
    """Private records: a text each and, where asked for, a label and the user it belongs to. Its repr shows none."""

    texts: NDArray[np.object_] = field(repr=False)  # (n,): str, none of them blank
    labels: NDArray[np.object_] | None = field(repr=False)  # (n,): str
    users: NDArray[np.object_] | None = field(repr=False)  # (n,): str
    dropped: int  # blank rows that were left out
    source: str  # where they come from, in words
    # Of rows of a table, what they hold in all columns, (n,): the ledger knows them by it, whatever schema reads them.
    contents: tuple[bytes, ...] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.texts)


def load_texts(source: object, text: str | None = None, label: str | None = None, user: str | None = None) -> Records:
    """Read private texts, with the label and the user of each where their columns are named.

    A source is a path or data in memory:

    - a .csv or .tsv file with a header, .jsonl or .ndjson with an object a line, .txt with a text a line, each also
      compressed as .gz, or .parquet;
    - a folder of .txt files with a text each, of parquet shards, or as `datasets` writes it by `save_to_disk`;
    - a pandas or polars frame, a pyarrow table, a list of dicts, or a list, tuple, array or series of texts.

    `text` may be left out where a single column holds texts. Files are UTF-8, or UTF-16 with its mark. Rows whose
    text is blank or missing are left out and counted. Labels and users become strings, and none may be missing: whose
    record it is decides what is protected. Users are told apart by `record_user`, whatever holds their names. Half a
    surrogate pair, which is no character, becomes U+FFFD.
    """
    table = open_table(source)
    chosen, readers = choose_columns(table, text, label, user), name_readers(label, user)
    columns: list[list[str]] = [[] for _ in chosen]
    dropped = 0
    for number, cells in enumerate(table.rows(chosen), start=1):
        where = f"{table.row} {number} of {table.source}"
        record = record_text(cells[0], where)
        if record is None:
            dropped += 1
            continue
        names = [read(cell, where, column) for read, cell, column in zip(readers, cells[1:], chosen[1:], strict=True)]
        for column, value in zip(columns, [record, *names], strict=True):
            column.append(value)
    if not columns[0]:
        raise InputError(f"{table.source} holds no text, only blank rows ({dropped}); give at least one record")
    texts, *others = (as_samples(column) for column in columns)
    labels = others.pop(0) if label is not None else None
    users = others.pop(0) if user is not None else None
    return Records(texts, labels, users, dropped, table.source)


def load_rows(source: object, schema: Schema, user: str | None = None) -> Records:
    """Read the rows of a private table, each as a line of JSON, with the user of each where a column is named.

    A source is what `load_texts` takes and has columns. Columns that the schema does not have are left out. A number
    beyond its range becomes the end of it; anything else that the schema does not allow is refused.
    """
    table = open_table(source)
    names = list(schema.columns)
    if not table.names:
        raise InputError(f"{table.source} has no columns; give a table with those of the schema")
    if user in names:
        raise InputError(f"column {user!r} says whose record it is, and is not synthesised; leave it out of the schema")
    occurs = Counter(table.names)
    for name in names if user is None else [*names, user]:  # no others are named: without a header they are cells
        if occurs[name] != 1:
            said = f"{occurs[name] or 'no'} column{'s' * (occurs[name] > 1)} {name!r} among its {len(table.names)}"
            raise InputError(f"{table.source} has {said}; give it a header with one for every column of the schema")
    once = sorted(name for name, times in occurs.items() if times == 1)
    places = {name: place for place, name in enumerate(once)}
    lines, users, contents = [], [], []
    for number, cells in enumerate(table.rows(once), start=1):
        where = f"{table.row} {number} of {table.source}"
        lines.append(schema.row([cells[places[name]] for name in names], where))
        contents.append("\0".join(map(_content, cells)).encode(errors="surrogatepass"))
        if user is not None:
            users.append(record_user(cells[places[user]], where, user))
    if not lines:
        raise InputError(f"{table.source} holds no rows; give at least one record")
    owners = None if user is None else as_samples(users)
    return Records(as_samples(lines), None, owners, 0, table.source, tuple(contents))


def _content(cell: Any) -> str:
    """Return what a cell holds, the same whether a file or a frame does."""
    if missing(cell):
        return ""
    if isinstance(cell, float | np.floating | Decimal) and math.isfinite(cell) and cell == int(cell):
        cell = int(cell)
    return str(cell).strip()


def open_table(source: object) -> Table:
    """Open private data, wherever they come from, without reading them."""
    if isinstance(source, str | Path):
        return from_path(source)
    if isinstance(source, pa.Table):
        return from_arrow("the table", source.schema, lambda chosen: iter(source.select(chosen).to_batches(SOME)))
    if hasattr(source, "collect"):
        raise InputError(f"a {type(source).__name__} holds a query, not its result; collect it into a frame first")
    if hasattr(source, "columns"):
        return from_frame(source)
    if isinstance(source, list | tuple | np.ndarray) or hasattr(source, "to_list"):
        return from_items(source)
    raise InputError(f"texts come from a path, a frame, a list or an array, got {type(source).__name__}")


def choose_columns(table: Table, text: str | None, label: str | None, user: str | None) -> list[str]:
    """Return the names of the columns to read, that of the texts first."""
    given = [name for name in (text, label, user) if name is not None]
    if not table.names:
        if given:
            raise InputError(f"{table.source} has no columns, got {given[0]!r}; leave out text, label and user")
        return [""]
    _refuse_ambiguous(table, given)
    if text is None:
        free = [name for name in table.textual if name not in {label, user}]
        if len(free) != 1:
            raise InputError(
                f"{table.source} has {len(free) or 'no'} columns that may hold the texts; "
                f"set text to the right one of {shown(table.names)}"
            )
        text = free[0]
        _refuse_ambiguous(table, [text])
    return [text, *(name for name in (label, user) if name is not None)]


def _refuse_ambiguous(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if (found := sum(name == other for other in table.names)) != 1:
            times = f"{found} columns" if found else "no column"
            said = repr(name) if is_name(name) else "of the same name"
            raise InputError(f"{table.source} has {times} {said}; name one of {shown(table.names)}")


def record_text(cell: Any, where: str) -> str | None:
    """Return the text of a record; None if it is blank."""
    if missing(cell):
        return None
    if not isinstance(cell, str):
        raise InputError(f"{where} holds {type(cell).__name__} for a text; name another column or convert this one")
    if len(cell) > LONGEST:
        raise InputError(f"{where} has more than {LONGEST} characters; split it into several records")
    if "\0" in cell:
        raise InputError(f"{where} contains a NUL character, which no text does; remove it")
    return _HALF_A_PAIR.sub("\ufffd", cell) if cell.strip() else None


def record_name(cell: Any, where: str, column: str) -> str:
    """Return a label as a string, the same for values that files and frames write differently, such as 7 and "7.0"."""
    if missing(cell) or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"{where} has nothing in column {column!r}; fill it in, or remove the row")
    if not isinstance(cell, Hashable):
        raise InputError(f"{where} holds {type(cell).__name__} in column {column!r}; use one name or number instead")
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    if isinstance(cell, Decimal):
        cell = int(cell) if cell == cell.to_integral_value() else cell.normalize()
    name = _HALF_A_PAIR.sub("\ufffd", str(cell)).strip()
    return whole[1] if (whole := _WHOLE.fullmatch(name)) else name


def record_user(cell: Any, where: str, column: str) -> str:
    """Return whose record it is, the same for all ways in which a name may be written.

    Case, forms of a character, blanks, and zeros around a number do not tell two users apart: a user who became two
    would have twice the votes that the noise is for, and two who become one have only fewer.
    """
    name = " ".join(unicodedata.normalize("NFKC", record_name(cell, where, column)).casefold().split())
    return format((Decimal(name) + 0).normalize(), "f") if _NUMBER.fullmatch(name) else name


def name_readers(label: str | None, user: str | None) -> list[Callable[[Any, str, str], str]]:
    """Return what reads the cells behind the text of a record, in their order."""
    return [record_name] * (label is not None) + [record_user] * (user is not None)
