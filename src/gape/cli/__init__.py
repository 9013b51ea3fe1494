"""The command line: one module per group of commands.

A command's module is imported only when that command is called, so that `--help` and mistyped commands are fast.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gape import __version__
from gape.cli.shared import output, say

_SYNTHESIS, _ANALYSIS = "Synthetic data", "Analysis"
_UsageError: Any = typer.BadParameter.__base__  # the versions of typer keep it in different places


@dataclass(frozen=True)
class CommandEntry:
    """A command: its name, its panel in the help, and the module and function that implement it."""

    name: str
    panel: str
    module: str
    function: str

    def load(self) -> Callable[..., None] | typer.Typer:
        """Import the command. If the module defines `app`, that group of commands is returned instead."""
        module: Any = import_module(f"gape.cli.{self.module}")
        command: Callable[..., None] | typer.Typer = getattr(module, "app", None) or getattr(module, self.function)
        return command

    def docstring(self) -> str:
        """Read the command's docstring without importing its module."""
        source = ast.parse(Path(__file__).with_name(f"{self.module}.py").read_text(encoding="utf-8"))
        functions = {node.name: node for node in source.body if isinstance(node, ast.FunctionDef)}
        return ast.get_docstring(functions[self.function]) or ""


COMMANDS = (
    CommandEntry("plan", _SYNTHESIS, "text", "plan"),
    CommandEntry("run", _SYNTHESIS, "text", "run"),
    CommandEntry("resume", _SYNTHESIS, "text", "resume"),
    CommandEntry("schema", _SYNTHESIS, "schema", "schema"),
    CommandEntry("embed", _SYNTHESIS, "embed", "embed"),
    CommandEntry("status", _SYNTHESIS, "runs", "status"),
    CommandEntry("report", _SYNTHESIS, "report", "report"),
    CommandEntry("evaluate", _SYNTHESIS, "evaluate", "evaluate"),
    CommandEntry("export", _SYNTHESIS, "runs", "export"),
    CommandEntry("expand", _SYNTHESIS, "runs", "expand"),
    CommandEntry("privacy", _ANALYSIS, "privacy", "privacy"),
    CommandEntry("audit", _ANALYSIS, "audit", "audit"),
    CommandEntry("demo", _ANALYSIS, "demo", "demo"),
    CommandEntry("compare", _ANALYSIS, "compare", "compare"),
    CommandEntry("diagnose", _ANALYSIS, "diagnose", "diagnose_generator"),
    CommandEntry("models", _SYNTHESIS, "models", "models"),
)


class _Unloaded(TyperCommand):
    """A command that is imported only when it is called."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, rich_help_panel=entry.panel)
        self.entry = entry

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Import the command and let it parse its own arguments."""
        command = self.entry.load()
        if not isinstance(command, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(self.entry.name)(command)
            command = single
        with _usage_errors_in_one_line(self.entry.name, [*arguments[1]]):
            return _reflowed(typer.main.get_command(command)).make_context(*arguments, **options)


class _Commands(TyperGroup):
    """The group of all commands, none of them imported yet."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": {entry.name: _Unloaded(entry) for entry in COMMANDS}})

    def format_help(self, *arguments: Any) -> None:
        """List the commands with the first lines of their docstrings."""
        for command in self.commands.values():
            if isinstance(command, _Unloaded):
                command.help = command.entry.docstring()
        super().format_help(*arguments)

    def resolve_command(self, *arguments: Any) -> Any:
        """Find the command that was named."""
        with _usage_errors_in_one_line():
            return super().resolve_command(*arguments)


def _reflowed(command: Any) -> Any:
    """Return a command whose help has one line per paragraph: typer would keep the line ends of the docstring."""
    for part in (command, *getattr(command, "commands", {}).values()):
        part.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (part.help or "").split("\n\n"))
    return command


@contextmanager
def _usage_errors_in_one_line(command: str = "", words: Sequence[str] = ()) -> Iterator[None]:
    """Turn wrong flags into one line on standard error, with the value that was given and where to look."""
    try:
        yield
    except _UsageError as error:
        message = error.format_message().rstrip(".")
        flags = getattr(getattr(error, "param", None), "opts", ())
        parts = [part for word in words for part in word.split("=", 1)]
        if given := [value for flag, value in pairwise(parts) if flag in flags]:
            message = message.replace("Invalid value for", f"Invalid value {given[-1]!r} for")
        see = " See" if message.endswith("?") else "; see"
        say(f"error: {message[:1].lower()}{message[1:]}{see} `{f'gape {command}'.strip()} --help`")
        raise typer.Exit(2) from None


# Tracebacks must never show local variables: some hold private data.
app = typer.Typer(
    name="gape",
    cls=_Commands,
    help="Differentially private synthetic data by Private Evolution, with geometry-aware selection.",
    epilog="Start with `gape plan reviews.csv --text review --epsilon 1`, then replace `plan` by `run`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  (the signature that typer calls)
    if wanted:
        output().print(f"gape {__version__}", markup=False)
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[  # noqa: FBT002  (a typer flag)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
