"""What is asked of a language model, and what a language model is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Request:
    """One answer to be written. All of it is public: private text never gets this far."""

    prompt: str  # the user's turn of a chat
    opening: str = ""  # how the answer begins; the model goes on from here (see LanguageModel.can_continue)
    max_tokens: int = 128
    temperature: float = 1.0
    seed: int = 0  # the same request is a new one under another seed
    enough: int | None = None  # tokens after which the answer may end with its sentence, where a model can stop there


@dataclass(frozen=True)
class Completion:
    """What a model wrote for one request: the text after its opening, as it came, and what it cost."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finished: bool = True  # False where the text was cut at max_tokens


class LanguageModel(Protocol):
    """A model that answers prompts."""

    @property
    def name(self) -> str:
        """Identify the model and everything else that its answers depend on but the request."""
        ...

    @property
    def can_continue(self) -> bool:
        """Whether it can go on from a given opening of its own answer; chat APIs cannot."""
        ...

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding (place in `requests`, completion) as each is done, in any order.

        A request that failed for good is left out: it costs its caller that one sample and no other.
        """
        ...


def burst_of(model: LanguageModel) -> int:
    """How many answers a model writes in no time and for nothing, so that they may be stored together; most: one."""
    return int(getattr(model, "burst", 1))
