"""A request being answered by a model that is run token by token."""

from dataclasses import dataclass, field

import numpy as np

from gape.core.types import Floats
from gape.language.request import Request

_SEEDS = 2**64
_COLDEST = 1e-9  # at this temperature the likeliest token has all the probability


@dataclass(frozen=True)
class Ends:
    """Tokens that end something."""

    of_answers: frozenset[int]
    of_sentences: frozenset[int]


def ends_sentence(token: str) -> bool:
    """Whether a token of a vocabulary ends as a sentence does."""
    return token.rstrip("\"'\u201d\u2019)]").endswith((".", "!", "?"))


@dataclass
class Row:
    """A request, its prompt in tokens, and what is written so far."""

    place: int
    request: Request
    prompt: list[int]
    limit: int  # tokens that it may write
    tokens: list[int] = field(default_factory=list)
    done: bool = False

    @property
    def temperature(self) -> float:
        """The temperature, above 0."""
        return max(self.request.temperature, _COLDEST)

    @property
    def enough(self) -> int:
        """Tokens after which the end of a sentence ends the answer; its limit where none does."""
        return self.limit if self.request.enough is None else self.request.enough

    def draws(self) -> Floats:
        """Its own random numbers, uniform on [0, 1), one for each token it may write."""
        return np.random.default_rng(self.request.seed % _SEEDS).random(self.limit)
