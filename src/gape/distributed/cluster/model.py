"""A language model that writes on many workers at once."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from gape.core.errors import InputError
from gape.distributed.cluster.crew import PATIENCE, Crew, Lost, Worker
from gape.language.request import Completion, LanguageModel, Request


class Writer(Worker):
    """A worker that holds a language model, loaded when it is first asked."""

    public = True  # prompts and answers are

    def __init__(self, make: Callable[[], LanguageModel]) -> None:
        """Remember how the model is made."""
        self._make = make
        self._model: LanguageModel | None = None

    def describe(self) -> tuple[str, bool]:
        """Load the model and say what it is."""
        model = self._loaded()
        return model.name, model.can_continue

    def complete(self, requests: list[Request], name: str) -> list[tuple[int, Completion]]:
        """Answer the requests, if the model is still the one of that name."""
        model = self._loaded()
        if model.name != name:
            raise InputError(f"a worker that was started again has {model.name}, not {name}; give all the same model")
        return list(model.complete(requests))

    def _loaded(self) -> LanguageModel:
        if self._model is None:
            self._model = self._make()
        return self._model


class RayModel:
    """Copies of one language model on the workers of a cluster.

    Requests are cut into shares of equal size, in their order, and every share is answered by one worker: an answer
    depends on its share at most, never on the number of workers. A worker that dies is started again, and its share is
    asked again. To whatever identifies a run it looks like the name of the model.
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
        """Have `workers` workers of `cores` cores and `gpus` GPUs make the model each, on their own machines.

        It needs a cluster, as by `with ray_cluster():`, and waits `patience` seconds for a worker to start.
        """
        if workers < 1 or share < 1:
            raise InputError(f"workers and share must be at least 1, got {workers} and {share}")
        self._share = share
        nodes = [None] * workers
        self._crew = Crew(
            Writer, [(make,)] * workers, cores=cores, gpus=gpus, reserve=True, nodes=nodes, patience=patience
        )
        try:
            said: set[tuple[str, bool]] = {
                answer for (answer,) in self._crew.each("describe", dict.fromkeys(range(workers), ())).values()
            }
            if len(said) > 1:
                raise InputError(
                    f"the workers hold different models: {' and '.join(name for name, _ in sorted(said))}; "
                    "give all machines the same files and versions"
                )
        except BaseException:
            self.close()
            raise
        ((self._name, self._can_continue),) = said

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
        """Whether the model on the workers can."""
        return self._can_continue

    @property
    def replaced(self) -> int:
        """How many workers were lost and started again."""
        return self._crew.replaced

    @property
    def pids(self) -> list[int]:
        """The workers' processes, each on its own machine."""
        return [self._crew.pids[number] for number in range(len(self._crew))]

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding those of a share as soon as it is done."""
        waiting = deque(
            (range(start, min(start + self._share, len(requests))), 1) for start in range(0, len(requests), self._share)
        )
        idle = deque(range(len(self._crew)))
        busy: dict[Any, tuple[int, range, int]] = {}
        while waiting or busy:
            while waiting and idle:
                number, (places, tries) = idle.popleft(), waiting.popleft()
                (asked,) = self._crew.submit(number, "complete", [requests[place] for place in places], self._name)
                busy[asked] = (number, places, tries)
            done = self._crew.first(busy)
            number, places, tries = busy.pop(done)
            idle.append(number)
            try:
                (answers,) = self._crew.take(number, [done])
            except Lost as lost:
                self._crew.replace(number, tries, lost)
                waiting.appendleft((places, tries + 1))
                continue
            yield from ((places[place], completion) for place, completion in answers)

    def close(self) -> None:
        """End the workers."""
        self._crew.close()
