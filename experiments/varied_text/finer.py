"""Smaller steps in the later rounds: an operator that was tried."""

from dataclasses import dataclass, replace

import numpy as np

from gape.generators.labels import LabelledGenerator
from gape.generators.reading import Draft
from gape.generators.resampled import ResampledText

_SHARE = 0.5  # of the words that are rewritten otherwise


@dataclass(frozen=True)
class Finer(ResampledText):
    """Rewrites half as many words of a sample from the middle of the rounds on; new texts are as before."""

    progress: float = 0.0

    def annealed_at(self, progress: float) -> "Finer":
        """Return the writer at a share of the rounds."""
        return replace(self, progress=progress)

    def varied(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        """Ask for a variation."""
        finer = self.progress >= 0.5 and scale < self.whole_from
        return super().varied(sample, _SHARE * scale if finer else scale, rng)


class FinerLabels(LabelledGenerator):
    """Tells the writer of each label where the rounds are."""

    def annealed_at(self, progress: float) -> "FinerLabels":
        """Return the generator at a share of the rounds."""
        writers = {label: writer.annealed_at(progress) for label, writer in self.generators.items()}  # type: ignore[attr-defined]
        return FinerLabels(writers, self.column)
