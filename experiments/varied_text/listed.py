"""New texts as the next entry of a list, instead of an answer to a request: an operator that was tried.

An instruction-tuned model answers in its own style. If it is given a list that a sample begins, without its chat
template, it continues in the style of the sample.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gape.core.copies import are_near_copies
from gape.core.types import Samples
from gape.generators.asking import SHORTEST, read_answer
from gape.generators.prompts import Prompts
from gape.generators.reading import Draft
from gape.generators.resampled import ResampledText
from gape.language.request import Completion, Request
from gape.language.transformers import TransformersModel

_LIST = "\0list\0"  # before a prompt that the model continues as it is
_ROLE_TOKEN = re.compile(r"<\|[^<>|]{0,40}\|>")


class Continuing(TransformersModel):
    """A model that continues lists without its chat template."""

    def _chat(self, request: Request) -> str:
        if not request.prompt.startswith(_LIST):
            return super()._chat(request)
        return f"{request.prompt.removeprefix(_LIST)} {request.opening}".rstrip()


@dataclass(frozen=True)
class Listed(ResampledText):
    """Writes new texts as the second entry of a list; with `parts` also the new parts, with `start` the start.

    Only a share of the new texts after a sample is written that way, drawn at random.
    """

    parts: bool = False
    start: bool = False
    share: float = 1.0

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw texts; with `start`, write another one like each."""
        texts = super().random(count, rng)
        return self.vary(texts, np.full(count, self.whole_from), rng) if self.start else texts

    def alike(self, sample: str, rng: np.random.Generator) -> Draft:
        """Ask for the entry after the sample."""
        draft = super().alike(sample, rng)
        if self.share < 1 and rng.random() >= self.share:
            return draft
        request = replace(draft.request, prompt=self._after(sample))
        return Draft(request, partial(_read, self.prompts, sample, request))

    def varied(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        """Ask for a variation; with `parts`, a new part continues a list."""
        draft = super().varied(sample, scale, rng)
        if not self.parts or scale >= self.whole_from:
            return draft
        begins = not " ".join(sample.split()).startswith(draft.request.opening)  # a new beginning, of the same topic
        request = replace(draft.request, prompt=self._after(sample) if begins else f"{self._heading}Text A:")
        return Draft(request, partial(_read_part, draft.read))

    def _after(self, sample: str) -> str:
        return f"{self._heading}Text A: {_ROLE_TOKEN.sub('', sample)}\n\nText B:"

    @property
    def _heading(self) -> str:
        return f"{_LIST}{self.prompts.domain.capitalize()}\n\n"


def _first(completion: Completion) -> Completion:
    """Cut an answer where the next entry of the list begins."""
    text, ended, _ = completion.text.partition("\n\n")
    return replace(completion, text=text, finished=completion.finished or bool(ended))


def _read(prompts: Prompts, sample: str, request: Request, completion: Completion) -> str | None:
    fewest = max(1, min(len(sample.split()), prompts.words) // SHORTEST)
    text = read_answer(prompts, request, fewest, _first(completion))
    return None if text is None or are_near_copies(text, sample) else text


def _read_part(read: Callable[[Completion], str | None], completion: Completion) -> str | None:
    return read(_first(completion))
