"""Private records, and how they are read from cells."""

import re
import unicodedata
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gape.core.errors import InputError
from gape.core.types import Samples
from gape.modalities.files import LONGEST, from_path
from gape.modalities.tables import SOME, Table, from_arrow, from_frame, from_items, is_name, missing, shown

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"([+-]?\d{1,40})\.0+")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,8})?")  # numbers that decimal arithmetic does not round


@dataclass(frozen=True)
class Columns:
    """The names of the columns of the private data; None if a column is not named."""

    text: str | None = None
    label: str | None = None
    user: str | None = None


@dataclass(frozen=True, eq=False)
class Records:
    """Private records and, if requested, the label and the user of each. The repr shows none of them."""

    content: Samples = field(repr=False)  # (n,): texts, none of them blank; or (n, d): vectors
    labels: NDArray[np.object_] | None = field(repr=False)  # (n,): str
    users: NDArray[Any] | None = field(repr=False)  # (n,): str, or numbers that stand for them
    dropped: int  # blank rows that were left out
    source: str  # where they come from, in words
    # (n,): what identifies each record in the ledger, however it is read; None if that is its text and its user.
    contents: tuple[bytes, ...] | None = field(default=None, repr=False)
    dataset: bytes | None = field(default=None, repr=False)  # the digest of all contents, if it is known already

    @classmethod
    def of_vectors(cls, array: NDArray[Any], source: str, users: NDArray[np.object_] | None = None) -> "Records":
        """Make records of vectors, (n, d), which the ledger identifies by their numbers and users."""
        content = np.ascontiguousarray(array, dtype=np.float32)
        if not np.isfinite(content).all():
            raise InputError(f"{source} contains numbers that are not finite; remove those records")
        owners = [""] * len(content) if users is None else [str(user) for user in users]
        known = tuple(row.tobytes() + b"\0" + user.encode() for row, user in zip(content, owners, strict=True))
        return cls(content, None, users, 0, source, known)

    @property
    def texts(self) -> Samples:
        """The content of records that are texts."""
        return self.content

    @property
    def units(self) -> int:
        """The number of protected units: records, or users."""
        if self.users is None:
            return len(self)
        return len(set(self.users.tolist()) if self.users.dtype == object else np.unique(self.users))

    def __len__(self) -> int:
        return len(self.content)


def contents_of(samples: Samples) -> Samples:
    """Return samples without their labels."""
    return samples["text"] if samples.dtype.names else samples


def keys(samples: Samples) -> list[str] | list[bytes]:
    """Return a key for each sample, such that equal samples have equal keys."""
    return samples.tolist() if samples.ndim == 1 else [row.tobytes() for row in np.ascontiguousarray(samples)]


def open_table(source: object) -> Table:
    """Open private data from any supported source, without reading it."""
    if isinstance(source, str | Path):
        return from_path(source)
    if isinstance(source, pa.Table):
        return from_arrow("the table", source.schema, lambda chosen: iter(source.select(chosen).to_batches(SOME)))
    if hasattr(source, "collect"):
        raise InputError(f"a {type(source).__name__} holds a query, not its result; collect it first")
    if hasattr(source, "columns"):
        return from_frame(source)
    if isinstance(source, list | tuple | np.ndarray) or hasattr(source, "to_list"):
        return from_items(source)
    raise InputError(f"texts must be a path, a frame, a list or an array, got {type(source).__name__}")


def choose_columns(table: Table, text: str | None, label: str | None, user: str | None) -> list[str]:
    """Return the names of the columns to read, the column of texts first."""
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
                f"name one of {shown(table.names)} as text (--text)"
            )
        text = free[0]
        _refuse_ambiguous(table, [text])
    return [text, *(name for name in (label, user) if name is not None)]


def _refuse_ambiguous(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if (count := sum(name == other for other in table.names)) != 1:
            columns = f"{count} columns" if count else "no column"
            quoted = repr(name) if is_name(name) else "of the same name"
            raise InputError(f"{table.source} has {columns} {quoted}; name one of {shown(table.names)}")


def record_text(cell: Any, where: str) -> str | None:
    """Return the text of a record; None if it is blank."""
    if missing(cell):
        return None
    if not isinstance(cell, str):
        raise InputError(f"{where} holds {type(cell).__name__}, not a text; name another column or convert this one")
    if len(cell) > LONGEST:
        raise InputError(f"{where} has more than {LONGEST} characters; split it into several records")
    if "\0" in cell:
        raise InputError(f"{where} contains a NUL character, which is not text; remove it")
    return _HALF_A_PAIR.sub("\ufffd", cell) if cell.strip() else None


def record_name(cell: Any, where: str, column: str) -> str:
    """Return a label as a string; values that files and frames write differently, such as 7 and "7.0", are equal."""
    if missing(cell) or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"{where} is empty in column {column!r}; fill it in, or remove the row")
    if not isinstance(cell, Hashable):
        raise InputError(f"{where} holds {type(cell).__name__} in column {column!r}; use one name or number instead")
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    if isinstance(cell, Decimal):
        cell = int(cell) if cell == cell.to_integral_value() else cell.normalize()
    name = _HALF_A_PAIR.sub("\ufffd", str(cell)).strip()
    return whole[1] if (whole := _WHOLE.fullmatch(name)) else name


def record_user(cell: Any, where: str, column: str) -> str:
    """Return the user of a record, the same for all spellings of a name.

    Case, equivalent characters, blanks, and leading or trailing zeros do not distinguish users. A user counted as two
    would have twice the votes that the noise covers; two users counted as one only have fewer votes.
    """
    name = " ".join(unicodedata.normalize("NFKC", record_name(cell, where, column)).casefold().split())
    return format((Decimal(name) + 0).normalize(), "f") if _NUMBER.fullmatch(name) else name


def name_readers(label: str | None, user: str | None) -> list[Callable[[Any, str, str], str]]:
    """Return the functions that read the cells after the text of a record, in order."""
    return [record_name] * (label is not None) + [record_user] * (user is not None)
