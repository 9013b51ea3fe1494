"""Helpers that the commands share: one-line errors, consoles, formatting of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gape._support.tracebacks import error_location
from gape.core.errors import DeviceError, GapeError, ServiceError, SpendingError
from gape.runs.folder.layout import Layout

if TYPE_CHECKING:
    from gape.privacy.statement import PrivacyStatement

INTERRUPTED = 130


# Characters that a terminal interprets instead of showing, except tabs and line ends: control characters, and those
# that change the direction of writing.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Terminal(Console):
    """A console that shows untrusted text without letting it control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as usual, with control characters replaced."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def visible(text: str) -> str:
    """Return a text with each control character replaced by U+FFFD."""
    return _OBEYED.sub("\ufffd", text)


def output() -> Console:
    """Return the console for results: standard output."""
    return Terminal(highlight=False, soft_wrap=True)


def notes() -> Console:
    """Return the console for progress and remarks: standard error."""
    return Terminal(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """Print a line on standard error."""
    typer.echo(visible(message), err=True)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn any exception into one line on standard error and an exit code."""
    try:
        yield
    except GapeError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{_in_words(error)}; use another folder or free some space")
    except KeyboardInterrupt:
        say("interrupted; votes released before stay charged")
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  (the last resort)
        # The message may quote private text, and so may a traceback.
        what = f"{type(error).__name__} in {error_location(error)}"
        fail(f"internal error: {what}; please report it with the command you ran")


def _in_words(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename}" if error.filename else "")


def fail(message: str) -> None:
    """Print an error and end with code 1."""
    say(f"error: {message}")
    raise typer.Exit(1) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Tell the user how to resume a run that stopped."""
    try:
        yield
    except KeyboardInterrupt:
        resume = f"all finished work is kept: resume with `gape resume {quote(str(folder))}`"
        say(f"stopped; {resume if _begun(folder) else 'nothing was written yet: repeat the command to start again'}")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        if not _begun(folder):
            raise
        fail(f"{_in_words(error)}; free some space, then resume with `gape resume {quote(str(folder))}`")
    except (ServiceError, DeviceError) as error:
        then = f"resume with `gape resume {quote(str(folder))}`" if _begun(folder) else "repeat the command"
        raise type(error)(f"{error}, then {then}") from None
    except SpendingError as error:
        flag = "with --max-cost or --max-tokens-total" if "cap" in str(error) else ""
        if not _begun(folder):
            raise SpendingError(f"{error}: nothing was written yet, repeat the command {flag}".rstrip()) from None
        raise SpendingError(f"{error}: `gape resume {quote(str(folder))}` {flag}".rstrip()) from None


def _begun(folder: Path) -> bool:
    return Layout(folder).settings.exists()


def print_statement(console: Console, statement: PrivacyStatement) -> None:
    """Print the privacy statement, in red if the run is not private."""
    console.print("\nPrivacy", style="bold")
    console.print(statement.text(), style="green" if statement.private else "bold white on red", markup=False)


def duration_in_words(seconds: float) -> str:
    """Format a duration to two digits: "3 min", "2.5 h"."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(1, math.ceil(seconds))} s"
