"""A language model that says what a function tells it to: for tests of whatever uses one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gape.language.request import Completion, Request


@dataclass
class ScriptedModel:
    """Answers each request with what `answer` makes of it, None standing for a failure; tokens are words."""

    answer: Callable[[Request], str | None]
    name: str = "scripted"
    can_continue: bool = True
    calls: list[Request] = field(default_factory=list, init=False)  # all it was ever asked, in order

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests one after the other, each when the caller comes for it."""
        for place, request in enumerate(requests):
            self.calls.append(request)
            text = self.answer(request)
            if text is not None:
                yield place, Completion(text, len(request.prompt.split()), len(text.split()))
