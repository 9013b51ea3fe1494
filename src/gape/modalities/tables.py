"""Rows by columns, whatever holds them in memory."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from gape.core.errors import InputError

# Rows that are looked at to tell which columns there are, or held at once as Python objects beside the result.
SOME = 1_000

# A table with more columns is rather one that lies on its side, or made to fill the memory.
MOST_COLUMNS = 10_000

_SHOWN = 20  # names in a message, at most


@dataclass(frozen=True)
class Table:
    """Rows to be read once, by columns; one without names has a single column and nothing to choose."""

    source: str
    rows: Callable[[Sequence[str]], Iterator[Sequence[Any]]]  # the cells of the columns named, row by row
    names: Sequence[str] = ()
    textual: Sequence[str] = ()  # the columns that hold texts
    row: str = "row"  # what one row is called

    def __post_init__(self) -> None:
        refuse_many_columns(self.source, len(self.names))


def from_items(items: Any) -> Table:
    """Take a sequence of texts, or of dicts."""
    if isinstance(items, np.ndarray) and items.ndim != 1:
        raise InputError(f"an array of texts has one axis, got shape {items.shape}; give one text per entry")
    if isinstance(next(iter(items), None), Mapping):
        return from_dicts("the list", lambda: iter(items), "item")
    return Table(f"the {type(items).__name__}", lambda _: ([item] for item in items), row="item")


def from_dicts(source: str, items: Callable[[], Iterator[Any]], row: str) -> Table:
    """Take dicts as rows; one without a column has nothing in it. They are read twice, and no two held at once."""

    def rows(chosen: Sequence[str]) -> Iterator[list[Any]]:
        for number, item in enumerate(items(), start=1):
            if not isinstance(item, Mapping):
                raise InputError(f"{row} {number} of {source} is {type(item).__name__}, not a dict of columns")
            yield [item.get(name) for name in chosen]

    names: dict[str, set[bool]] = {}  # of each column, whether its cells are texts
    for item in islice(items(), SOME):
        for name, cell in item.items() if isinstance(item, Mapping) else ():
            if isinstance(name, str):
                kinds = names.setdefault(name, set())
                if not missing(cell):
                    kinds.add(isinstance(cell, str))
        refuse_many_columns(source, len(names))
    if not names:
        raise InputError(f"{source} has no columns in its first rows; give one object with named columns per row")
    return Table(source, rows, list(names), [name for name, kinds in names.items() if kinds == {True}], row)


def from_frame(frame: Any) -> Table:
    """Take a frame of pandas, polars or their like, by what they share: `columns`, and a series for each."""
    keys = {str(key): key for key in frame.columns}
    if len(keys) < len(frame.columns):
        raise InputError(f"the frame has {len(frame.columns)} columns under {len(keys)} names; make them distinct")
    if not keys:
        raise InputError("the frame has no columns; give one with a column of texts")
    textual = [name for name, key in keys.items() if _all_texts(frame[key].head(SOME))]
    return Table(
        "the frame", lambda chosen: zip(*(frame[keys[name]] for name in chosen), strict=True), [*keys], textual
    )


def from_arrow(source: str, schema: pa.Schema, batches: Callable[[list[str]], Iterator[pa.RecordBatch]]) -> Table:
    """Take batches of Arrow, each with the columns asked for."""

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
    """Whether a column holds texts, by some of its cells."""
    present = [cell for cell in cells if not missing(cell)]
    return bool(present) and all(isinstance(cell, str) for cell in present)


def is_name(text: str) -> bool:
    """Whether this looks like the name of a column, not like a record where a header should be."""
    return len(text) <= 40 and len(text.split()) <= 3 and text.isprintable()


def shown(names: Sequence[str]) -> str:
    """List names for a message; a column whose name may be content is given by its place."""
    said = [repr(name) if is_name(name) else f"column {i}" for i, name in enumerate(names[:_SHOWN], start=1)]
    return ", ".join(said) + (f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else "")


def refuse_many_columns(source: str, count: int) -> None:
    """Refuse a table that no table is."""
    if count > MOST_COLUMNS:
        raise InputError(f"{source} has more than {MOST_COLUMNS} columns; keep those that are needed")


def missing(cell: Any) -> bool:
    """Whether a cell is empty, in the ways of Python, numpy and pandas."""
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Put what readers say of a file, which may quote it, in words that do not."""
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{what} holds bytes that are not UTF-8 in a column of texts; write it anew") from None
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = type(error).__name__
        raise InputError(f"{what} cannot be read ({reason}); check that it is whole and yours to read") from None
