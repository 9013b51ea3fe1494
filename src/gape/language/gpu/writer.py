"""Slots that several threads share.

A round of Private Evolution ends with a few long answers, and then asks again for a few that were rejected. Alone,
these would leave a GPU nearly idle. Here the requests of other threads take the slots that they leave free.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

from gape._support.memory import Pressure
from gape.language.gpu.slots import Slots
from gape.language.row import Row

_SIZES = (64, 256, 1024)  # numbers of slots for fewer requests than the batch size


class Writer:
    """Writes the answers of all threads that ask, in a thread of its own that lives while there is something to write.

    Of one thread's requests the order, and so the batch that each is part of, depends only on the requests.
    """

    def __init__(self, make: Callable[[int, int], Slots], batch: int) -> None:
        """Write up to `batch` answers at once, in slots made by `make(count, room)`, which may make fewer."""
        self._make, self._batch = make, batch
        self._most = batch  # less after memory ran short
        self.slots: Slots | None = None
        self._asked = 0  # number of slots that was asked for
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waiting: deque[Row] = deque()
        self._taken: dict[int, Row] = {}
        self._owners: dict[int, SimpleQueue[Row | Exception]] = {}  # where each answer goes

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Write the answers of all rows, yielding each shortly after it is done."""
        answers: SimpleQueue[Row | Exception] = SimpleQueue()
        with self._lock:
            self._owners |= {id(row): answers for row in rows}
            self._waiting.extend(rows)
            if rows and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="writing", daemon=True)
                self._thread.start()
        try:
            for _ in rows:
                answer = answers.get()
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            self._forget(rows)

    def _forget(self, rows: Sequence[Row]) -> None:
        """Drop the rows that nobody waits for any more, and wait for the thread if there are no others."""
        with self._lock:
            unwanted = {id(row): row for row in rows if self._owners.pop(id(row), None) is not None}
            self._waiting = deque(row for row in self._waiting if id(row) not in unwanted)
            for row in unwanted.values():
                row.done = True
            idle = None if self._owners else self._thread
        if unwanted and idle is not None:
            idle.join()

    def _run(self) -> None:
        pressure = Pressure(self._batch, "an answer of the model")
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                at_once, self._most = len(self._waiting), pressure.batch
            try:
                for row in self._ready().write([], self._take):
                    self._deliver(row)
            except Exception as error:  # noqa: BLE001  (raised by the threads that wait)
                self.slots = None
                try:
                    pressure.relieve(error, at_once)
                except Exception as final:  # noqa: BLE001  (likewise)
                    self._fail(final)
                    return
                with self._lock:
                    self._waiting.extendleft(reversed([row for row in self._taken.values() if not row.done]))
                    self._taken.clear()

    def _ready(self) -> Slots:
        """Return slots for the rows that wait: those of before if they are large enough."""
        with self._lock:
            room = max(len(row.prompt) + row.limit for row in self._waiting)
            wanted = _slots_for(len(self._waiting), self._most)
        if self.slots is None or self.slots.room < room or self._asked < wanted:
            room = max(room, self.slots.room if self.slots else 0)
            self.slots = None  # first, because its memory is needed
            self.slots, self._asked = self._make(wanted, room), wanted
        return self.slots

    def _take(self, free: int) -> list[Row]:
        """Take the next rows for free slots; none if slots must be made that are more or longer."""
        slots = self.slots
        if slots is None:
            return []
        with self._lock:
            if self._taken and _slots_for(len(self._waiting), self._most) > self._asked:
                return []
            rows: list[Row] = []
            while self._waiting and len(rows) < free:
                if len(self._waiting[0].prompt) + self._waiting[0].limit > slots.room:
                    break
                rows.append(self._waiting.popleft())
            self._taken |= {id(row): row for row in rows}
            return rows

    def _deliver(self, row: Row) -> None:
        with self._lock:
            self._taken.pop(id(row), None)
            owner = self._owners.pop(id(row), None)
        if owner is not None:
            owner.put(row)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            for owner in {id(owner): owner for owner in self._owners.values()}.values():
                owner.put(error)
            self._owners.clear()
            self._waiting.clear()
            self._taken.clear()
            self._thread = None


def _slots_for(rows: int, batch: int) -> int:
    return next((size for size in _SIZES if rows <= size < batch), batch)
