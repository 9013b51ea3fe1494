"""Texts as long as was asked for: an operator that was tried.

A small model often ends its answer after a quarter of the words asked for. Here a new text has at least a share of
them, or the model is asked again.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from gape.core.types import Samples
from gape.generators.asking import draw_each, filled, read_answer
from gape.generators.reading import Draft
from gape.generators.resampled import ResampledText, read_alike
from gape.language.request import Completion, Request


@dataclass(frozen=True)
class Lengthy(ResampledText):
    """Accepts only new texts with at least the share `least` of the words of a typical text."""

    least: float = 0.5

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw texts."""
        texts = draw_each(self.model, lambda _: self.new(rng), count, self.prompts.name, distinct=self.distinct)
        return filled(texts, rng)

    def new(self, rng: np.random.Generator) -> Draft:
        """Ask for a random text."""
        request = super().new(rng).request
        return Draft(request, partial(read_answer, self.prompts, request, round(self.least * self.prompts.words)))

    def alike(self, sample: str, rng: np.random.Generator) -> Draft:
        """Ask for another text like the sample."""
        request = super().alike(sample, rng).request
        fewest = round(self.least * min(len(sample.split()), self.prompts.words))
        return Draft(request, partial(_read_alike, self, sample, request, fewest))


def _read_alike(writer: Lengthy, sample: str, request: Request, fewest: int, completion: Completion) -> str | None:
    text = read_answer(writer.prompts, request, fewest, completion)
    return None if text is None else read_alike(writer.prompts, sample, request, completion)
