"""Workers that are replaced when they die, and of whose exceptions nothing private can travel."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gape.core import errors
from gape.core.errors import GapeError, InputError, ServiceError
from gape.distributed.cluster.session import connected_ray

TRIES = 3  # lives that a worker has for one question
PATIENCE = 120.0  # seconds: a worker is a new process that imports everything


class Lost(Exception):  # noqa: N818  (no error: whoever asked asks again)
    """A worker died before it answered."""


@dataclass(frozen=True)
class Failure:
    """What went wrong on a worker, in words that hold nothing private."""

    kind: str  # which of our errors, empty for any other exception
    text: str


class Worker:
    """One process of a cluster. It is asked by `answer` alone, which never raises.

    An exception of any other library may quote what it was given, so all that leaves of it is its type, unless all that
    the worker ever sees is `public`. Our own errors have messages without private content.
    """

    public = False

    def greet(self) -> tuple[str, int]:
        """Say which node it is on, and its process."""
        ray = connected_ray()
        return str(ray.get_runtime_context().get_node_id()), os.getpid()

    def keep_to(self, place: int, cores: int) -> None:
        """Use `cores` cores only, others than workers of other places on the node where there are enough."""
        if hasattr(os, "sched_setaffinity"):
            usable = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {usable[(place * cores + i) % len(usable)] for i in range(cores)})

    def answer(self, pieces: int, method: str, *arguments: Any) -> Any:
        """Return what the method does, an array in `pieces`, or the failure as often."""
        try:
            result = getattr(self, method)(*arguments)
        except GapeError as error:
            result = Failure(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001  (whatever it is, its message stays here)
            quoted = f": {next(iter(str(error).splitlines()), '')}" if self.public else ""
            result = Failure("", f"{type(error).__name__}{quoted}")
        if pieces == 1:
            return result
        return [result] * pieces if isinstance(result, Failure) else np.array_split(result, pieces)


class Crew:
    """Workers of one kind, by number, each started again when its process or its machine dies.

    Ray's own restarts are not used: they would wait for ever for a machine that does not come back.
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
        """Start a worker with each of the arguments; with `reserve`, Ray counts their cores as taken."""
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
        self._seats: dict[int, tuple[str, int]] = {}  # node, and place on it
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
        """Ask a worker; the result is for `take`."""
        asked = self._actors[number].answer.options(num_returns=pieces).remote(pieces, method, *arguments)
        return [asked] if pieces == 1 else list(asked)

    def first(self, waiting: Iterable[Any]) -> Any:
        """Wait until one of these references has its value, or has lost its worker."""
        done, _ = self._ray.wait(list(waiting), num_returns=1)
        return done[0]

    def take(self, number: int, asked: list[Any]) -> list[Any]:
        """Return what a worker answered, in its pieces; raise its failure, or `Lost` if there is no worker any more."""
        try:
            pieces: list[Any] = self._ray.get(asked)
        except self._ray.exceptions.RayError as error:
            raise Lost(type(error).__name__) from None
        if isinstance(pieces[0], Failure):
            raise _raised(pieces[0], number)
        return pieces

    def ask(self, number: int, method: str, *arguments: Any) -> list[Any]:
        """Ask one worker; if it dies it is replaced and asked again."""
        return self.each(method, {number: arguments})[number]

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]], pieces: int = 1) -> dict[int, list[Any]]:
        """Ask workers at once, each with its arguments; one that dies is replaced and asked again.

        An answer is taken once for every worker, however often it had to be asked.
        """
        asked = {number: self.submit(number, method, *given, pieces=pieces) for number, given in arguments.items()}
        tries = dict.fromkeys(asked, 1)
        answers: dict[int, list[Any]] = {}
        while asked:
            heads = {refs[0]: number for number, refs in asked.items()}
            number = heads[self.first(heads)]
            try:
                answers[number] = self.take(number, asked[number])
            except Lost as lost:
                self.replace(number, tries[number], lost)
                tries[number] += 1
                asked[number] = self.submit(number, method, *arguments[number], pieces=pieces)
            else:
                del asked[number]
        return answers

    def replace(self, number: int, tries: int, lost: Lost) -> None:
        """Start a lost worker again, unless it was lost `TRIES` times over one question."""
        if tries >= TRIES:
            raise ServiceError(
                f"worker {number} died {tries} times before it could answer ({lost}), and nothing was released; see "
                "its logs in Ray's session folder, and give it more memory if that was short"
            )
        self._ray.kill(self._actors[number])  # one that only cannot be reached must not come back
        self._actors[number] = self._make(number)
        self.replaced += 1
        self._welcome(number)

    def close(self) -> None:
        """End the workers."""
        for actor in self._actors.values() if self._ray.is_initialized() else ():  # else they are gone
            self._ray.kill(actor)
        self._actors.clear()

    def _welcome(self, number: int) -> None:
        """Wait until a worker runs, and give it a place among those on its node."""
        actor = self._actors[number]
        try:
            node, self.pids[number] = self._ray.get(actor.greet.remote(), timeout=self._patience)
        except self._ray.exceptions.RayError as error:  # it has read nothing yet, so its words are public
            said = [line for line in str(error).splitlines() if "Error: " in line]
            late = isinstance(error, self._ray.exceptions.GetTimeoutError)
            reason = f"no machine took it within {self._patience:g} seconds" if late else " ".join(said[-1:])
            raise ServiceError(
                f"worker {number} could not be started ({reason or type(error).__name__}), and nothing was released; "
                "see that the node of its data is there, that cores are free, and that what it needs is installed there"
            ) from None
        taken = {place for other, (where, place) in self._seats.items() if where == node and other != number}
        place = next(place for place in range(len(taken) + 1) if place not in taken)
        self._seats[number] = (node, place)
        actor.keep_to.remote(place, self._cores)  # calls are answered in order: this one before any other


def _raised(failure: Failure, number: int) -> GapeError:
    if failure.kind:
        kind: type[GapeError] = getattr(errors, failure.kind)
        return kind(f"on worker {number}: {failure.text}")
    return ServiceError(
        f"worker {number} failed with {failure.text}, and nothing was released; try the same on its machine to see why"
    )
