"""Columns of texts: free text that a language model writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gape._support.values import brief
from gape.core.errors import InputError
from gape.modalities.records import record_text
from gape.modalities.rows.columns import may_be_missing, refuse_unknown_keys

MOST_WORDS = 10_000


@dataclass(frozen=True)
class Prose:
    """A column of texts: what they are, about how many words they have, and which columns they must agree with."""

    about: str
    words: int = 80
    missing: bool = False
    agrees: tuple[str, ...] | None = None  # None: all columns without texts, and all texts before it

    def read(self, cell: object, where: str) -> str | None:
        """Return the value of a private cell; None if it is empty."""
        return record_text(cell, where)

    def shown(self, value: object) -> str:
        """Return the value of a cell as a text."""
        if not isinstance(value, str) or not value.strip():
            raise ValueError("not a text")
        return value

    def value(self, text: str) -> Any:
        """Return the value of a cell that is shown as `text`."""
        return text


def prose_of(table: Mapping[str, Any], where: str) -> Prose:
    """Return the column of texts that a table of a schema describes."""
    refuse_unknown_keys(table, ("text", "words", "agrees"), where)
    about = table["text"]
    if not isinstance(about, str) or not about.strip():
        raise InputError(f'text of {where} must say what the texts are, got {brief(about)}; write "customer reviews"')
    words = words_of(table, Prose.words, MOST_WORDS, where)
    return Prose(" ".join(about.split()).rstrip(".:"), words, may_be_missing(table, where), agrees_of(table, where))


def words_of(table: Mapping[str, Any], usual: int, most: int, where: str) -> int:
    """Return about how many words a text has."""
    words = table.get("words", usual)
    if type(words) is not int or not 1 <= words <= most:
        raise InputError(f"words of {where} must be an integer from 1 to {most:,}, got {brief(words)}")
    return words


def agrees_of(table: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    """Return the columns that a text must agree with; None if they are not named."""
    agrees = table.get("agrees")
    if agrees is not None and not (isinstance(agrees, list) and all(isinstance(name, str) for name in agrees)):
        raise InputError(f"agrees of {where} must be a list of columns, got {brief(agrees)}")
    return None if agrees is None else tuple(agrees)
