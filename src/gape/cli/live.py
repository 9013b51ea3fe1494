"""Progress of a run: a bar in a terminal, otherwise one line per step."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from gape.cli.shared import duration_in_words, notes
from gape.runs.advice import LONG
from gape.runs.folder.versions import VersionWarning
from gape.runs.progress import Progress

_TO_JUDGE = 16  # answers from which the time left can be told


@contextmanager
def watching(faster: str = "") -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress on standard error. Version warnings are printed as separate lines.

    So is `faster`, once, if the run turns out to be long.
    """
    terminal = notes()
    with _noting(terminal), _showing(terminal) as show:
        yield _advising(show, terminal, faster) if faster else show


def _advising(show: Callable[[Progress], None], terminal: Console, faster: str) -> Callable[[Progress], None]:
    pace, told = _Pace(), False

    def show_and_advise(now: Progress) -> None:
        nonlocal told
        show(now)
        left = pace.left(now)
        if not told and left is not None and now.asked >= _TO_JUDGE:
            told = True
            if left > LONG:
                terminal.print(f"note: {duration_in_words(left)} left. {faster}", markup=False)

    return show_and_advise


@contextmanager
def _noting(terminal: Console) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", VersionWarning)
        otherwise = warnings.showwarning

        def note(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, VersionWarning):
                terminal.print(f"note: {message}", markup=False)
            else:
                otherwise(message, category, filename, lineno, file, line)

        warnings.showwarning = note
        yield


@contextmanager
def _showing(terminal: Console) -> Iterator[Callable[[Progress], None]]:
    pace = _Pace()
    if not terminal.is_terminal:
        last = ""

        def print_steps(now: Progress) -> None:
            nonlocal last
            step, paced = _step(now), pace.of(now)  # called each time, because it starts at the first answer
            if step != last:
                terminal.print(f"{step}{paced}", markup=False)
                last = step

        yield print_steps
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[pace]}"))
    with Bar(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("Starting", total=None, pace="")

        def show(now: Progress) -> None:
            # Without a model only rounds can be counted.
            done, total = (float(now.written), now.texts) if now.texts else (float(now.round), now.rounds)
            if now.share is not None:
                done, total = now.share, 1
            bar.update(task, description=_step(now), completed=done, total=total, pace=pace.of(now))

        yield show


def _step(now: Progress) -> str:
    where = f"Round {now.round} of {now.rounds}" if now.round else "Start"
    return f"{where}: {now.doing}"


class _Pace:
    """Throughput in texts and tokens since the first answer, and the estimated time left."""

    def __init__(self) -> None:
        self._since: float | None = None

    def of(self, now: Progress) -> str:
        elapsed = self._elapsed(now)
        if elapsed is None:
            return ""
        parts = [f"{now.written} of {now.texts} texts", f"{now.tokens / elapsed:.0f} tokens/s"]
        if now.cost:
            parts.append(f"cost {now.cost:.2f}")
        if (left := self.left(now)) is not None:
            parts.append(f"{duration_in_words(left)} left")
        return "  " + ", ".join(parts)

    def left(self, now: Progress) -> float | None:
        """Return the seconds left; None if there is nothing to judge by, or to do."""
        elapsed = self._elapsed(now)
        if elapsed is None or now.asked <= 1 or now.written >= now.texts:
            return None
        return (now.texts - now.written) * elapsed / now.asked

    def _elapsed(self, now: Progress) -> float | None:
        if self._since is None:
            self._since = time.monotonic() if now.asked else None
            return None
        return max(time.monotonic() - self._since, 1e-3)
