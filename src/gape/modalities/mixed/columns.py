"""Columns of texts, which a language model writes, and how the choices beside them are told to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gape._support.values import brief
from gape.core.errors import InputError
from gape.modalities.records import record_text
from gape.modalities.rows.columns import Choices, may_be_missing, refuse_unknown_keys

MOST_WORDS = 10_000
_LONGEST = 1000  # characters that say what texts are; they are part of every prompt


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

    def without(self, name: str) -> Self:
        """Return the column in a schema without the column `name`, with which it then need not agree."""
        return replace(self, agrees=None if self.agrees is None else tuple(one for one in self.agrees if one != name))

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
    about, words = about_of(table["text"], where), words_of(table, Prose.words, MOST_WORDS, where)
    return Prose(about, words, may_be_missing(table, where), agrees_of(table, where))


def about_of(about: object, where: str) -> str:
    """Return what the texts of a column are, in one line."""
    if not isinstance(about, str) or not about.strip() or len(about) > _LONGEST:
        raise InputError(
            f"text of {where} must say what the texts are in at most {_LONGEST} characters, got {brief(about)}; write "
            '"customer reviews"'
        )
    return " ".join(about.split()).rstrip(".:")


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


@dataclass(frozen=True)
class Telling:
    """How the values of a column are told to the model: what they mean, and how texts that have them may begin."""

    means: Mapping[str, str] = field(default_factory=dict)
    openings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


TELLING = ("means", "openings")  # the keys of a column of choices that say it


def telling_of(table: Mapping[str, Any], column: object, where: str) -> Telling | None:
    """Return how the values of a column are told; None if the table of the schema does not say."""
    if not any(key in table for key in TELLING):
        return None
    if not isinstance(column, Choices):
        raise InputError(f"means and openings of {where} need choices, which it does not have; leave them out")
    values = {str(value) for value in column.values}
    for key in TELLING:
        given = table.get(key, {})
        if not isinstance(given, dict) or not set(given) <= values:
            raise InputError(f"{key} of {where} must be a table with some of its choices, got {brief(given)}")
    means, openings = ({value: table.get(key, {})[value] for value in table.get(key, {})} for key in TELLING)
    for text in means.values():
        if not _is_said(text):
            raise InputError(f'means of {where} must be sentences, got {brief(text)}; write "You were very angry."')
    for texts in openings.values():
        if not isinstance(texts, list) or not texts or not all(map(_is_said, texts)):
            raise InputError(f'openings of {where} must be lists of first words, got {brief(texts)}; write ["Sadly"]')
    return Telling(
        {value: " ".join(text.split()) for value, text in means.items()},
        {value: tuple(" ".join(text.split()) for text in texts) for value, texts in openings.items()},
    )


def _is_said(text: object) -> bool:
    """Whether something can be said to a model as it is: a text without the braces of placeholders."""
    return isinstance(text, str) and bool(text.strip()) and not set(text) & set("{}")
