"""Cells side by side: worker processes that vote, select and score, beside one embedder and one model in the parent."""

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
from pathlib import Path
from queue import Queue
from typing import Any, cast

from threadpoolctl import threadpool_limits

from gape._support.parallel import use_at_most
from gape.core.errors import GapeError, RunError
from gape.core.protocols import Embedder
from gape.core.types import Points
from gape.evaluation.compare.cell import Known, Result, Split, run_cell
from gape.evaluation.compare.grid import Builder, Cell, Grid, Study
from gape.evaluation.compare.shared import RemoteEmbedder, RemoteModel, SharedPoints
from gape.language.request import Completion, LanguageModel, Request, are_answered_together

_PATIENCE = 5.0  # seconds for a process to end by itself
_ENOUGH = 8192  # requests: twice what a GPU answers at a time
_FEW = 8  # times as many as are few were asked for at once


@dataclass(frozen=True, eq=False)
class Parts:
    """What runs, made once whatever the number of cells. It holds private points, so its repr shows nothing.

    `build` goes to worker processes and must be something that can be pickled; `embedder` and `model` stay here.
    """

    private: Points  # (n, d)
    embedder: Embedder  # of candidates; one that remembers, such as `Cached`, embeds what cells share once
    build: Builder
    model: LanguageModel | None = None
    known: Known = field(default_factory=Known)  # what else is known of the private records
    made_by: Mapping[str, str] = field(default_factory=dict)  # models by their content, for the folder to tell others

    def __repr__(self) -> str:
        return f"Parts of {len(self.private)} records"


def run_cells(
    cells: Sequence[Cell],
    grid: Grid,
    study: Study,
    parts: Parts,
    jobs: int,
    keep: Callable[[Result], None],
    told: Callable[[Cell, int], None],
) -> None:
    """Run all cells, at most `jobs` at a time; `keep` gets every result as it comes, `told` hears of every round.

    A result depends on its cell alone, whatever runs beside it. With one job everything stays in this process.
    """
    jobs = min(jobs, len(cells))
    if jobs <= 1:
        _run_here(cells, grid, study, parts, keep, told)
        return
    with closing(SharedPoints(parts.private)) as points, _workers(jobs, points, grid, study, parts) as workers:
        _Office(workers, parts, keep, told).run(cells)


def _run_here(
    cells: Sequence[Cell],
    grid: Grid,
    study: Study,
    parts: Parts,
    keep: Callable[[Result], None],
    told: Callable[[Cell, int], None],
) -> None:
    desk = _Desk(parts.private, parts.known, grid, study, parts.build, (parts.model, parts.embedder))
    for cell in cells:
        keep(desk.run(cell, lambda turn, cell=cell: told(cell, turn)))  # type: ignore[misc]


class _Desk:
    """What one process needs to run cells, one after the other."""

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
        self._split: tuple[int, Split] | None = None  # of the last seed: cells come seed by seed

    def run(self, cell: Cell, told: Callable[[int], None]) -> Result:
        if self._split is None or self._split[0] != cell.seed:
            self._split = None  # before the next is made: two would not be needed at once
            self._split = cell.seed, Split.of(self._private, self._known, self._study, cell.seed)
        method = None if cell.real else self._grid.method(cell.method)
        build = self._build if method is None else method.build or self._build
        return run_cell(cell, method, self._study, self._split[1], build(*self._shared), told)


@dataclass(frozen=True, eq=False)
class _Job:
    """What a worker is told before its first cell."""

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
    """Start workers, and end them whatever happens."""
    context = get_context("spawn")  # a fork would copy threads' locks without their threads
    model = None if parts.model is None else (parts.model.name, parts.model.can_continue)
    workers: list[_Worker] = []
    try:
        for _ in range(jobs):
            here, there = context.Pipe()
            # A worker that ends before it has read its arguments leaves them in a pipe that nobody empties: few enough
            # fit into it, more would block here for ever.
            process = context.Process(target=_work, args=(there, points), daemon=True)
            process.start()
            there.close()  # so that the end of the worker is the end of the connection
            workers.append(_Worker(process, here))
        job = _Job(parts.known, grid, study, parts.build, model)
        for worker in workers:
            with suppress(ConnectionError):  # of a worker that has ended, which is noticed when it is listened to
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


class _Office:
    """Gives out cells and answers what workers ask: the model in this thread, all else in one beside it.

    So texts are embedded for some cells while the model writes those of others. A connection is used by one thread at a
    time, for a worker waits for its answer before it asks again.
    """

    def __init__(
        self,
        workers: Sequence[_Worker],
        parts: Parts,
        keep: Callable[[Result], None],
        told: Callable[[Cell, int], None],
    ) -> None:
        self._workers = {worker.connection: worker for worker in workers}
        self._parts, self._keep, self._told = parts, keep, told
        self._busy: dict[Connection, Cell] = {}
        self._asked: Queue[tuple[Connection, list[Request]] | BaseException | None] = Queue()  # of the model
        self._pending: list[tuple[Connection, list[Request]]] = []  # and not yet given to it
        self._longest = 0  # of all that was asked at once

    def run(self, cells: Sequence[Cell]) -> None:
        desk = threading.Thread(target=self._desk, args=(deque(cells),), daemon=True)
        desk.start()
        while (asked := self._waiting()) is not None:
            self._complete(asked)
        desk.join()

    def _answer(self, connection: Connection, requests: list[Request]) -> None:
        """Have the model answer one worker, while other threads ask it for others."""
        try:
            connection.send(list(cast(LanguageModel, self._parts.model).complete(requests)))
        except BaseException as error:  # noqa: BLE001  (raised by the thread that waits)
            self._asked.put(error)

    def _waiting(self) -> dict[Connection, list[Request]] | None:
        """Wait until somebody asks the model, which answers many as fast as few; None when all cells are done.

        Not more than half of the workers at a time, nor many more requests than keep a GPU busy: the others vote and
        select meanwhile, so that the model goes on. A worker asks up to three times in a round, the second and third
        time for the few answers that were rejected: they do not wait while whole rounds of others are written.
        """
        while not self._pending or not self._asked.empty():
            each = self._asked.get()
            if each is None:
                return None
            if isinstance(each, BaseException):
                raise each
            self._pending.append(each)
            self._longest = max(self._longest, len(each[1]))
        few = {who: some for who, some in self._pending if len(some) * _FEW <= self._longest}
        if few:
            self._pending = [each for each in self._pending if each[0] not in few]
            return few
        asked: dict[Connection, list[Request]] = {}
        total = 0
        while self._pending and 2 * len(asked) < len(self._workers) and total < _ENOUGH:
            who, some = self._pending.pop(0)
            asked[who] = some
            total += len(some)
        return asked

    def _desk(self, waiting: deque[Cell]) -> None:
        try:
            self._serve(waiting)
            self._asked.put(None)
        except BaseException as error:  # noqa: BLE001  (raised by the thread that waits)
            self._asked.put(error)

    def _serve(self, waiting: deque[Cell]) -> None:
        for connection in self._workers:
            self._give(connection, waiting)
        while self._busy:
            for ready in wait(list(self._busy)):
                connection = cast("Connection", ready)  # wait gives back what it got
                kind, content = self._heard(connection)
                if kind == "done":
                    self._keep(content)
                    del self._busy[connection]
                    self._give(connection, waiting)
                elif kind == "round":
                    self._told(self._busy[connection], content)
                elif kind == "embed":
                    connection.send(self._parts.embedder.embed(content))
                elif are_answered_together(self._parts.model):
                    threading.Thread(target=self._answer, args=(connection, content), daemon=True).start()
                else:
                    self._asked.put((connection, content))

    def _give(self, connection: Connection, waiting: deque[Cell]) -> None:
        if waiting:
            self._busy[connection] = waiting.popleft()
            with suppress(ConnectionError):  # as above
                connection.send(self._busy[connection])

    def _heard(self, connection: Connection) -> tuple[str, Any]:
        try:
            kind, content = connection.recv()
        except (EOFError, ConnectionError):
            process = self._workers[connection].process
            process.join(_PATIENCE)
            killed = process.exitcode is None or process.exitcode < 0
            remedy = (
                "perhaps for want of memory; use fewer jobs" if killed else "which its own message explains; fix that"
            )
            raise RunError(
                f"a worker process ended with code {process.exitcode} in the cell {self._busy[connection]}, {remedy} "
                "and run the same again: finished cells are kept"
            ) from None
        if kind == "failed":
            raise content
        return kind, content

    def _complete(self, asked: dict[Connection, list[Request]]) -> None:
        """Have the model answer the requests of several workers at once."""
        model = cast(LanguageModel, self._parts.model)  # without one nobody asks
        owners = [(connection, place) for connection, requests in asked.items() for place in range(len(requests))]
        answers: dict[Connection, list[tuple[int, Completion]]] = {connection: [] for connection in asked}
        for index, completion in model.complete([request for requests in asked.values() for request in requests]):
            connection, place = owners[index]
            answers[connection].append((place, completion))
        for connection, found in answers.items():
            connection.send(found)


def _work(parent: Connection, points: SharedPoints) -> None:
    """Run the cells that the parent gives, one after the other, on one core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's to handle
    _end_with_parent()
    use_at_most(1)
    with threadpool_limits(1), suppress(EOFError, ConnectionError):
        try:
            job: _Job = parent.recv()
            model = None if job.model is None else RemoteModel(parent, job.model[0], can_continue=job.model[1])
            desk = _Desk(points.read(), job.known, job.grid, job.study, job.build, (model, RemoteEmbedder(parent)))
            while (cell := parent.recv()) is not None:
                parent.send(("done", desk.run(cell, lambda turn: parent.send(("round", turn)))))
        except GapeError as error:
            parent.send(("failed", error))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  (what it says may quote private text; the parent says what it is)
            parent.send(("failed", RuntimeError(f"a worker failed with {type(error).__name__} in {_place(error)}")))


def _end_with_parent() -> None:
    """End this process as soon as its parent does, were it in the middle of a computation."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}" if trace else "an unknown place"
