"""Texts by prompts, for chat models that cannot continue a given opening."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Self

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Samples, as_samples
from gape.generators.asking import SHORTEST, ask, draw, new_seed, random_draft, read_answer, tokens_for
from gape.generators.prompts import Prompts
from gape.generators.reading import Draft
from gape.language.request import Completion, LanguageModel, Request

# A rephrased text may be longer than its source by this factor.
_ROOM = 1.5


@dataclass(frozen=True)
class PromptedText:
    """Random texts are answers to a prompt with a public topic; variations are rephrasings, or blanks filled in.

    If the model does not deliver a variation, the sample is used unchanged: one bad answer costs one candidate.
    """

    model: LanguageModel
    prompts: Prompts
    by: Literal["rephrase", "fill"] = "rephrase"
    temperature: float = 1.0  # of random texts, and of filling in blanks
    distinct: bool = True  # whether random texts that are near copies of others are drawn again

    def __post_init__(self) -> None:
        if self.by not in {"rephrase", "fill"}:
            raise InputError(f"by must be 'rephrase' or 'fill', got {self.by!r}; choose one of them")
        if self.by == "fill" and not self.prompts.fill:
            raise InputError(
                f"the prompts {self.prompts.name!r} have no template under fill; add one or use 'rephrase'"
            )

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` texts of the domain."""
        return draw(self.model, self.prompts, count, self.temperature, rng, distinct=self.distinct)

    def topics(self) -> Samples:
        """Return the topics of the prompts."""
        return as_samples(list(self.prompts.topics))

    def favouring(self, shares: Floats) -> Self:
        """Return the generator that draws topics with these probabilities."""
        return replace(self, prompts=self.prompts.favouring(shares.tolist()))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Rephrase each sample with its scale as temperature, or mask words with that probability and fill them in."""
        self.check(scales)
        drafts = [self.varied(str(sample), float(scale), rng) for sample, scale in zip(samples, scales, strict=True)]
        answers = ask(self.model, drafts)
        return as_samples([sample if text is None else text for sample, text in zip(samples, answers, strict=True)])

    def check(self, scales: Floats) -> None:
        """Refuse scales that do not suit the kind of variation."""
        for scale in np.unique(scales):
            if not scale > 0 or (self.by == "fill" and scale > 1):
                rule = "a share of words in (0, 1]" if self.by == "fill" else "a temperature above 0"
                raise InputError(f"scale must be {rule} for {self.by!r}, got {scale}; change the scales")

    def new(self, rng: np.random.Generator) -> Draft:
        """Ask for a random text."""
        return random_draft(self.prompts, self.temperature, rng, opened=False)

    def alike(self, sample: str, rng: np.random.Generator) -> Draft:
        """Ask for another text like the sample."""
        words = max(len(sample.split()), self.prompts.words)
        request = Request(
            prompt=self.prompts.alike_prompt(sample, rng),
            max_tokens=tokens_for(_ROOM * words + 8),
            temperature=self.temperature,
            seed=new_seed(rng),
        )
        return Draft(
            request, partial(read_variation, self.prompts, sample, request, max(1, words // (2 * SHORTEST)), None)
        )

    def varied(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        """Ask for a variation of the sample."""
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
    """Clean an answer; reject it if it equals the sample or still contains a mask."""
    text = read_answer(prompts, request, fewest, completion)
    blank = text is not None and mask is not None and mask in text.split()
    return None if blank or text == sample else text


def mask_words(text: str, share: float, mask: str, rng: np.random.Generator) -> str:
    """Replace each word by a mask with probability `share`, and at least one."""
    words = text.split()
    blank = rng.random(len(words)) < share
    if words and not blank.any():
        blank[int(rng.integers(len(words)))] = True
    return " ".join(mask if gone else word for word, gone in zip(words, blank, strict=True))
