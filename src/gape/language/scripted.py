"""A language model whose answers come from a function, for tests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gape.language.request import Completion, Request


@dataclass
class ScriptedModel:
    """Answers each request by calling `answer`, where None means a failure; words count as tokens."""

    answer: Callable[[Request], str | None]
    name: str = "scripted"
    can_continue: bool = True
    calls: list[Request] = field(default_factory=list, init=False)  # all requests so far, in order

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests in order, each when the caller asks for the next answer."""
        for index, request in enumerate(requests):
            self.calls.append(request)
            text = self.answer(request)
            if text is not None:
                yield index, Completion(text, len(request.prompt.split()), len(text.split()))
