"""Drafts of schemas, from the names and the types of columns alone. No cell, bound or length of the data is copied."""

import json
import re
from datetime import date, datetime
from itertools import islice
from numbers import Integral, Real

import numpy as np

from gape.core.errors import InputError
from gape.modalities.records import open_table
from gape.modalities.rows.columns import FILL_IN
from gape.modalities.tables import SOME, is_name, missing

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

# Column names that usually belong to texts. Whether strings are texts or choices cannot be told from their type.
_TEXTUAL = re.compile(
    r"text|review|comment|body|description|note|message|content|title|summary|abstract|question|answer|story|report",
    re.IGNORECASE,
)

_HEADER = """\
# Draft of a schema, from the names and the types of the columns alone.
# Replace everything marked "{mark}". Do not look it up in the data: its largest
# number belongs to one person. Remove columns that should not be synthesised, such as names and ids.
# Add missing = true where cells may be empty.
"""
_KINDS = {
    "whole": "# whole numbers\nleast = {mark}\nmost = {mark}",
    "fraction": "# numbers with fractions: write bounds such as 0.0 and 100.0\nleast = {mark}\nmost = {mark}",
    "date": '# dates: write bounds such as 2015-01-01\nleast = {mark}\nmost = {mark}\nresolution = "day"',
    "truth": 'choices = ["false", "true"]',
    "text": '# texts: what they are, such as "customer reviews of restaurants"\ntext = {mark}\nwords = {mark}',
    "turns": '# conversations: roles such as "customer", and numbers of turns\n'
    "roles = [{mark}]\nleast = {mark}\nmost = {mark}\nwords = {mark}",
    "string": '# all possible values; or text = "what the texts are", words = 80\nchoices = [{mark}]',
}


def draft_schema(source: object) -> str:
    """Return a draft of a schema for private data, as TOML. It is refused as a schema until it is filled in."""
    table = open_table(source)
    if not table.names:
        raise InputError(f"{table.source} has no columns; use a table with named columns")
    names = [name for name in dict.fromkeys(table.names) if is_name(name)]
    kinds: dict[str, set[str]] = {name: set() for name in names}
    for cells in islice(table.rows(names), SOME):
        for name, cell in zip(names, cells, strict=True):
            if not missing(cell) and not (isinstance(cell, str) and not cell.strip()):
                kinds[name].add(_kind(cell))
    parts = [_HEADER.format(mark=FILL_IN)]
    parts += [f"[{_key(name)}]\n{_described(name, kinds[name])}\n" for name in names]
    left_out = len(set(table.names)) - len(names)
    return "\n".join(parts) + (f"\n# {left_out} columns whose names may be content are left out.\n" if left_out else "")


def _kind(cell: object) -> str:
    """Return the type of a cell, in the most specific form that its text allows."""
    if isinstance(cell, bool | np.bool_) or (isinstance(cell, str) and cell.strip().lower() in {"true", "false"}):
        return "truth"
    if isinstance(cell, str):
        return _kind_of_text(cell.strip())
    if isinstance(cell, list | np.ndarray):
        return "turns"
    if isinstance(cell, Integral):
        return "whole"
    if isinstance(cell, date | np.datetime64):
        return "date"
    return "fraction" if isinstance(cell, Real) else "string"


def _kind_of_text(text: str) -> str:
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return "whole"
    try:
        float(text)
    except ValueError:
        pass
    else:
        return "fraction"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return "string"
    return "date"


def _described(name: str, kinds: set[str]) -> str:
    kind = kinds.pop() if len(kinds) == 1 else "fraction" if kinds == {"whole", "fraction"} else "string"
    if kind == "string" and _TEXTUAL.search(name):
        kind = "text"
    return _KINDS[kind].format(mark=json.dumps(FILL_IN))


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
