"""Texts whose lengths follow the votes: an operator that was tried.

New texts after a sample were at least as long as a typical text of the domain. Here they are about as long as the
sample, somewhat shorter or longer, so that votes can find the lengths of the private texts. With `lengths`, random
texts are of different lengths from the beginning.
"""

from dataclasses import dataclass, replace

import numpy as np
from experiments.varied_text.listed import Listed

from gape.core.types import Samples
from gape.generators.asking import draw_each, filled, tokens_for
from gape.generators.reading import Draft
from gape.generators.resampled import ResampledText

_STRETCH = (0.75, 1.35)  # as for the parts of a text
_LENGTHS = (0.4, 1.2)  # of random texts, in multiples of a typical text
_ROOM, _FEWEST_TOKENS_PER_WORD = 24, 1.3


@dataclass(frozen=True)
class Paced(ResampledText):
    """Writes new texts about as long as their samples; with `lengths`, random texts of different lengths."""

    lengths: bool = False

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw texts."""
        texts = draw_each(self.model, lambda _: self.new(rng), count, self.prompts.name, distinct=self.distinct)
        return filled(texts, rng)

    def new(self, rng: np.random.Generator) -> Draft:
        """Ask for a random text."""
        draft = super().new(rng)
        if not self.lengths:
            return draft
        return _with_words(draft, self.prompts.words * float(rng.uniform(*_LENGTHS)))

    def alike(self, sample: str, rng: np.random.Generator) -> Draft:
        """Ask for another text like the sample."""
        draft = super().alike(sample, rng)
        return _with_words(draft, len(sample.split()) * float(rng.uniform(*_STRETCH)))


@dataclass(frozen=True)
class PacedListed(Listed, Paced):
    """Both operators together."""


def _with_words(draft: Draft, words: float) -> Draft:
    """Let the text end at the first end of a sentence after so many words."""
    enough = round(_FEWEST_TOKENS_PER_WORD * words)
    request = replace(draft.request, enough=enough, max_tokens=tokens_for(words + _ROOM))
    return Draft(request, draft.read)
