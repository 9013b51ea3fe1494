"""Write docs/cli.md from the commands themselves, by `python docs/cli_reference.py`."""

import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from gape.cli import COMMANDS
from gape.runs.settings import settings_fields

PAGE = Path(__file__).parent / "cli.md"
SHARED = {each.name for each in settings_fields()[1:]} | {"settings"}

HEAD = """\
# The command line

Written by `python docs/cli_reference.py` from the commands themselves; `gape COMMAND --help` says the same.
"""

SETTINGS = """\
## Settings

`gape plan`, `run`, `compare` and `diagnose` take all of these. As keys of a TOML file (`--settings run.toml`) and as
keywords of `gape.synthesize` they have the same names, with underscores; flags override the file, the file the preset.
"""


class Parameter:
    """A parameter of a command: its type, its default, and what is said of it."""

    def __init__(self, parameter: inspect.Parameter, hint: Any) -> None:
        """Read its annotation."""
        self.name = parameter.name
        self.kind, self.info = get_args(hint)[:2]
        self.required = parameter.default is inspect.Parameter.empty
        self.default = None if self.required else parameter.default

    @property
    def is_argument(self) -> bool:
        """Whether it is given by its place."""
        return isinstance(self.info, ArgumentInfo)

    @property
    def flags(self) -> str:
        """Its flags, each with what it takes."""
        names = self.info.param_decls or [f"--{self.name.replace('_', '-')}"]
        names = [name for decl in names for name in decl.split("/")]
        return ", ".join(f"`{name}{self._value}`".replace("|", r"\|") for name in names)

    @property
    def _value(self) -> str:
        kinds = [kind for kind in (get_args(self.kind) or (self.kind,)) if kind is not type(None)]
        if get_origin(self.kind) is Literal or get_origin(kinds[0]) is Literal:
            options = get_args(self.kind) if get_origin(self.kind) is Literal else get_args(kinds[0])
            return f" {'|'.join(map(str, options))}"
        return {bool: "", int: " INTEGER", float: " NUMBER", Path: " PATH"}.get(kinds[-1], " TEXT")

    @property
    def text(self) -> str:
        """What the help says, with the default where there is one."""
        text = " ".join((self.info.help or "").split()).replace("|", r"\|")
        plain = self.default is None or isinstance(self.default, bool) or "default" in text
        return text if plain else f"{text} (default {_shown(self.default)})"


def reference() -> str:
    """Return the page."""
    commands = dict(_commands())
    shared = [each for each in _parameters(commands["gape run"]) if each.name in SHARED]
    described = (_described(name, command) for name, command in commands.items())
    return "\n".join([HEAD, *described, SETTINGS, *_tables(shared)])


def _commands() -> Iterator[tuple[str, Any]]:
    for entry in COMMANDS:
        found = entry.load()
        if not isinstance(found, typer.Typer):
            yield f"gape {entry.name}", found
            continue
        for each in found.registered_commands:
            yield f"gape {entry.name} {each.name or each.callback.__name__.replace('_', '-')}", each.callback  # type: ignore[union-attr]


def _parameters(command: Any) -> list[Parameter]:
    hints = get_type_hints(command, include_extras=True)
    return [
        Parameter(each, hints.get(name, each.annotation))
        for name, each in inspect.signature(command).parameters.items()
    ]


def _described(name: str, command: Any) -> str:
    parameters = _parameters(command)
    arguments = [
        each.name.upper() if each.required else f"[{each.name.upper()}]" for each in parameters if each.is_argument
    ]
    takes_settings = any(each.name == "settings" for each in parameters)
    elsewhere = SHARED if takes_settings else set()
    own = [each for each in parameters if not each.is_argument and each.name not in elsewhere]
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(command.__doc__).split("\n\n")]
    lines = [f"## {name}", "", f"`{' '.join([name, *arguments])}`", "", "\n\n".join(paragraphs), ""]
    if takes_settings:
        lines += ["Takes the [settings](#settings), and:" if own else "Takes the [settings](#settings).", ""]
    return "\n".join([*lines, *_tables(own)])


def _tables(options: list[Parameter]) -> list[str]:
    panels: dict[str, list[Parameter]] = {}
    for each in options:
        panels.setdefault(each.info.rich_help_panel or "", []).append(each)
    parts = []
    for panel, members in panels.items():
        rows = [f"| {each.flags} | {each.text} |" for each in members]
        title = [f"**{panel}**", ""] if len(panels) > 1 and panel else []
        parts.append("\n".join([*title, "| Flag | Meaning |", "| --- | --- |", *rows, ""]))
    return parts


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:g}"
    return str(value)


if __name__ == "__main__":
    PAGE.write_text(reference())
