"""Texts by resampling, for models that can continue a given opening and so rewrite any part of a text."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from gape.core.copies import are_near_copies
from gape.core.errors import InputError
from gape.core.types import Floats, Samples, as_samples
from gape.generators.asking import SHORTEST, ask, draw, new_seed, random_draft, read_answer, tokens_for
from gape.generators.cleaning import (
    Rules,
    clean,
    collapse,
    is_finished,
    sentences,
    strip_headings,
    strip_markdown,
    whole_sentences,
)
from gape.generators.prompts import Prompts
from gape.generators.reading import Draft
from gape.language.request import Completion, LanguageModel, Request

# New parts are this many times as long as the parts they replace, so that lengths can grow and shrink over the rounds.
_STRETCH = (0.75, 1.35)

# They are up to this many times longer still if the text is shorter than a typical text of its domain.
_GROWTH = 1.5

# No text grows beyond this many times the words of a typical text of its domain.
_LONGEST = 2.0

# A run of sentences fits the requested share of words if its length is within this factor of it.
_TOLERANCE = 1.6

# If more than this share is rewritten in the middle, the old end no longer follows from it.
_WIDEST_SPAN = 0.5

# A text is a variation only if cleaning keeps this many of its first words.
_ANCHOR = 3

# Extra words beyond those wanted, so that the model can finish its sentence.
_ROOM = 24

# Lower estimate of tokens per word: the answer may stop at the first end of a sentence after that many tokens.
_FEWEST_TOKENS_PER_WORD = 1.3


@dataclass(frozen=True)
class ResampledText:
    """Random texts answer a prompt with a public topic; a variation at scale s rewrites a share s of its sample.

    Below the scale `whole_from` a part is rewritten: whole sentences at the beginning or in the middle, or the end from
    any word on. So every word can change, and every variation ends at the end of a sentence. From that scale on the
    whole text is new: the model sees the sample as an example and writes another one like it. The new text is never a
    near copy of its sample, so both can survive, while a sample and its small variations compete for one place. If the
    model does not deliver a variation, the sample is used instead.
    """

    model: LanguageModel
    prompts: Prompts
    temperature: float = 1.0
    beginnings: float = 1 / 3  # share of the partial variations that rewrite the beginning; not for short texts
    spans: float = 1 / 3  # share that rewrites the middle; not for short texts
    whole_from: float = 0.8  # the least scale of completely new texts
    distinct: bool = True  # whether random texts that are near copies of others are drawn again

    def __post_init__(self) -> None:
        if not self.model.can_continue:
            raise InputError(f"{self.model.name} cannot continue a given opening; use PromptedText with it")
        for name in ("beginnings", "spans"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must be a share in [0, 1], got {getattr(self, name)}; the default is 1/3")
        if self.beginnings + self.spans > 1:
            raise InputError(
                f"beginnings and spans must add up to at most 1, got {self.beginnings + self.spans}; lower one of them"
            )

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` texts of the domain."""
        return draw(self.model, self.prompts, count, self.temperature, rng, opened=True, distinct=self.distinct)

    def topics(self) -> Samples:
        """Return the topics of the prompts."""
        return as_samples(list(self.prompts.topics))

    def favouring(self, shares: Floats) -> Self:
        """Return the generator that draws topics with these probabilities."""
        return replace(self, prompts=self.prompts.favouring(shares.tolist()))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Rewrite a share of each sample's words, given by its scale."""
        self.check(scales)
        drafts = [
            self.new(rng) if scale == 1 else self.varied(str(sample), float(scale), rng)
            for sample, scale in zip(samples, scales, strict=True)
        ]
        answers = ask(self.model, drafts)
        return as_samples([sample if text is None else text for sample, text in zip(samples, answers, strict=True)])

    @staticmethod
    def check(scales: Floats) -> None:
        """Refuse scales that are not shares of words."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be a share of words in (0, 1], got {scale}; 1 writes a new random text")

    def new(self, rng: np.random.Generator) -> Draft:
        """Ask for a random text."""
        return random_draft(self.prompts, self.temperature, rng, opened=True)

    def varied(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        """Ask for a variation of the sample at a scale below 1."""
        sample = collapse(sample)
        if scale >= self.whole_from:
            return self.alike(sample, rng)
        words, parts = sample.split(), sentences(sample)
        spans = self.spans if scale <= _WIDEST_SPAN else 0.0
        where = rng.random() * (1 - self.spans + spans)
        span = None
        if where < self.beginnings + spans:
            span = choose_span(parts, scale * len(words), rng, first=where < self.beginnings)
        # A topic drawn at random would contradict an opening that has its own.
        prompt = self.prompts.random_prompt(rng, widened=False)
        if span is None:
            kept = int((1 - scale) * len(words))
            opening, replaced, tail = " ".join(words[:kept]), len(words) - kept, []
        else:
            start, stop = span
            opening, replaced, tail = " ".join(parts[:start]), length(parts[start:stop]), parts[stop:]
            if not start:  # the model sees the topic in the sample itself
                prompt, opening = self.prompts.alike_prompt(sample, rng), self.prompts.opening(rng)
        room = _LONGEST * self.prompts.words - (len(words) - replaced)
        growth = min(math.sqrt(max(self.prompts.words / len(words), 1.0)), _GROWTH)
        wanted = min(growth * replaced * float(rng.uniform(*_STRETCH)), max(room, 1.0))
        request = self._request(prompt, opening, wanted, rng)
        return Draft(request, partial(join, self.prompts, sample, request, tail, wanted))

    def alike(self, sample: str, rng: np.random.Generator) -> Draft:
        """Ask for another text like the sample."""
        wanted = max(self.prompts.words, len(sample.split()))
        prompt, opening = self.prompts.alike_prompt(sample, rng), self.prompts.opening(rng)
        request = self._request(prompt, opening, wanted, rng)
        return Draft(request, partial(read_alike, self.prompts, sample, request))

    def _request(self, prompt: str, opening: str, words: float, rng: np.random.Generator) -> Request:
        return Request(
            prompt=prompt,
            opening=opening,
            max_tokens=tokens_for(words + _ROOM),
            temperature=self.temperature,
            seed=new_seed(rng),
            enough=round(_FEWEST_TOKENS_PER_WORD * words),
        )


def choose_span(
    parts: list[str], wanted: float, rng: np.random.Generator, *, first: bool = False
) -> tuple[int, int] | None:
    """Draw a run of whole sentences of about `wanted` words, at the beginning or in the middle; None if there is none.

    A run in the middle contains neither the first sentence nor the last, a run at the beginning not the last.
    """
    fitting = [
        (start, stop)
        for start in ((0,) if first else range(1, len(parts) - 1))
        for stop in range(start + 1, len(parts))
        if wanted / _TOLERANCE <= length(parts[start:stop]) <= wanted * _TOLERANCE
    ]
    return fitting[int(rng.integers(len(fitting)))] if fitting else None


def read_alike(prompts: Prompts, sample: str, request: Request, completion: Completion) -> str | None:
    """Clean an answer; reject a near copy of the sample."""
    fewest = max(1, min(len(sample.split()), prompts.words) // SHORTEST)
    text = read_answer(prompts, request, fewest, completion)
    return None if text is None or are_near_copies(text, sample) else text


def join(
    prompts: Prompts, sample: str, request: Request, tail: list[str], wanted: float, completion: Completion
) -> str | None:
    """Join opening, new sentences of about `wanted` words, and tail; None if the result is not a usable text."""
    opening, new = request.opening, completion.text
    if is_finished(opening) and new[:1].isalnum():
        opening += " "
    text = collapse(strip_headings(strip_markdown(opening + new)))  # while there are still lines
    if not completion.finished or tail or is_finished(sample):
        text = whole_sentences(text)
    parts = fit(sentences(text), len(opening.split()), wanted)
    text = " ".join(parts + tail)
    cleaned = clean(text, Rules(instructions=prompts.instructions, fewest_words=min(4, len(sample.split()))))
    if cleaned is None or set(sentences(cleaned)) <= set(sentences(sample)):
        return None  # nothing new
    kept = opening.split()[:_ANCHOR]
    return cleaned if cleaned.split()[: len(kept)] == kept else None


def fit(parts: list[str], kept: int, wanted: float) -> list[str]:
    """Return the first sentences whose length is nearest to `kept + wanted` words, and above `kept`."""
    ends = np.cumsum([len(part.split()) for part in parts])
    beyond = np.flatnonzero(ends > kept)
    if not len(beyond):
        return []
    best = beyond[np.argmin(np.abs(ends[beyond] - (kept + wanted)))]
    return parts[: int(best) + 1]


def length(parts: list[str]) -> int:
    """Return the number of words in the sentences."""
    return sum(len(part.split()) for part in parts)
