"""The rows of a private table, read from wherever they are."""

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np

from gape.core.errors import InputError
from gape.core.types import as_samples
from gape.modalities.records import Records, open_table, record_user
from gape.modalities.rows.schema import Schema
from gape.modalities.tables import missing


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
