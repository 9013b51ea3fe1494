"""Columns of conversations: turns of several roles.

In the file of a schema:

    [chat]
    roles = ["customer", "agent"]               # who speaks; the first one begins
    least = 2                                   # turns
    most = 8
    words = 20                                  # of a turn
    text = "chats with the support of a shop"   # what they are; may be left out
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gape._support.values import brief
from gape.core.errors import InputError
from gape.modalities.mixed.columns import MOST_WORDS, Prose, about_of, agrees_of, words_of
from gape.modalities.records import record_text
from gape.modalities.rows.columns import may_be_missing, refuse_unknown_keys

MOST_TURNS = 50
_LONGEST_ROLE = 50  # characters

# Names under which public datasets keep the speaker and the content of a turn.
_ROLES, _CONTENTS = ("role", "from", "speaker"), ("content", "value", "text")


@dataclass(frozen=True)
class Turns(Prose):
    """A column of conversations. `words` is the length of a turn. A cell is a list of turns, {"role", "content"}."""

    roles: tuple[str, ...] = ()
    least: int = 2
    most: int = 8

    def read(self, cell: object, where: str) -> Any:
        """Return the turns of a private cell, at most `most`: a list, or a text with a list in JSON."""
        if isinstance(cell, str):
            if record_text(cell, where) is None:
                return None
            try:
                cell = json.loads(cell)
            except (ValueError, RecursionError):
                cell = ...  # refused below
        if cell is None or (isinstance(cell, float) and np.isnan(cell)):
            return None
        if isinstance(cell, np.ndarray):
            cell = cell.tolist()
        if not isinstance(cell, list):
            raise InputError(f"{where} holds no list of turns; write each turn with its role and content")
        turns = [self._turn(turn, f"turn {number} of {where}") for number, turn in enumerate(cell, start=1)]
        return [turn for turn in turns if turn is not None][: self.most] or None

    def _turn(self, turn: object, where: str) -> dict[str, str] | None:
        if not isinstance(turn, Mapping):
            raise InputError(f"{where} is not an object with role and content; write it as one")
        role = next((turn[name] for name in _ROLES if name in turn), None)
        known = {own.casefold(): own for own in self.roles}
        if not isinstance(role, str) or role.strip().casefold() not in known:
            raise InputError(f"{where} has a role that is none of the {len(self.roles)} in the schema; add it there")
        content = record_text(next((turn[name] for name in _CONTENTS if name in turn), None), where)
        return (
            None if content is None else {"role": known[role.strip().casefold()], "content": " ".join(content.split())}
        )

    def shown(self, value: object) -> str:
        """Return a conversation as lines that begin with the role."""
        if not isinstance(value, list) or not value or not all(_is_turn(turn, self.roles) for turn in value):
            raise ValueError("not a conversation")
        return "\n".join(f"{turn['role']}: {turn['content']}" for turn in value)

    def value(self, text: str) -> Any:
        """Return the turns of a conversation that is shown as `text`."""
        return [{"role": role, "content": content} for role, content in self.turns_in(text)]

    def turns_in(self, text: str) -> list[tuple[str, str]]:
        """Find turns in a text, however a model marks them; lines without a role belong to the turn before."""
        mark = re.compile(rf"^[\s*#>\d.\-]*({'|'.join(map(re.escape, self.roles))})[\s*]*:[\s*]*(.*)$", re.IGNORECASE)
        names = {role.casefold(): role for role in self.roles}
        turns: list[tuple[str, str]] = []
        for line in text.splitlines():
            if match := mark.match(line):
                turns.append((names[match[1].casefold()], match[2].strip()))
            elif turns and line.strip():
                turns[-1] = (turns[-1][0], f"{turns[-1][1]} {line.strip()}".strip())
        return [(role, content) for role, content in turns if content]

    def joined(self, turns: Sequence[tuple[str, str]]) -> str:
        """Return turns as lines that begin with the role."""
        return "\n".join(f"{role}: {content}" for role, content in turns)


def turns_of(table: Mapping[str, Any], where: str) -> Turns:
    """Return the column of conversations that a table of a schema describes."""
    refuse_unknown_keys(table, ("roles", "least", "most", "words", "text", "agrees"), where)
    roles = table["roles"]
    if not isinstance(roles, list) or not all(map(_is_role, roles)) or not 1 <= len(_names(roles)) == len(roles) <= 10:
        raise InputError(
            f"roles of {where} must be 1 to 10 different names of at most {_LONGEST_ROLE} characters without a colon, "
            f"got {brief(roles)}"
        )
    roles = tuple(" ".join(role.split()) for role in roles)
    least, most = table.get("least", Turns.least), table.get("most", Turns.most)
    if type(least) is not int or type(most) is not int or not 1 <= least <= most <= MOST_TURNS:
        raise InputError(
            f"least and most of {where} must be numbers of turns from 1 to {MOST_TURNS}, got {brief(least)} and "
            f"{brief(most)}"
        )
    about = about_of(table.get("text", f"conversations between {' and '.join(roles)}"), where)
    words = words_of(table, 20, MOST_WORDS // MOST_TURNS, where)
    return Turns(about, words, may_be_missing(table, where), agrees_of(table, where), roles, least, most)


def _is_role(role: object) -> bool:
    return isinstance(role, str) and bool(role.strip()) and ":" not in role and len(role) <= _LONGEST_ROLE


def _names(roles: Sequence[str]) -> set[str]:
    return {" ".join(role.split()).casefold() for role in roles}


def _is_turn(turn: object, roles: tuple[str, ...]) -> bool:
    if not isinstance(turn, dict) or list(turn) != ["role", "content"]:
        return False
    return turn["role"] in roles and isinstance(turn["content"], str) and bool(turn["content"].strip())
