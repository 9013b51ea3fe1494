"""Answers in JSON, from services that can keep to a schema, and a parser for whatever else a model answers.

A chat service is asked for an object with one text, `{"review": "..."}`, or with the turns of a conversation,
`{"chat": [{"role": "customer", "content": "..."}]}`. A service that refuses a schema is asked again without it, and an
answer in plain text is read as it is.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gape.generators.reading import Draft
from gape.language.request import Completion
from gape.modalities.mixed.columns import Prose
from gape.modalities.mixed.turns import Turns

_LONGEST = 200_000  # characters of an answer that are looked at
_FENCED = re.compile(r"^\s*```(?:json)?\s*(.*?)\s*(?:```\s*)?$", re.DOTALL | re.IGNORECASE)


def in_json(draft: Draft, name: str, column: Prose) -> Draft:
    """Return the draft with an answer in JSON."""
    request = replace(draft.request, schema=json.dumps(answer_schema(name, column), ensure_ascii=False))
    return Draft(request, partial(read_json, name, column, draft))


def answer_schema(name: str, column: Prose) -> dict[str, Any]:
    """Return the JSON schema of an object with a text or a conversation under the name of its column."""
    cell: dict[str, Any] = {"type": "string"}
    if isinstance(column, Turns):
        turn = {"role": {"type": "string", "enum": list(column.roles)}, "content": {"type": "string"}}
        cell = {"type": "array", "items": _object(turn)}
    return _object({name: cell})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def read_json(name: str, column: Prose, draft: Draft, completion: Completion) -> str | None:
    """Read an answer in JSON as `draft` reads a plain one; None if it is JSON and has no such column."""
    text = completion.text[:_LONGEST]
    fenced = _FENCED.match(text) if text.lstrip().startswith("```") else None
    inside = (fenced[1] if fenced else text).strip()
    if not inside.startswith(("{", "[")):
        return draft.read(replace(completion, text=text))
    try:
        answer = json.loads(inside)
    except (ValueError, RecursionError):
        return None  # broken, or cut at its length
    cell = answer.get(name) if isinstance(answer, dict) else answer
    shown = _shown(cell, column)
    return None if shown is None else draft.read(replace(completion, text=shown, finished=True))


def _shown(cell: object, column: Prose) -> str | None:
    """Return a cell of an answer as a model would write it in plain text; None if it is not one."""
    if not isinstance(column, Turns):
        return cell if isinstance(cell, str) else None
    if isinstance(cell, list) and all(isinstance(turn, dict) for turn in cell):
        turns = [(turn.get("role"), turn.get("content")) for turn in cell]
        if all(isinstance(part, str) for turn in turns for part in turn):
            return column.joined([(str(role), " ".join(str(content).split())) for role, content in turns])
    return None
