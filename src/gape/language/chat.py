"""How a prompt is put to a model: by the chat template in its file, or as plain text to a base model.

A template is a small program of whoever made the file. It is run once, when the model is loaded, in jinja2's sandbox,
where it reaches nothing but its arguments.
"""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from gape.core.errors import InputError, in_one_line
from gape.language.gguf import Header

_PROMPT = "gape-7c1f-prompt"  # stands for the prompt while the template is rendered
_LONGEST = 2**18  # characters of a template
_DATE = "26 Jul 2024"  # a fixed date instead of today's
# A base model continues a text: the prompt as a heading, and the answer up to the next empty line.
_PLAIN_STOPS = ("\n\n",)


@dataclass(frozen=True)
class Chat:
    """The text around a prompt, up to the start of the answer, and what ends an answer beside the model itself."""

    before: str
    after: str
    stops: tuple[str, ...] = ()

    def around(self, prompt: str) -> str:
        """Return the whole text that the model continues."""
        return f"{self.before}{prompt}{self.after}"


PLAIN = Chat("", "\n", _PLAIN_STOPS)


def chat_of(header: Header, system: str | None = None) -> Chat:
    """Return how the model of this header is asked, with a `system` turn if one is given.

    A model without a template is a base model: it is given the prompt as a heading, which its answer follows.
    """
    if header.chat_template is None:
        return PLAIN if system is None else Chat(f"{system}\n\n", PLAIN.after, PLAIN.stops)
    turns = [{"role": "user", "content": _PROMPT}]
    if system is not None:
        turns.insert(0, {"role": "system", "content": system})
    rendered = _rendered(header, turns)
    before, prompt, after = rendered.partition(_PROMPT)
    if not prompt or _PROMPT in after:
        raise InputError(
            f"the chat template of {header.name or 'the model'} does not repeat the user's turn exactly once; use "
            "another file of this model"
        )
    if header.adds_first_token:
        before = before.removeprefix(header.first_token)
    return Chat(before, after)


def _rendered(header: Header, turns: list[dict[str, str]]) -> str:
    """Render the template for an answer to these turns."""
    import jinja2.sandbox  # noqa: PLC0415  (heavy)

    template = header.chat_template or ""
    if len(template) > _LONGEST:
        raise InputError(
            f"the chat template has {len(template):,} characters, more than {_LONGEST:,}; use another file"
        )
    world = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    world.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    known = {"raise_exception": _refuse, "strftime_now": lambda _: _DATE, "date_string": _DATE}
    try:
        return world.from_string(template).render(
            messages=turns,
            add_generation_prompt=True,
            enable_thinking=False,  # thoughts would use up the tokens
            bos_token=header.first_token,
            eos_token=header.last_token,
            tools=None,
            **known,
        )
    except Exception as error:  # noqa: BLE001  (a template may fail in any way)
        raise InputError(
            f"the chat template of {header.name or 'the model'} cannot be used ({in_one_line(error)}); leave out the "
            "system prompt if there is one, or use another file of this model"
        ) from None


def _refuse(message: Any) -> NoReturn:
    raise ValueError(str(message)[:200])
