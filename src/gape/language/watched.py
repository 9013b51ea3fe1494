"""A language model that reports each answer."""

from collections.abc import Callable, Iterator, Sequence

from gape.language.request import Completion, LanguageModel, Request, burst_of


class Watched:
    """Another model, with each answer passed to `note` before it is returned.

    Its repr and name are those of the inner model, so a run is identified by that one.
    """

    def __init__(self, model: LanguageModel, note: Callable[[Completion], None]) -> None:
        """Pass each answer of `model` to `note`."""
        self.model, self.note = model, note

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name of the inner model."""
        return self.model.name

    @property
    def can_continue(self) -> bool:
        """Whether the inner model can continue an opening."""
        return self.model.can_continue

    @property
    def burst(self) -> int:
        """The burst of the inner model."""
        return burst_of(self.model)

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests like the inner model."""
        for index, completion in self.model.complete(requests):
            self.note(completion)
            yield index, completion
