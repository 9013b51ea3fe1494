"""Workers that are replaced when they die, and whose exceptions reveal nothing private."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gape.core import errors
from gape.core.errors import GapeError, InputError, ServiceError
from gape.distributed.cluster.session import connected_ray

TRIES = 3  # attempts of a worker at one question; it is restarted in between
PATIENCE = 120.0  # seconds to start: a worker is a new process that imports everything


class Lost(Exception):  # noqa: N818  (not an error: the question is asked again)
    """A worker died before it answered."""


@dataclass(frozen=True)
class Failure:
    """What went wrong on a worker, described without private content."""

    kind: str  # the name of the error of this package, or empty for any other exception
    text: str


class Worker:
    """One process of a cluster. All questions go through `answer`, which never raises.

    An exception of another library may quote its arguments, so only its type leaves the worker, unless everything the
    worker ever sees is `public`. The messages of this package's own errors have no private content.
    """

    public = False

    def greet(self) -> tuple[str, int]:
        """Return the worker's node and process id."""
        ray = connected_ray()
        return str(ray.get_runtime_context().get_node_id()), os.getpid()

    def keep_to(self, slot: int, cores: int) -> None:
        """Use only `cores` cores, and different ones than the other slots of the node if it has enough."""
        if hasattr(os, "sched_setaffinity"):
            usable = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {usable[(slot * cores + i) % len(usable)] for i in range(cores)})

    def answer(self, pieces: int, method: str, *arguments: Any) -> Any:
        """Return the result of the method, with an array split into `pieces`, or as many copies of the failure."""
        try:
            result = getattr(self, method)(*arguments)
        except GapeError as error:
            result = Failure(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001  (whatever it is, its message stays on this worker)
            quoted = f": {next(iter(str(error).splitlines()), '')}" if self.public else ""
            result = Failure("", f"{type(error).__name__}{quoted}")
        if pieces == 1:
            return result
        return [result] * pieces if isinstance(result, Failure) else np.array_split(result, pieces)


class Crew:
    """Numbered workers of one kind; a worker whose process or machine dies is restarted.

    Ray's own restarts are not used, because they would wait for ever for a machine that does not come back.
    """

    def __init__(
        self,
        kind: type[Worker],
        arguments: Sequence[tuple[Any, ...]],
        *,
        cores: int,
        gpus: float,
        reserve: bool,
        nodes: Sequence[str | None],
        patience: float,
    ) -> None:
        """Start one worker for each item of `arguments`; with `reserve`, Ray counts their cores as taken."""
        if cores < 1 or gpus < 0 or not patience > 0:
            raise InputError(
                f"cores must be at least 1, gpus at least 0 and patience positive, got {cores}, {gpus} and {patience}"
            )
        self._ray = connected_ray()
        self._make: Callable[[int], Any] = lambda number: (
            self._ray.remote(kind)
            .options(
                num_cpus=cores if reserve else 0,
                num_gpus=gpus,
                resources={} if nodes[number] is None else {f"node:{nodes[number]}": 0.001},
                scheduling_strategy="DEFAULT" if nodes[number] else "SPREAD",
            )
            .remote(*arguments[number])
        )
        self._cores, self._patience = cores, patience
        self._slots: dict[int, tuple[str, int]] = {}  # node, and slot on it
        self.pids: dict[int, int] = {}
        self.replaced = 0
        self._actors = {number: self._make(number) for number in range(len(arguments))}
        try:
            for number in range(len(arguments)):
                self._welcome(number)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._actors)

    def submit(self, number: int, method: str, *arguments: Any, pieces: int = 1) -> list[Any]:
        """Ask a worker, and return references for `take`."""
        references = self._actors[number].answer.options(num_returns=pieces).remote(pieces, method, *arguments)
        return [references] if pieces == 1 else list(references)

    def first(self, waiting: Iterable[Any]) -> Any:
        """Wait until one of these references has its value, or its worker is lost, and return it."""
        done, _ = self._ray.wait(list(waiting), num_returns=1)
        return done[0]

    def take(self, number: int, references: list[Any]) -> list[Any]:
        """Return the answer of a worker in its pieces; raise its failure, or `Lost` if the worker died."""
        try:
            pieces: list[Any] = self._ray.get(references)
        except self._ray.exceptions.RayError as error:
            raise Lost(type(error).__name__) from None
        if isinstance(pieces[0], Failure):
            raise _as_error(pieces[0], number)
        return pieces

    def ask(self, number: int, method: str, *arguments: Any) -> list[Any]:
        """Ask one worker; if it dies, it is replaced and asked again."""
        return self.ask_all(method, {number: arguments})[number]

    def ask_all(self, method: str, arguments: Mapping[int, tuple[Any, ...]], pieces: int = 1) -> dict[int, list[Any]]:
        """Ask several workers at once, each with its own arguments; one that dies is replaced and asked again.

        Exactly one answer per worker is used, however often it was asked.
        """
        pending = {number: self.submit(number, method, *given, pieces=pieces) for number, given in arguments.items()}
        tries = dict.fromkeys(pending, 1)
        answers: dict[int, list[Any]] = {}
        while pending:
            heads = {references[0]: number for number, references in pending.items()}
            number = heads[self.first(heads)]
            try:
                answers[number] = self.take(number, pending[number])
            except Lost as lost:
                self.replace(number, tries[number], lost)
                tries[number] += 1
                pending[number] = self.submit(number, method, *arguments[number], pieces=pieces)
            else:
                del pending[number]
        return answers

    def replace(self, number: int, tries: int, lost: Lost) -> None:
        """Restart a lost worker, unless it was lost `TRIES` times over the same question."""
        if tries >= TRIES:
            raise ServiceError(
                f"worker {number} died {tries} times before it could answer ({lost}), and nothing was released; see "
                "its logs in Ray's session folder, and give it more memory if it ran out"
            )
        self._ray.kill(self._actors[number])  # a worker that was only unreachable must not come back
        self._actors[number] = self._make(number)
        self.replaced += 1
        self._welcome(number)

    def close(self) -> None:
        """End the workers."""
        for actor in self._actors.values() if self._ray.is_initialized() else ():  # otherwise they have ended already
            self._ray.kill(actor)
        self._actors.clear()

    def _welcome(self, number: int) -> None:
        """Wait until a worker runs, and assign it a slot on its node."""
        actor = self._actors[number]
        try:
            node, self.pids[number] = self._ray.get(actor.greet.remote(), timeout=self._patience)
        except self._ray.exceptions.RayError as error:  # it has read nothing yet, so its message is public
            messages = [line for line in str(error).splitlines() if "Error: " in line]
            late = isinstance(error, self._ray.exceptions.GetTimeoutError)
            reason = f"no machine took it within {self._patience:g} seconds" if late else " ".join(messages[-1:])
            raise ServiceError(
                f"worker {number} could not be started ({reason or type(error).__name__}), and nothing was released; "
                "check that the node of its data is up, has free cores, and has everything installed"
            ) from None
        taken = {slot for other, (host, slot) in self._slots.items() if host == node and other != number}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        self._slots[number] = (node, slot)
        actor.keep_to.remote(slot, self._cores)  # calls are answered in order, so this one comes first


def _as_error(failure: Failure, number: int) -> GapeError:
    if failure.kind:
        kind: type[GapeError] = getattr(errors, failure.kind)
        return kind(f"on worker {number}: {failure.text}")
    return ServiceError(
        f"worker {number} failed with {failure.text}, and nothing was released; run the same on its machine to see why"
    )
