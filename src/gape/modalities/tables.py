"""Tables of rows and columns, whatever holds them in memory."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from gape.core.errors import InputError

# Number of rows that are inspected to find the columns, or held at once as Python objects.
SOME = 1_000

# A table with more columns is probably transposed, or made to fill the memory.
MOST_COLUMNS = 10_000

_SHOWN = 20  # most names in a message


@dataclass(frozen=True)
class Table:
    """Rows that are read once, and the names of their columns; a table without names has a single column."""

    source: str
    rows: Callable[[Sequence[str]], Iterator[Sequence[Any]]]  # the cells of the given columns, row by row
    names: Sequence[str] = ()
    textual: Sequence[str] = ()  # the columns that hold texts
    row: str = "row"  # the noun for a row in messages

    def __post_init__(self) -> None:
        refuse_many_columns(self.source, len(self.names))


def from_items(items: Any) -> Table:
    """Make a table of a sequence of texts or dicts."""
    if isinstance(items, np.ndarray) and items.ndim != 1:
        raise InputError(f"an array of texts must have one axis, got shape {items.shape}; pass one text per entry")
    if isinstance(next(iter(items), None), Mapping):
        return from_dicts("the list", lambda: iter(items), "item")
    return Table(f"the {type(items).__name__}", lambda _: ([item] for item in items), row="item")


def from_dicts(source: str, items: Callable[[], Iterator[Any]], row: str) -> Table:
    """Make a table of dicts, in which missing keys are empty cells. They are read twice, and held one at a time."""

    def rows(chosen: Sequence[str]) -> Iterator[list[Any]]:
        for number, item in enumerate(items(), start=1):
            if not isinstance(item, Mapping):
                raise InputError(f"{row} {number} of {source} is {type(item).__name__}, not a dict of columns")
            yield [item.get(name) for name in chosen]

    names: dict[str, set[bool]] = {}  # whether the cells of each column are texts
    for item in islice(items(), SOME):
        for name, cell in item.items() if isinstance(item, Mapping) else ():
            if isinstance(name, str):
                kinds = names.setdefault(name, set())
                if not missing(cell):
                    kinds.add(isinstance(cell, str))
        refuse_many_columns(source, len(names))
    if not names:
        raise InputError(f"{source} has no columns in its first rows; use one object with named columns per row")
    return Table(source, rows, list(names), [name for name, kinds in names.items() if kinds == {True}], row)


def from_frame(frame: Any) -> Table:
    """Make a table of a frame of pandas, polars or similar, which have `columns` and a series for each."""
    keys = {str(key): key for key in frame.columns}
    if len(keys) < len(frame.columns):
        raise InputError(f"the frame has {len(frame.columns)} columns under {len(keys)} names; make them distinct")
    if not keys:
        raise InputError("the frame has no columns; pass one with a column of texts")
    textual = [name for name, key in keys.items() if _all_texts(frame[key].head(SOME))]
    return Table(
        "the frame", lambda chosen: zip(*(frame[keys[name]] for name in chosen), strict=True), [*keys], textual
    )


def from_arrow(source: str, schema: pa.Schema, batches: Callable[[list[str]], Iterator[pa.RecordBatch]]) -> Table:
    """Make a table of Arrow batches, each with the requested columns."""

    def rows(chosen: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        with reading(source):
            for batch in batches(list(dict.fromkeys(chosen))):
                for start in range(0, len(batch), SOME):
                    part = batch.slice(start, SOME)
                    yield from zip(*(part.column(name).to_pylist() for name in chosen), strict=True)

    def is_text(kind: pa.DataType) -> bool:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))

    with reading(source):
        return Table(source, rows, schema.names, [part.name for part in schema if is_text(part.type)])


def _all_texts(cells: Iterable[Any]) -> bool:
    """Return whether a column holds texts, judging by some of its cells."""
    present = [cell for cell in cells if not missing(cell)]
    return bool(present) and all(isinstance(cell, str) for cell in present)


def is_name(text: str) -> bool:
    """Return whether this looks like the name of a column, and not like a record in place of a header."""
    return len(text) <= 40 and len(text.split()) <= 3 and text.isprintable()


def shown(names: Sequence[str]) -> str:
    """List names for a message; a column whose name may be content is given by its number."""
    listed = [repr(name) if is_name(name) else f"column {i}" for i, name in enumerate(names[:_SHOWN], start=1)]
    return ", ".join(listed) + (f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else "")


def refuse_many_columns(source: str, count: int) -> None:
    """Reject tables with too many columns."""
    if count > MOST_COLUMNS:
        raise InputError(f"{source} has more than {MOST_COLUMNS} columns; keep only those that are needed")


def missing(cell: Any) -> bool:
    """Return whether a cell is empty in Python, numpy or pandas."""
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Replace the errors of file readers, which may quote content, by messages that do not."""
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{what} holds bytes that are not UTF-8 in a column of texts; write it again") from None
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = type(error).__name__
        raise InputError(f"{what} cannot be read ({reason}); check that it is complete and readable") from None
