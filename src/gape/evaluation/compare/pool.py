"""Run cells in parallel: worker processes vote, select and score, and share an embedder and a model in the parent."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import Queue
from typing import Any, cast

from threadpoolctl import threadpool_limits

from gape._support.parallel import use_at_most
from gape._support.tracebacks import error_location
from gape.core.errors import GapeError, RunError
from gape.core.protocols import Embedder
from gape.core.types import Points
from gape.evaluation.compare.cell import Known, Result, Split, run_cell
from gape.evaluation.compare.grid import Builder, Cell, Grid, Study
from gape.evaluation.compare.shared import RemoteEmbedder, RemoteModel, SharedPoints
from gape.language.request import Completion, LanguageModel, Request, are_answered_together

_PATIENCE = 5.0  # seconds that a process has to end by itself
_MOST_REQUESTS = 8192  # per batch: twice what a GPU answers at a time
_RETRY_RATIO = 8  # requests that are this many times fewer than the most count as a retry of rejected answers


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of all runs, made once however many cells there are. The repr shows nothing of the private points.

    `build` is sent to worker processes and must be picklable; `embedder` and `model` stay in this process.
    """

    private: Points  # (n, d)
    embedder: Embedder  # of candidates; with a cache, such as `Cached`, candidates that cells share are embedded once
    build: Builder
    model: LanguageModel | None = None
    known: Known = field(default_factory=Known)  # what else is known of the private records
    made_by: Mapping[str, str] = field(default_factory=dict)  # identifies the models, so that others can be refused

    def __repr__(self) -> str:
        return f"Parts of {len(self.private)} records"


def run_cells(
    cells: Sequence[Cell],
    grid: Grid,
    study: Study,
    parts: Parts,
    jobs: int,
    keep: Callable[[Result], None],
    on_round: Callable[[Cell, int], None],
) -> None:
    """Run all cells, at most `jobs` at a time; call `keep` with each result and `on_round` after each round.

    A result depends only on its cell, not on what runs beside it. With one job, everything runs in this process.
    """
    jobs = min(jobs, len(cells))
    if jobs <= 1:
        _run_here(cells, grid, study, parts, keep, on_round)
        return
    with closing(SharedPoints(parts.private)) as points, _workers(jobs, points, grid, study, parts) as workers:
        _Dispatcher(workers, parts, keep, on_round).run(cells)


def _run_here(
    cells: Sequence[Cell],
    grid: Grid,
    study: Study,
    parts: Parts,
    keep: Callable[[Result], None],
    on_round: Callable[[Cell, int], None],
) -> None:
    runner = _CellRunner(parts.private, parts.known, grid, study, parts.build, (parts.model, parts.embedder))
    for cell in cells:
        keep(runner.run(cell, lambda turn, cell=cell: on_round(cell, turn)))  # type: ignore[misc]


class _CellRunner:
    """Runs cells one after the other in one process."""

    def __init__(
        self,
        private: Points,
        known: Known,
        grid: Grid,
        study: Study,
        build: Builder,
        shared: tuple[LanguageModel | None, Embedder],
    ) -> None:
        self._private, self._known = private, known
        self._grid, self._study, self._build, self._shared = grid, study, build, shared
        self._split: tuple[int, Split] | None = None  # of the last seed, because cells come seed by seed

    def run(self, cell: Cell, on_round: Callable[[int], None]) -> Result:
        if self._split is None or self._split[0] != cell.seed:
            self._split = None  # free the memory before the next split is made
            self._split = cell.seed, Split.of(self._private, self._known, self._study, cell.seed)
        method = None if cell.real else self._grid.method(cell.method)
        build = self._build if method is None else method.build or self._build
        return run_cell(cell, method, self._study, self._split[1], build(*self._shared), on_round)


@dataclass(frozen=True, eq=False)
class _Job:
    """What a worker receives before its first cell."""

    known: Known
    grid: Grid
    study: Study
    build: Builder
    model: tuple[str, bool] | None  # name, and whether it can continue


@dataclass(frozen=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection


@contextmanager
def _workers(jobs: int, points: SharedPoints, grid: Grid, study: Study, parts: Parts) -> Iterator[list[_Worker]]:
    """Start workers, and end them in any case."""
    context = get_context("spawn")  # a fork would copy the locks of threads without the threads
    model = None if parts.model is None else (parts.model.name, parts.model.can_continue)
    workers: list[_Worker] = []
    try:
        for _ in range(jobs):
            parent_end, worker_end = context.Pipe()
            # The arguments must be small: if a worker ends before it reads them, they stay in a pipe that nobody
            # empties, and more than fits into it would block this process for ever.
            process = context.Process(target=_work, args=(worker_end, points), daemon=True)
            process.start()
            worker_end.close()  # so that the connection closes when the worker ends
            workers.append(_Worker(process, parent_end))
        job = _Job(parts.known, grid, study, parts.build, model)
        for worker in workers:
            with suppress(ConnectionError):  # the worker has ended; `_receive` reports it
                worker.connection.send(job)
        yield workers
        for worker in workers:
            worker.connection.send(None)
            worker.process.join(_PATIENCE)
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
            worker.connection.close()


class _Dispatcher:
    """Assigns cells to workers and answers their requests: the model runs in this thread, all else in a second one.

    Texts of some cells are therefore embedded while the model writes those of others. A connection is used by one
    thread at a time, because a worker waits for its answer before it sends the next request.
    """

    def __init__(
        self,
        workers: Sequence[_Worker],
        parts: Parts,
        keep: Callable[[Result], None],
        on_round: Callable[[Cell, int], None],
    ) -> None:
        self._workers = {worker.connection: worker for worker in workers}
        self._parts, self._keep, self._on_round = parts, keep, on_round
        self._busy: dict[Connection, Cell] = {}
        self._requests: Queue[tuple[Connection, list[Request]] | BaseException | None] = Queue()  # for the model
        self._pending: list[tuple[Connection, list[Request]]] = []  # taken from the queue, not yet answered
        self._largest = 0  # most requests that a worker has sent at once

    def run(self, cells: Sequence[Cell]) -> None:
        server = threading.Thread(target=self._serve_and_signal, args=(deque(cells),), daemon=True)
        server.start()
        while (batch := self._next_batch()) is not None:
            self._complete(batch)
        server.join()

    def _answer(self, connection: Connection, requests: list[Request]) -> None:
        """Let the model answer one worker, while other threads ask it on behalf of others."""
        try:
            connection.send(list(cast(LanguageModel, self._parts.model).complete(requests)))
        except BaseException as error:  # noqa: BLE001  (raised by the thread that waits)
            self._requests.put(error)

    def _next_batch(self) -> dict[Connection, list[Request]] | None:
        """Wait for requests to the model and return the next batch by worker; None when all cells are done.

        The model answers many requests as fast as few. A batch serves at most half of the workers, and not many more
        requests than keep a GPU busy: the other workers vote and select meanwhile and have requests ready when it
        ends. A worker asks up to three times in a round, the second and third time for the few answers that were
        rejected. These retries come first: they do not wait while whole rounds of other workers are written.
        """
        while not self._pending or not self._requests.empty():
            message = self._requests.get()
            if message is None:
                return None
            if isinstance(message, BaseException):
                raise message
            self._pending.append(message)
            self._largest = max(self._largest, len(message[1]))
        retries = {
            worker: requests for worker, requests in self._pending if len(requests) * _RETRY_RATIO <= self._largest
        }
        if retries:
            self._pending = [pending for pending in self._pending if pending[0] not in retries]
            return retries
        batch: dict[Connection, list[Request]] = {}
        total = 0
        while self._pending and 2 * len(batch) < len(self._workers) and total < _MOST_REQUESTS:
            worker, requests = self._pending.pop(0)
            batch[worker] = requests
            total += len(requests)
        return batch

    def _serve_and_signal(self, waiting: deque[Cell]) -> None:
        try:
            self._serve(waiting)
            self._requests.put(None)
        except BaseException as error:  # noqa: BLE001  (raised by the thread that waits)
            self._requests.put(error)

    def _serve(self, waiting: deque[Cell]) -> None:
        for connection in self._workers:
            self._assign(connection, waiting)
        while self._busy:
            for ready in wait(list(self._busy)):
                connection = cast("Connection", ready)  # wait returns what it was given
                kind, content = self._receive(connection)
                if kind == "done":
                    self._keep(content)
                    del self._busy[connection]
                    self._assign(connection, waiting)
                elif kind == "round":
                    self._on_round(self._busy[connection], content)
                elif kind == "embed":
                    connection.send(self._parts.embedder.embed(content))
                elif are_answered_together(self._parts.model):
                    threading.Thread(target=self._answer, args=(connection, content), daemon=True).start()
                else:
                    self._requests.put((connection, content))

    def _assign(self, connection: Connection, waiting: deque[Cell]) -> None:
        if waiting:
            self._busy[connection] = waiting.popleft()
            with suppress(ConnectionError):  # the worker has ended; `_receive` reports it
                connection.send(self._busy[connection])

    def _receive(self, connection: Connection) -> tuple[str, Any]:
        try:
            kind, content = connection.recv()
        except (EOFError, ConnectionError):
            process = self._workers[connection].process
            process.join(_PATIENCE)
            killed = process.exitcode is None or process.exitcode < 0
            remedy = (
                "perhaps because memory ran out; use fewer jobs"
                if killed
                else "and printed the reason above; fix the cause"
            )
            raise RunError(
                f"a worker process ended with code {process.exitcode} in the cell {self._busy[connection]}, {remedy} "
                "and repeat the command: finished cells are kept"
            ) from None
        if kind == "failed":
            raise content
        return kind, content

    def _complete(self, batch: dict[Connection, list[Request]]) -> None:
        """Let the model answer the requests of several workers at once."""
        model = cast(LanguageModel, self._parts.model)  # without a model there are no requests
        owners = [(connection, position) for connection, requests in batch.items() for position in range(len(requests))]
        answers: dict[Connection, list[tuple[int, Completion]]] = {connection: [] for connection in batch}
        for index, completion in model.complete([request for requests in batch.values() for request in requests]):
            connection, position = owners[index]
            answers[connection].append((position, completion))
        for connection, completions in answers.items():
            connection.send(completions)


def _work(parent: Connection, points: SharedPoints) -> None:
    """Run the cells that the parent assigns, one after the other, on one core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _end_with_parent()
    use_at_most(1)
    with threadpool_limits(1), suppress(EOFError, ConnectionError):
        try:
            job: _Job = parent.recv()
            model = None if job.model is None else RemoteModel(parent, job.model[0], can_continue=job.model[1])
            runner = _CellRunner(
                points.read(), job.known, job.grid, job.study, job.build, (model, RemoteEmbedder(parent))
            )
            while (cell := parent.recv()) is not None:
                parent.send(("done", runner.run(cell, lambda turn: parent.send(("round", turn)))))
        except GapeError as error:
            parent.send(("failed", error))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  (its message may quote private text, so only its type is reported)
            message = f"a worker failed with {type(error).__name__} in {error_location(error)}"
            parent.send(("failed", RuntimeError(message)))


def _end_with_parent() -> None:
    """End this process as soon as its parent ends, even in the middle of a computation."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
