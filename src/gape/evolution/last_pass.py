"""The last pass: rewrites texts that are still near copies of others, before the texts are published.

It reads only texts that the run has selected and may publish, never a private record, so it costs no privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gape.core.copies import Distinct
from gape.core.protocols import Embedder, Generator
from gape.core.types import Indices, Samples, texts_of

DRAWS = 8  # variations of a text per try
TRIES = 3
WITHIN = 0.9  # distance between unit embeddings, where two texts of one domain are about 1.25 apart


@dataclass(frozen=True)
class LastPass:
    """Replaces near copies by variations that are not near copies and are close to the text they replace.

    Of several near copies the first one stays. For each of the others `DRAWS` variations are drawn at `scale`, up to
    `TRIES` times. The text is replaced by its nearest variation that is not a near copy of any text in the set and not
    farther away than `within`. A text without such a variation stays unchanged.
    """

    generator: Generator
    embedder: Embedder
    scale: float
    within: float = WITHIN
    wording: Callable[[Samples], list[str]] = field(default=texts_of, repr=False)  # the words of samples

    def __call__(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return the samples, (m,), with near copies rewritten."""
        seen, kept = Distinct(), samples.copy()
        copies = np.array(
            [index for index, text in enumerate(self.wording(samples)) if not seen.take(text)], dtype=np.int64
        )
        for _ in range(TRIES):
            if not len(copies):
                break
            copies = self._rewrite(samples, kept, copies, seen, rng)
        return kept

    def _rewrite(
        self, samples: Samples, kept: Samples, copies: Indices, seen: Distinct, rng: np.random.Generator
    ) -> Indices:
        """Rewrite the samples at the indices `copies` in `kept`, and return the indices where that failed."""
        asked = np.repeat(copies, DRAWS)
        drawn = self.generator.vary(samples[asked], np.full(len(asked), self.scale), rng)
        apart = np.linalg.norm(self.embedder.embed(drawn) - self.embedder.embed(samples[asked]), axis=1)
        texts, failed = self.wording(drawn), []
        for number, index in enumerate(copies):
            own = slice(number * DRAWS, (number + 1) * DRAWS)
            nearest_first = number * DRAWS + np.argsort(apart[own], kind="stable")
            within = (choice for choice in nearest_first if apart[choice] <= self.within)
            choice = next((choice for choice in within if seen.take(texts[choice])), None)
            if choice is None:
                failed.append(index)
            else:
                kept[index] = drawn[choice]
        return np.array(failed, dtype=np.int64)
