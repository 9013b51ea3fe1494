"""Runs the shared small run in a process that is killed at its k-th write."""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import parts
from gape.privacy.ledger import Budget, Ledger

_WRITES = {"os.rename", "os.mkdir", "os.chmod", "os.remove"}


def run_until(folder: Path, kill_at: int, budget: Budget) -> int:
    """Run or resume in `folder`, and die by SIGKILL before write number `kill_at`; return the number of writes.

    A write is anything that changes the disk: opening a file to write, renaming, removing, making a folder,
    changing a mode, and every statement of the ledger's database.
    """
    writes = 0

    def step() -> None:
        nonlocal writes
        writes += 1
        if writes == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(_on_write(folder, step))
    sqlite3.connect = _traced(sqlite3.connect, step)  # type: ignore[assignment]
    ledger = Ledger(folder / "ledger", budget)
    parts.small_run(folder / "run", ledger)
    ledger.close()
    return writes


def _on_write(folder: Path, step: Callable[[], None]) -> Callable[[str, tuple[object, ...]], None]:
    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(str(folder)):
            flags = arguments[2]
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
                step()
        elif event in _WRITES:
            step()

    return hook


def _traced(connect: Callable[..., sqlite3.Connection], step: Callable[[], None]) -> Callable[..., sqlite3.Connection]:
    def connect_and_trace(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda statement: step())
        return connection

    return connect_and_trace


def report_writes(folder: Path, budget: Budget, answers: object) -> None:
    """Run to the end and tell how many writes there were."""
    answers.put(run_until(folder, 0, budget))  # type: ignore[attr-defined]


def die(folder: Path, kill_at: int, budget: Budget) -> None:
    """Run until the given write; a process that ends otherwise ends with code 0."""
    run_until(folder, kill_at, budget)
