"""A language model whose answers somebody counts."""

from collections.abc import Callable, Iterator, Sequence

from gape.language.request import Completion, LanguageModel, Request, burst_of


class Watched:
    """The model inside, with every answer told to `note` before it is passed on.

    To whatever identifies a run it looks like the name of the model.
    """

    def __init__(self, model: LanguageModel, note: Callable[[Completion], None]) -> None:
        """Tell `note` of every answer of `model`."""
        self.model, self.note = model, note

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self.model.name

    @property
    def can_continue(self) -> bool:
        """Whether the model inside can."""
        return self.model.can_continue

    @property
    def burst(self) -> int:
        """That of the model inside."""
        return burst_of(self.model)

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests as the model inside does."""
        for place, completion in self.model.complete(requests):
            self.note(completion)
            yield place, completion
