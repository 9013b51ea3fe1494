"""Texts by resampling: for models that go on from a given opening, and so can rewrite any share of a text."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from gape.cleaning import (
    Rules,
    clean,
    collapse,
    is_finished,
    sentences,
    strip_headings,
    strip_markdown,
    whole_sentences,
)
from gape.errors import InputError
from gape.generators.asking import ask, draw, new_seed, random_draft, tokens_for
from gape.generators.reading import Draft
from gape.language.request import Completion, LanguageModel, Request
from gape.prompts import Prompts
from gape.types import Floats, Samples, as_samples

# What is written anew is this many times as long as what it replaces: lengths can grow and shrink over the rounds.
_STRETCH = (0.75, 1.35)

# No text grows beyond this many times the words that a text of its domain has.
_LONGEST = 2.0

# A run of sentences stands for the asked share of words if its length is within this factor of it.
_TOLERANCE = 1.6

# Where more than this share is written anew, the old end no longer follows from it: the end is rewritten instead.
_WIDEST_SPAN = 0.5

# A text that lost this many of its first words to the cleaning is no variation any more.
_ANCHOR = 3

# Words beyond those wanted, so that the model can end its sentence.
_ROOM = 24

# Tokens per word, sparingly: at the first end of a sentence after so many, what was wanted is there or nearly so.
_TOKENS_PER_WORD = 1.3


@dataclass(frozen=True)
class ResampledText:
    """Random texts are answers to a prompt with a public topic; a variation at scale s is the share s of it rewritten.

    Either the end of the text is written anew from any word on, or whole sentences in its middle are: the first keeps
    no seam, the second one between sentences, where it hurts least. Both end where a sentence ends. A variation that
    the model does not deliver is its sample, unchanged.
    """

    model: LanguageModel
    prompts: Prompts
    temperature: float = 1.0
    spans: float = 0.5  # the share of variations in the middle, at scales up to 1/2; short texts have no middle

    def __post_init__(self) -> None:
        if not self.model.can_continue:
            raise InputError(f"{self.model.name} cannot go on from a given opening; use PromptedText with it")
        if not 0 <= self.spans <= 1:
            raise InputError(f"spans must be a share in [0, 1], got {self.spans}")

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` texts of the domain."""
        return draw(self.model, self.prompts, count, self.temperature, rng, opened=True)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Rewrite of every sample the share of its words that its scale says."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be a share of words in (0, 1], got {scale}; 1 writes all of a text anew")
        drafts = [
            random_draft(self.prompts, self.temperature, rng, opened=True)
            if scale == 1
            else self._draft(collapse(str(sample)), float(scale), rng)
            for sample, scale in zip(samples, scales, strict=True)
        ]
        answers = ask(self.model, drafts)
        return as_samples([sample if text is None else text for sample, text in zip(samples, answers, strict=True)])

    def _draft(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        words, parts = sample.split(), sentences(sample)
        middle = rng.random() < self.spans and scale <= _WIDEST_SPAN
        span = choose_span(parts, scale * len(words), rng) if middle else None
        if span is None:
            kept = int((1 - scale) * len(words))
            opening, replaced, tail = " ".join(words[:kept]), len(words) - kept, []
        else:
            start, stop = span
            opening, replaced, tail = " ".join(parts[:start]), length(parts[start:stop]), parts[stop:]
        room = _LONGEST * self.prompts.words - (len(words) - replaced)
        wanted = min(replaced * float(rng.uniform(*_STRETCH)), max(room, 1.0))
        request = Request(
            # A topic drawn at random would contradict an opening that has its own.
            prompt=self.prompts.random_prompt(rng, widened=False),
            opening=opening,
            max_tokens=tokens_for(wanted + _ROOM),
            temperature=self.temperature,
            seed=new_seed(rng),
            enough=round(_TOKENS_PER_WORD * wanted),
        )
        return Draft(request, partial(join, self.prompts, sample, request, tail, wanted))


def choose_span(parts: list[str], wanted: float, rng: np.random.Generator) -> tuple[int, int] | None:
    """Draw a run of whole sentences of about `wanted` words, neither the first nor the last; None if there is none.

    Without the first sentence the model would not know what the text is about.
    """
    fitting = [
        (start, stop)
        for start in range(1, len(parts) - 1)
        for stop in range(start + 1, len(parts))
        if wanted / _TOLERANCE <= length(parts[start:stop]) <= wanted * _TOLERANCE
    ]
    return fitting[int(rng.integers(len(fitting)))] if fitting else None


def join(
    prompts: Prompts, sample: str, request: Request, tail: list[str], wanted: float, completion: Completion
) -> str | None:
    """Put opening, new sentences of about `wanted` words, and tail together; None where that does not make a text."""
    opening, new = request.opening, completion.text
    if is_finished(opening) and new[:1].isalnum():
        opening += " "
    text = collapse(strip_headings(strip_markdown(opening + new)))  # while there are lines to tell them by
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
    """Return as many of the sentences as come nearest to `kept + wanted` words, and more than the kept ones."""
    ends = np.cumsum([len(part.split()) for part in parts])
    beyond = np.flatnonzero(ends > kept)
    if not len(beyond):
        return []
    best = beyond[np.argmin(np.abs(ends[beyond] - (kept + wanted)))]
    return parts[: int(best) + 1]


def length(parts: list[str]) -> int:
    """Count the words of sentences."""
    return sum(len(part.split()) for part in parts)
