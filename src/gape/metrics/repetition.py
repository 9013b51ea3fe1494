"""How much the texts of a set repeat one another, which recall, precision and W1 do not see.

Every figure depends on how many texts there are and how long they are: more and longer texts repeat more, whoever wrote
them. So read them beside those of `as_many` real texts. No model is needed, and texts are public once released.
"""

import lzma
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape.core.copies import opening, repeats, words
from gape.core.errors import InputError
from gape.metrics.text import distinct

USUAL, USUAL_POSTS = 0.06, 0.02  # share of 2,000 PubMed abstracts, and of 10,000 Reddit posts, that repeat another
_MUCH = 0.1  # more than is usual


@dataclass(frozen=True)
class Repetition:
    """How much the texts of one set repeat one another."""

    repeating: float  # share of texts that have 8 words in a row in common with another
    openings: float  # different first five words, over texts
    pairs: float | None  # distinct-2: different pairs of words in a row, over all pairs; None where there is no pair
    compression: float  # bytes of all texts over bytes after LZMA: higher is more repetitive


def repetition(texts: Sequence[str]) -> Repetition:
    """Measure how much texts repeat one another."""
    if isinstance(texts, str) or not len(texts):
        raise InputError("texts must be a list of at least one text, got a single text or none")
    split = [words(text) for text in texts]
    content = "\n".join(texts).encode(errors="replace")
    return Repetition(
        repeating=float(repeats(texts).mean()),
        openings=len({opening(text) for text in texts}) / len(texts),
        pairs=distinct(texts, 2) if any(len(each) > 1 for each in split) else None,
        compression=len(content) / len(lzma.compress(content)),
    )


def repeats_itself(repeating: float, usual: float = USUAL) -> bool:
    """Whether so large a share of texts that repeat another is more than a reader would expect of real ones."""
    return repeating > usual + _MUCH


def as_many(real: Sequence[str], texts: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Draw as many real texts as there are texts, where there are so many, each cut to the words of one of them."""
    lengths = rng.permutation([max(1, len(words(text))) for text in texts])
    drawn = [real[place] for place in rng.permutation(len(real))[: len(texts)]]
    return [_cut(text, int(length)) for text, length in zip(drawn, lengths, strict=False)]


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text that has so many words."""
    pieces = text.split()
    kept: list[str] = []
    for piece in pieces:
        most -= len(words(piece))
        if most < 0 and kept:
            break
        kept.append(piece)
    return " ".join(kept)
