"""The protocol of language models, their requests and their answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

# How models on this machine sample tokens by default. The nucleus without `min_p` gives texts about as many distinct
# words as real ones (experiments/frontier).
TOP_K, TOP_P, MIN_P, REPEAT_PENALTY = 400, 0.95, 0.0, 1.05


@dataclass(frozen=True)
class Request:
    """A request for one answer. All of it is public: private text is never part of it."""

    prompt: str  # the user's turn of a chat
    opening: str = ""  # first words of the answer, which the model continues (see LanguageModel.can_continue)
    max_tokens: int = 128
    temperature: float = 1.0
    seed: int = 0  # the same request with another seed is a different request
    enough: int | None = None  # tokens after which the answer may stop at the end of a sentence, if the model can
    schema: str | None = None  # JSON schema of the answer, for services that can keep to one; others answer as usual
    # Asks for a picture instead of a text: a variation of this one, a `data:` URL, or a new one if it is empty.
    picture: str | None = None


@dataclass(frozen=True)
class Completion:
    """The answer of a model to one request: the raw text after the opening, or a picture, and what it used."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finished: bool = True  # False if the text was cut at max_tokens
    images: int = 0


class LanguageModel(Protocol):
    """A model that answers prompts."""

    @property
    def name(self) -> str:
        """Identify the model and everything except the request that its answers depend on."""
        ...

    @property
    def can_continue(self) -> bool:
        """Whether the model can continue a given opening of its answer; chat APIs cannot."""
        ...

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding (index in `requests`, completion) as each is done, in any order.

        A request that failed permanently is left out: it costs the caller only that one sample.
        """
        ...


class Wrapper:
    """Base of models that pass requests on to an inner one: a run is identified by the name of that one."""

    model: LanguageModel

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


def burst_of(model: LanguageModel) -> int:
    """Return how many answers a model writes so quickly and cheaply that they may be stored together; usually one."""
    return int(getattr(model, "burst", 1))


def are_answered_together(model: LanguageModel | None) -> bool:
    """Return whether several threads may ask a model at once, and it writes the answers of all of them side by side."""
    return bool(getattr(model, "concurrent", False))
