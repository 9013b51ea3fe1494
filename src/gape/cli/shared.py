"""What the commands share: errors in one line, consoles, words for numbers."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import typer
from rich.console import Console

from gape.errors import DeviceError, GapeError, ServiceError, SpendingError
from gape.privacy.statement import PrivacyStatement

INTERRUPTED = 130


def output() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=True)


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
        typer.echo("interrupted; what was released before stays charged", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  (the last resort)
        # What it says may quote private text, and so may a traceback.
        fail(f"an internal error, {type(error).__name__} in {_place(error)}; please report it with what you ran")


def fail(message: str) -> None:
    """Print an error and end with code 1."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on with a run that stopped."""
    try:
        yield
    except KeyboardInterrupt:
        goes_on = f"all that was done is kept: `gape resume {quote(str(folder))}` goes on from here"
        typer.echo(
            f"stopped; {goes_on if _begun(folder) else 'nothing was written yet: the same command begins anew'}",
            err=True,
        )
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


def in_bytes(count: float) -> str:
    """Say a number of bytes to three digits: "64 kB", "15.4 GB"."""
    for size, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.9995 * size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}" if trace else "an unknown place"
