"""A request in progress, for a model that is run token by token."""

from dataclasses import dataclass, field

import numpy as np

from gape.core.types import Floats
from gape.language.request import Request

_SEEDS = 2**64
_COLDEST = 1e-9  # at this temperature the likeliest token has all the probability


@dataclass(frozen=True)
class Ends:
    """Tokens that end answers, and tokens that end sentences."""

    of_answers: frozenset[int]
    of_sentences: frozenset[int]


def ends_sentence(token: str) -> bool:
    """Whether a token of a vocabulary ends a sentence."""
    return token.rstrip("\"'\u201d\u2019)]").endswith((".", "!", "?"))


@dataclass
class Row:
    """A request, the tokens of its prompt, and the tokens written so far."""

    index: int  # of the request
    request: Request
    prompt: list[int]
    limit: int  # maximum number of tokens to write
    tokens: list[int] = field(default_factory=list)
    done: bool = False

    @property
    def temperature(self) -> float:
        """The temperature, above 0."""
        return max(self.request.temperature, _COLDEST)

    @property
    def enough(self) -> int:
        """Number of tokens after which the end of a sentence ends the answer; the limit if there is none."""
        return self.limit if self.request.enough is None else self.request.enough

    def draws(self) -> Floats:
        """Return random numbers of this request, uniform on [0, 1), one for each token it may write."""
        return np.random.default_rng(self.request.seed % _SEEDS).random(self.limit)
