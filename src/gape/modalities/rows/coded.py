"""Read the rows of a private table as the cells that a survey asks about, in memory for a byte or two per cell.

Everything goes by blocks of rows and, within a block, by columns. A block in which anything may be refused is read
again row by row, so that results and errors are those of `load_rows`.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from hashlib import blake2b
from typing import Any

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats
from gape.modalities.records import Records, record_user
from gape.modalities.rows.cells import Cells
from gape.modalities.rows.columns import Column, Numbers
from gape.modalities.rows.load import content_of, open_rows
from gape.modalities.rows.schema import Schema, is_empty
from gape.voting.store import DatasetDigest, record_digest

_AT_ONCE = 10_000  # rows
_MOST_KNOWN = 100_000  # values of a column whose codes are kept
_PLAIN: set[type] = {str, int, bool, date}  # types whose equal values are alike in everything
_USER = 8  # bytes of the digest that stands for a user


def load_cells(
    source: object, schema: Schema, user: str | None = None, listener: Callable[[int], None] = lambda _: None
) -> Records:
    """Read what `load_rows` reads as cells of a survey, (n, columns), and their users as numbers.

    The records are identified for the ledger while they are read, by the same digest. Users are told apart by 64 bits
    of a digest: should two users ever share these, they would have the votes of one.
    """
    table, once = open_rows(source, schema.columns, user)
    positions = [once.index(name) for name in schema.columns]
    coders = [Coder(*each) for each in zip(schema.columns.values(), schema.blanks, strict=True)]
    cells, known, number = Cells(schema), DatasetDigest(), 0
    held, users = bytearray(), bytearray()  # they grow in place, unlike a list of arrays that is joined at the end
    for rows in _blocks(table.rows(once)):
        columns = list(zip(*rows, strict=True))
        places = [f"{table.row} {number + index} of {table.source}" for index in range(1, len(rows) + 1)]
        owners = None if user is None else columns[once.index(user)]
        codes = _codes(coders, schema, [columns[index] for index in positions], places, owners, user)
        held += cells.of(codes).tobytes()
        known.add(map(record_digest, _contents(columns)))
        if owners is not None:
            names = (record_user(cell, where, str(user)) for cell, where in zip(owners, places, strict=True))
            users += b"".join(blake2b(name.encode(), digest_size=_USER).digest() for name in names)
        number += len(rows)
        listener(number)
    if not number:
        raise InputError(f"{table.source} holds no rows; add at least one record")
    content = np.frombuffer(held, cells.dtype).reshape(number, -1)
    numbers = None if user is None else np.frombuffer(users, f"<u{_USER}")
    return Records(content, None, numbers, 0, table.source, dataset=known.digest())


def _codes(
    coders: Sequence["Coder"],
    schema: Schema,
    columns: Sequence[Sequence[Any]],
    places: Sequence[str],
    owners: Sequence[Any] | None,
    user: str | None,
) -> Floats:
    """Return the codes of a block, (rows, columns), or raise the error of its first row that has one."""
    try:
        return np.stack([coder.codes(cells) for coder, cells in zip(coders, columns, strict=True)], axis=1)
    except (ValueError, TypeError, OverflowError):
        pass
    codes = []
    for index, where in enumerate(places):
        codes.append(schema.code([column[index] for column in columns], where))
        if owners is not None:
            record_user(owners[index], where, str(user))
    return np.array(codes)


class Coder:
    """Codes the cells of a column block by block: what `Schema.code` does, without a message.

    Numbers are coded together. Of other values, as long as they have one type, equal ones are coded once.
    """

    def __init__(self, column: Column, blanks: frozenset[str]) -> None:
        """Code cells of `column`; `blanks` are the texts of empty ones."""
        self._column, self._blanks = column, blanks
        self._known: dict[type, dict[Any, float]] = {}

    def codes(self, cells: Sequence[Any]) -> Floats:
        """Return the code of each cell, NaN if it is empty."""
        kinds = set(map(type, cells)) - {type(None)}
        if type(self._column) is Numbers and kinds <= {str}:
            codes = self._column.rounded(_numbers(cells, self._blanks))
        elif type(self._column) is Numbers and kinds in ({int}, {float}):
            codes = self._column.rounded(np.array(cells, dtype=np.float64))  # None becomes NaN
        elif len(kinds) == 1 and kinds <= _PLAIN:
            codes = self._once_each(cells, kinds.pop())
        else:
            codes = np.array([self._code(cell) for cell in cells])
        if not self._column.missing and np.isnan(codes).any():
            raise ValueError("an empty cell")
        return codes

    def _once_each(self, cells: Sequence[Any], kind: type) -> Floats:
        known = self._known.setdefault(kind, {})
        if len(known) > _MOST_KNOWN:
            known.clear()
        known.update({cell: self._code(cell) for cell in set(cells).difference(known)})
        return np.array([known[cell] for cell in cells])

    def _code(self, cell: Any) -> float:
        return math.nan if is_empty(cell, self._blanks) else self._column.code(cell)


def _numbers(cells: Sequence[str | None], blanks: frozenset[str]) -> Floats:
    """Convert texts to numbers, and empty ones to NaN. A text that is not a number is an error, and so is "nan"."""
    if len(blanks) == 1:  # only blank texts are empty
        with contextlib.suppress(ValueError, TypeError):
            numbers = np.array(list(map(float, cells)))  # type: ignore[arg-type]
            if not np.isnan(numbers).any():
                return numbers
    empty = [is_empty(cell, blanks) for cell in cells]
    numbers = np.array([math.nan if none else float(cell) for cell, none in zip(cells, empty, strict=True)])  # type: ignore[arg-type]
    if np.isnan(numbers).sum() != sum(empty):
        raise ValueError("a value that is not a number")
    return numbers


def _contents(columns: Sequence[Sequence[Any]]) -> Iterator[bytes]:
    """Yield what identifies each row: all of its cells."""
    plain = [_plain(column) for column in columns]
    return ("\0".join(row).encode(errors="surrogatepass") for row in zip(*plain, strict=True))


def _plain(column: Sequence[Any]) -> list[str]:
    kinds = set(map(type, column)) - {type(None)}
    if kinds <= {str} and None not in column:
        return [cell.strip() for cell in column]
    if len(kinds) == 1 and kinds <= _PLAIN:
        known = {cell: content_of(cell) for cell in set(column)}
        return [known[cell] for cell in column]
    return list(map(content_of, column))


def _blocks(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield blocks of rows. Rows before one that cannot be read come first, because they may be refused as well."""
    block: list[Sequence[Any]] = []
    try:
        for row in rows:
            block.append(row)
            if len(block) == _AT_ONCE:
                yield block
                block = []
    except InputError:
        if block:
            yield block
        raise
    if block:
        yield block
