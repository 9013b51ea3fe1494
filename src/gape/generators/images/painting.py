"""Two models as one: requests for texts go to one of them, requests for pictures to the other."""

from collections.abc import Iterator, Sequence

from gape.language.request import Completion, LanguageModel, Request


class WithPainter:
    """A model that writes, and a model that draws."""

    def __init__(self, writer: LanguageModel, painter: LanguageModel) -> None:
        """Let `writer` answer requests for texts, and `painter` those for pictures."""
        self.writer, self.painter = writer, painter

    @property
    def name(self) -> str:
        """Identify both models."""
        return f"{self.writer.name}; pictures by {self.painter.name}"

    @property
    def can_continue(self) -> bool:
        """Whether the model that writes can continue an opening."""
        return self.writer.can_continue

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield texts, then pictures."""
        for model, pictured in ((self.writer, False), (self.painter, True)):
            members = [index for index, request in enumerate(requests) if (request.picture is not None) == pictured]
            if members:
                for number, completion in model.complete([requests[index] for index in members]):
                    yield members[number], completion
