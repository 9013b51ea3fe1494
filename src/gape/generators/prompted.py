"""Texts by prompts: for models that chat and cannot be driven token by token."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Samples, as_samples
from gape.generators.asking import SHORTEST, ask, draw, new_seed, read_answer, tokens_for
from gape.generators.prompts import Prompts
from gape.generators.reading import Draft
from gape.language.request import Completion, LanguageModel, Request

# A rephrased text may be longer than its source by this factor.
_ROOM = 1.5


@dataclass(frozen=True)
class PromptedText:
    """Random texts are answers to a prompt with a public topic; variations are rephrasings, or blanks filled in.

    A variation that the model does not deliver is its sample, unchanged: one bad answer costs one candidate.
    """

    model: LanguageModel
    prompts: Prompts
    by: Literal["rephrase", "fill"] = "rephrase"
    temperature: float = 1.0  # of random texts, and of filling in blanks
    distinct: bool = True  # whether random texts are drawn again that are near copies of others

    def __post_init__(self) -> None:
        if self.by not in {"rephrase", "fill"}:
            raise InputError(f"variations are made by 'rephrase' or 'fill', got {self.by!r}; choose one")
        if self.by == "fill" and not self.prompts.fill:
            raise InputError(
                f"the prompts {self.prompts.name!r} have no template under fill; add one or use 'rephrase'"
            )

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` texts of the domain."""
        return draw(self.model, self.prompts, count, self.temperature, rng, distinct=self.distinct)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Rephrase each sample at its scale as temperature, or fill in blanks, a word being one with that chance."""
        for scale in np.unique(scales):
            if not scale > 0 or (self.by == "fill" and scale > 1):
                rule = "a share of words in (0, 1]" if self.by == "fill" else "a temperature above 0"
                raise InputError(f"scale must be {rule} to {self.by}, got {scale}")
        drafts = [self._draft(str(sample), float(scale), rng) for sample, scale in zip(samples, scales, strict=True)]
        answers = ask(self.model, drafts)
        return as_samples([sample if text is None else text for sample, text in zip(samples, answers, strict=True)])

    def _draft(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        if self.by == "rephrase":
            prompt, temperature = self.prompts.rephrase_prompt(sample, rng), scale
        else:
            masked = mask_words(sample, scale, self.prompts.mask, rng)
            prompt, temperature = self.prompts.fill_prompt(masked, rng), self.temperature
        words = min(len(sample.split()), self.prompts.words)
        request = Request(
            prompt=prompt, max_tokens=tokens_for(_ROOM * words + 8), temperature=temperature, seed=new_seed(rng)
        )
        mask = self.prompts.mask if self.by == "fill" else None
        return Draft(request, partial(read_variation, self.prompts, sample, request, max(1, words // SHORTEST), mask))


def read_variation(
    prompts: Prompts, sample: str, request: Request, fewest: int, mask: str | None, completion: Completion
) -> str | None:
    """Clean a whole answer that must not be its sample, nor still have a word in it that is a mask."""
    text = read_answer(prompts, request, fewest, completion)
    blank = text is not None and mask is not None and mask in text.split()
    return None if blank or text == sample else text


def mask_words(text: str, share: float, mask: str, rng: np.random.Generator) -> str:
    """Put a mask in place of every word with chance `share`, and of one at least."""
    words = text.split()
    blank = rng.random(len(words)) < share
    if words and not blank.any():
        blank[int(rng.integers(len(words)))] = True
    return " ".join(mask if gone else word for word, gone in zip(words, blank, strict=True))
