"""A language model that reports each answer."""

from collections.abc import Callable, Iterator, Sequence

from gape.language.request import Completion, LanguageModel, Request, Wrapper, burst_of


class Watched(Wrapper):
    """Another model, with each answer passed to `note` before it is returned."""

    def __init__(self, model: LanguageModel, note: Callable[[Completion], None]) -> None:
        """Pass each answer of `model` to `note`."""
        self.model, self.note = model, note

    @property
    def burst(self) -> int:
        """The burst of the inner model."""
        return burst_of(self.model)

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests like the inner model."""
        for index, completion in self.model.complete(requests):
            self.note(completion)
            yield index, completion
