"""Reading answers as they arrive, in several processes if there are many: a GPU writes faster than one core cleans.

A process gets the answers to neighbouring drafts, which are mostly variations of a few samples, and caches the results
for their sentences. It knows only the data it is sent. If it fails, its portion is read in this process, with the same
result.
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

_MANY = 4096  # drafts; fewer are read faster than processes start
_FEWEST = 4  # cores; with fewer there is none to spare
_MOST = 8  # processes: more than a model keeps busy
_PORTION = 64  # answers that a process gets at a time

# Started without multiprocessing, which would run the user's script again from its first line.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = sys.argv[1:]; "
    "from gape.generators.reading import serve; serve()"
)


@dataclass(frozen=True)
class Draft:
    """A request for one text, and how to read its answer: `read` returns None if the answer is not usable.

    A text that is written in several steps has a draft that follows the text of the one before.
    """

    request: Request
    read: Callable[[Completion], str | None]  # a partial, not a closure, so that it can be sent to other processes
    following: "Callable[[str], Draft] | None" = None


class Reading:
    """The texts of drafts, filled in as answers arrive. Use as a context manager."""

    def __init__(self, drafts: Sequence[Draft], processes: int | None = None) -> None:
        """Start without texts. Answers are read in `processes`, by default on half of the cores if there are many."""
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

    def take(self, index: int, completion: Completion) -> None:
        """Read the answer to the draft at `index`, at the latest by the next `settle`."""
        if not self._readers:
            self.texts[index] = self._drafts[index].read(completion)
            return
        reader = index * len(self._readers) // len(self._drafts)
        self._held[reader].append((index, completion))
        if len(self._held[reader]) == _PORTION:
            self._send(reader)

    def settle(self) -> None:
        """Wait until all answers taken so far are read."""
        for reader, held in enumerate(self._held):
            if held:
                self._send(reader)
        for indices, texts in self._sent:
            for index, text in zip(indices, texts.result(), strict=True):
                self.texts[index] = text
        self._sent = []

    def _send(self, reader: int) -> None:
        held, self._held[reader] = self._held[reader], []
        portion = [(self._drafts[index].read, completion) for index, completion in held]
        self._sent.append(([index for index, _ in held], self._readers[reader].read(portion)))


def _started(count: int) -> "list[_Reader]":
    """Start `count` processes, or as many as this machine allows."""
    # A frozen program would start itself again, and pipes on Windows are not files that a process could inherit.
    if not sys.executable or hasattr(sys, "frozen") or sys.platform == "win32":
        return []
    readers: list[_Reader] = []
    with suppress(OSError):  # no memory, or too many processes or files already
        for _ in range(count):
            readers.append(_Reader())  # noqa: PERF401  (keeps those that have started)
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
        except Exception:  # noqa: BLE001  (the process ended, or the portion cannot be sent; other errors are raised by _read)
            return _read(portion)
        return texts


def serve() -> None:
    """Read portions until the other side closes the connection or ends."""
    with Connection(sys.stdin.fileno()) as connection, suppress(EOFError, OSError):
        while True:
            connection.send(_read(connection.recv()))


def _read(portion: _Portion) -> list[str | None]:
    return [read(completion) for read, completion in portion]
