"""What the commands share: errors in one line, consoles, words for numbers."""

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

from gape.core.errors import DeviceError, GapeError, ServiceError, SpendingError

if TYPE_CHECKING:
    from gape.privacy.statement import PrivacyStatement

INTERRUPTED = 130


# Characters that a terminal obeys instead of showing them, but for tabs and line ends: controls, and those that turn
# the direction of what follows.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Terminal(Console):
    """A console on which texts from anywhere are shown and never obeyed."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as usual, with a replacement character for each that a terminal would obey."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def visible(text: str) -> str:
    """Return a text without characters that a terminal obeys."""
    return _OBEYED.sub("\ufffd", text)


def output() -> Console:
    """Where results go."""
    return Terminal(highlight=False, soft_wrap=True)


def notes() -> Console:
    """Where progress and remarks go: standard error."""
    return Terminal(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """Print a line on standard error."""
    typer.echo(visible(message), err=True)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn whatever can go wrong into one line on standard error and an exit code."""
    try:
        yield
    except GapeError as error:
        fail(str(error))
    except OSError as error:
        place = f" at {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}{place}; use another folder or make room")
    except KeyboardInterrupt:
        say("interrupted; what was released before stays charged")
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  (the last resort)
        # What it says may quote private text, and so may a traceback.
        fail(f"an internal error, {type(error).__name__} in {_place(error)}; please report it with what you ran")


def fail(message: str) -> None:
    """Print an error and end with code 1."""
    say(f"error: {message}")
    raise typer.Exit(1) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on with a run that stopped."""
    try:
        yield
    except KeyboardInterrupt:
        goes_on = f"all that was done is kept: `gape resume {quote(str(folder))}` goes on from here"
        say(f"stopped; {goes_on if _begun(folder) else 'nothing was written yet: the same command starts again'}")
        raise typer.Exit(INTERRUPTED) from None
    except (ServiceError, DeviceError) as error:
        then = f"`gape resume {quote(str(folder))}` goes on" if _begun(folder) else "repeat the command"
        raise type(error)(f"{error}, then {then}") from None
    except SpendingError as error:
        flag = "with --max-cost or --max-tokens-total" if "cap" in str(error) else ""
        raise SpendingError(f"{error}: `gape resume {quote(str(folder))}` {flag}".rstrip()) from None


def _begun(folder: Path) -> bool:
    return (folder / "internal" / "settings.toml").exists()


def print_statement(console: Console, statement: PrivacyStatement) -> None:
    """Print what is guaranteed; in red where nothing is."""
    console.print("\nPrivacy", style="bold")
    console.print(statement.text(), style="green" if statement.private else "bold white on red", markup=False)


def in_words(seconds: float) -> str:
    """Say a time to two digits: "3 min", "2.5 h"."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(1, math.ceil(seconds))} s"


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}" if trace else "an unknown place"
