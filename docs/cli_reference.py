"""Write docs/cli.md from the commands; run it as `python docs/cli_reference.py`."""

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
SHARED = {field.name for field in settings_fields()[1:]} | {"settings"}

HEAD = """\
# Command line

This page is generated from the commands by `python docs/cli_reference.py`. `gape COMMAND --help` prints the same text.
"""

SETTINGS = """\
## Settings

`gape plan`, `run`, `compare` and `diagnose` accept all of these flags. They are also keys of a TOML file (`--settings
run.toml`) and keywords of `gape.synthesize`, with underscores instead of hyphens. Flags override the file, and the file
overrides the preset.
"""


class Parameter:
    """A parameter of a command: its type, its default and its help."""

    def __init__(self, parameter: inspect.Parameter, hint: Any) -> None:
        """Read its annotation."""
        self.name = parameter.name
        self.kind, self.info = get_args(hint)[:2]
        self.required = parameter.default is inspect.Parameter.empty
        self.default = None if self.required else parameter.default

    @property
    def is_argument(self) -> bool:
        """Whether it is positional."""
        return isinstance(self.info, ArgumentInfo)

    @property
    def flags(self) -> str:
        """Its flags, each with the kind of its value."""
        # In an annotation, typer takes the first name for a default.
        named = [name for name in (self.info.default, *(self.info.param_decls or ())) if isinstance(name, str)]
        names = [name for decl in named or [f"--{self.name.replace('_', '-')}"] for name in decl.split("/")]
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
        """The help text, with the default if there is one."""
        text = " ".join((self.info.help or "").split()).replace("|", r"\|")
        plain = self.default is None or isinstance(self.default, bool) or "default" in text
        return text if plain else f"{text} (default {_shown(self.default)})"


def reference() -> str:
    """Return the page."""
    commands = dict(_commands())
    shared = [parameter for parameter in _parameters(commands["gape run"]) if parameter.name in SHARED]
    described = (_described(name, command) for name, command in commands.items())
    return "\n".join([HEAD, *described, SETTINGS, *_tables(shared)])


def _commands() -> Iterator[tuple[str, Any]]:
    for entry in COMMANDS:
        loaded = entry.load()
        if not isinstance(loaded, typer.Typer):
            yield f"gape {entry.name}", loaded
            continue
        for command in loaded.registered_commands:
            name = command.name or command.callback.__name__.replace("_", "-")  # type: ignore[union-attr]
            yield f"gape {entry.name} {name}", command.callback


def _parameters(command: Any) -> list[Parameter]:
    hints = get_type_hints(command, include_extras=True)
    return [
        Parameter(parameter, hints.get(name, parameter.annotation))
        for name, parameter in inspect.signature(command).parameters.items()
    ]


def _described(name: str, command: Any) -> str:
    parameters = _parameters(command)
    arguments = [
        parameter.name.upper() if parameter.required else f"[{parameter.name.upper()}]"
        for parameter in parameters
        if parameter.is_argument
    ]
    takes_settings = any(parameter.name == "settings" for parameter in parameters)
    elsewhere = SHARED if takes_settings else set()
    own = [option for option in parameters if not option.is_argument and option.name not in elsewhere]
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(command.__doc__).split("\n\n")]
    lines = [f"## {name}", "", f"`{' '.join([name, *arguments])}`", "", "\n\n".join(paragraphs), ""]
    if takes_settings:
        lines += ["Accepts the [settings](#settings), and:" if own else "Accepts the [settings](#settings).", ""]
    return "\n".join([*lines, *_tables(own)])


def _tables(options: list[Parameter]) -> list[str]:
    panels: dict[str, list[Parameter]] = {}
    for option in options:
        panels.setdefault(option.info.rich_help_panel or "", []).append(option)
    parts = []
    for panel, members in panels.items():
        rows = [f"| {option.flags} | {option.text} |" for option in members]
        title = [f"**{panel}**", ""] if len(panels) > 1 and panel else []
        parts.append("\n".join([*title, "| Flag | Meaning |", "| --- | --- |", *rows, ""]))
    return parts


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:g}"
    return str(value)


if __name__ == "__main__":
    PAGE.write_text(reference())
