"""The command line, a file for every group of commands.

The module of a command is imported when that command is called, so that help and mistyped commands take no time.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gape import __version__
from gape.cli.shared import output

_TEXTS, _ANALYSIS = "Synthetic texts", "To look around"


@dataclass(frozen=True)
class Entry:
    """A command, by the module and the function that it is."""

    name: str
    panel: str
    module: str
    function: str

    def load(self) -> Callable[..., None] | typer.Typer:
        """Import the command, or the group of commands that the module calls `app`."""
        module: Any = import_module(f"gape.cli.{self.module}")
        found: Callable[..., None] | typer.Typer = getattr(module, "app", None) or getattr(module, self.function)
        return found

    def docstring(self) -> str:
        """Read what the command says of itself, without importing it."""
        source = ast.parse(Path(__file__).with_name(f"{self.module}.py").read_text(encoding="utf-8"))
        functions = {node.name: node for node in source.body if isinstance(node, ast.FunctionDef)}
        return ast.get_docstring(functions[self.function]) or ""


COMMANDS = (
    Entry("plan", _TEXTS, "text", "plan"),
    Entry("run", _TEXTS, "text", "run"),
    Entry("resume", _TEXTS, "text", "resume"),
    Entry("embed", _TEXTS, "embed", "embed"),
    Entry("status", _TEXTS, "runs", "status"),
    Entry("report", _TEXTS, "report", "report"),
    Entry("evaluate", _TEXTS, "evaluate", "evaluate"),
    Entry("export", _TEXTS, "runs", "export"),
    Entry("expand", _TEXTS, "runs", "expand"),
    Entry("privacy", _ANALYSIS, "privacy", "privacy"),
    Entry("audit", _ANALYSIS, "audit", "audit"),
    Entry("demo", _ANALYSIS, "demo", "demo"),
    Entry("compare", _ANALYSIS, "compare", "compare"),
    Entry("diagnose", _ANALYSIS, "diagnose", "diagnose_generator"),
    Entry("models", _TEXTS, "models", "models"),
)


class _Unloaded(TyperCommand):
    """A command that is imported when it is called."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, rich_help_panel=entry.panel)
        self.entry = entry

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the arguments as the command itself does."""
        found = self.entry.load()
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.entry.name)(found)
            found = alone
        return typer.main.get_command(found).make_context(*arguments, **options)


class _Commands(TyperGroup):
    """All commands, none of them imported."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": {entry.name: _Unloaded(entry) for entry in COMMANDS}})

    def format_help(self, *arguments: Any) -> None:
        """List the commands with what they say of themselves."""
        for command in self.commands.values():
            if isinstance(command, _Unloaded):
                command.help = command.entry.docstring()
        super().format_help(*arguments)


# Tracebacks must never show local variables: some hold private data.
app = typer.Typer(
    name="gape",
    cls=_Commands,
    help="Differentially private synthetic data by Private Evolution, with geometry-aware selection.",
    epilog="Begin with `gape plan reviews.csv --text review --epsilon 1`, then the same with `run`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it so)
    if wanted:
        output().print(f"gape {__version__}", markup=False)
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[  # noqa: FBT002  (a flag, for typer)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
