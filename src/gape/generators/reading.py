"""Answers are read as they come, by several processes where there are many: a GPU writes faster than one core cleans.

A process gets the answers to neighbouring drafts, which are mostly variations of a few samples, and remembers what it
has found out about their sentences. It knows nothing but what it is sent; whatever becomes of it, its share is then
read here, and ends as it would have there.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Self

from gape._support.parallel import cores
from gape.language.request import Completion, Request

_MANY = 4096  # drafts; fewer are read before processes have started
_FEWEST = 4  # cores; with fewer there is none to spare
_MOST = 8  # processes: more than a model keeps busy
_PORTION = 64  # answers that a process gets at a time

# A process of its own and not one of multiprocessing, which would run the user's script again from its first line.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = sys.argv[1:]; "
    "from gape.generators.reading import serve; serve()"
)


@dataclass(frozen=True)
class Draft:
    """One text to be asked for, and how its answer is read: None where it will not do."""

    request: Request
    read: Callable[[Completion], str | None]  # a partial rather than a closure, which other processes could not get


class Reading:
    """The texts of drafts, as their answers come; to be closed."""

    def __init__(self, drafts: Sequence[Draft], processes: int | None = None) -> None:
        """Begin with no text; read by half of the cores where there are many drafts, or by `processes`."""
        if processes is None:
            processes = min(_MOST, cores() // 2) if len(drafts) >= _MANY and cores() >= _FEWEST else 0
        self.texts: list[str | None] = [None] * len(drafts)
        self._drafts = drafts
        self._readers = _started(processes)
        self._held: list[list[tuple[int, Completion]]] = [[] for _ in self._readers]
        self._sent: list[tuple[list[int], Future[list[str | None]]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.close()

    def take(self, place: int, completion: Completion) -> None:
        """Read the answer to the draft at `place`, by the next `settle` at the latest."""
        if not self._readers:
            self.texts[place] = self._drafts[place].read(completion)
            return
        reader = place * len(self._readers) // len(self._drafts)
        self._held[reader].append((place, completion))
        if len(self._held[reader]) == _PORTION:
            self._send(reader)

    def settle(self) -> None:
        """Wait until every answer that was taken is read."""
        for reader, held in enumerate(self._held):
            if held:
                self._send(reader)
        for places, texts in self._sent:
            for place, text in zip(places, texts.result(), strict=True):
                self.texts[place] = text
        self._sent = []

    def _send(self, reader: int) -> None:
        held, self._held[reader] = self._held[reader], []
        portion = [(self._drafts[place].read, completion) for place, completion in held]
        self._sent.append(([place for place, _ in held], self._readers[reader].read(portion)))


def _started(count: int) -> "list[_Reader]":
    """Start so many processes, or as many as this machine lets one start."""
    # A program that was frozen would start itself again, and Windows' pipes are no files that one could be given.
    if not sys.executable or hasattr(sys, "frozen") or sys.platform == "win32":
        return []
    readers: list[_Reader] = []
    with suppress(OSError):  # no memory, or too many processes or files already
        for _ in range(count):
            readers.append(_Reader())  # noqa: PERF401  (those that have started are kept)
    return readers


_Portion = list[tuple[Callable[[Completion], str | None], Completion]]


class _Reader:
    """A process that reads answers, and the thread that waits for it."""

    def __init__(self) -> None:
        self._connection, there = Pipe()
        with there:
            self._process = subprocess.Popen(  # noqa: S603  (this program itself)
                [sys.executable, "-c", _PROGRAM, *sys.path],
                stdin=there.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reading")

    def read(self, portion: _Portion) -> "Future[list[str | None]]":
        return self._thread.submit(self._exchange, portion)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.shutdown(cancel_futures=True)
        self._connection.close()

    def _exchange(self, portion: _Portion) -> list[str | None]:
        try:
            self._connection.send(portion)
            texts: list[str | None] = self._connection.recv()
        except Exception:  # noqa: BLE001  (it has ended, or the portion cannot be sent; what else there is, is raised here)
            return _read(portion)
        return texts


def serve() -> None:
    """Read what comes, until nothing more does: when the other side closes, or ends in whichever way."""
    with Connection(sys.stdin.fileno()) as connection, suppress(EOFError, OSError):
        while True:
            connection.send(_read(connection.recv()))


def _read(portion: _Portion) -> list[str | None]:
    return [read(completion) for read, completion in portion]
