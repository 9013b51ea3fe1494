"""A language model that runs on many workers at once."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from gape.core.errors import InputError
from gape.distributed.cluster.crew import PATIENCE, Crew, Lost, Worker
from gape.language.request import Completion, LanguageModel, Request


class Writer(Worker):
    """A worker that holds a language model, loaded when it is first asked."""

    public = True  # prompts and answers are public

    def __init__(self, make: Callable[[], LanguageModel]) -> None:
        """Remember how the model is made."""
        self._make = make
        self._model: LanguageModel | None = None

    def describe(self) -> tuple[str, bool]:
        """Load the model; return its name and whether it can continue."""
        model = self._loaded()
        return model.name, model.can_continue

    def complete(self, requests: list[Request], name: str) -> list[tuple[int, Completion]]:
        """Complete the requests, if the model still has that name."""
        model = self._loaded()
        if model.name != name:
            raise InputError(
                f"a restarted worker has the model {model.name}, not {name}; install the same model on all machines"
            )
        return list(model.complete(requests))

    def _loaded(self) -> LanguageModel:
        if self._model is None:
            self._model = self._make()
        return self._model


class RayModel:
    """Copies of one language model on the workers of a cluster.

    Requests are split into shares of equal size, in order, and each share is answered by one worker: an answer depends
    at most on its share, never on the number of workers. If a worker dies, it is restarted and its share is repeated.
    The repr is the name of the model, so that a run is identified by the model, not by the cluster.
    """

    def __init__(
        self,
        make: Callable[[], LanguageModel],
        workers: int,
        *,
        cores: int = 1,
        gpus: float = 0,
        share: int = 64,
        patience: float = PATIENCE,
    ) -> None:
        """Start `workers` workers with `cores` cores and `gpus` GPUs, each of which makes the model.

        This needs a cluster (`with ray_cluster():`). Each worker has `patience` seconds to start.
        """
        if workers < 1 or share < 1:
            raise InputError(f"workers and share must be at least 1, got {workers} and {share}")
        self._share = share
        nodes = [None] * workers
        self._crew = Crew(
            Writer, [(make,)] * workers, cores=cores, gpus=gpus, reserve=True, nodes=nodes, patience=patience
        )
        try:
            models: set[tuple[str, bool]] = {
                answer for (answer,) in self._crew.ask_all("describe", dict.fromkeys(range(workers), ())).values()
            }
            if len(models) > 1:
                raise InputError(
                    f"the workers hold different models: {' and '.join(name for name, _ in sorted(models))}; "
                    "install the same files and versions on all machines"
                )
        except BaseException:
            self.close()
            raise
        ((self._name, self._can_continue),) = models

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name of the model on every worker."""
        return self._name

    @property
    def can_continue(self) -> bool:
        """Whether the model can continue a text."""
        return self._can_continue

    @property
    def replaced(self) -> int:
        """The number of workers that were lost and restarted."""
        return self._crew.replaced

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers, each on its own machine."""
        return [self._crew.pids[number] for number in range(len(self._crew))]

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Complete the requests, and yield the answers of a share as soon as it is done."""
        waiting = deque(
            (range(start, min(start + self._share, len(requests))), 1) for start in range(0, len(requests), self._share)
        )
        idle = deque(range(len(self._crew)))
        busy: dict[Any, tuple[int, range, int]] = {}
        while waiting or busy:
            while waiting and idle:
                number, (share, tries) = idle.popleft(), waiting.popleft()
                (reference,) = self._crew.submit(number, "complete", [requests[i] for i in share], self._name)
                busy[reference] = (number, share, tries)
            done = self._crew.first(busy)
            number, share, tries = busy.pop(done)
            idle.append(number)
            try:
                (answers,) = self._crew.take(number, [done])
            except Lost as lost:
                self._crew.replace(number, tries, lost)
                waiting.appendleft((share, tries + 1))
                continue
            yield from ((share[i], completion) for i, completion in answers)

    def close(self) -> None:
        """End the workers."""
        self._crew.close()
