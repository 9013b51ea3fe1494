"""How much the texts of a set repeat one another, which recall, precision and W1 do not detect.

Every measure depends on the number and the length of the texts: more and longer texts repeat more, whoever wrote them.
Compare with `as_many` real texts. No model is needed, and the texts are public once released.
"""

import lzma
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape.core.copies import opening, repeats, words
from gape.metrics.text import check_texts, distinct

USUAL, USUAL_POSTS = 0.06, 0.02  # share of 2,000 PubMed abstracts, and of 10,000 Reddit posts, that repeat another one
_MUCH = 0.1  # this much above the usual share is too much


@dataclass(frozen=True)
class Repetition:
    """How much the texts of one set repeat one another."""

    repeating: float  # share of texts that have 8 consecutive words in common with another one
    openings: float  # number of different openings (five words) over the number of texts
    pairs: float | None  # distinct-2: different pairs of consecutive words over all pairs; None if there are no pairs
    compression: float  # bytes of all texts over their bytes after LZMA: higher is more repetitive


def repetition(texts: Sequence[str]) -> Repetition:
    """Measure how much texts repeat one another."""
    check_texts(texts=texts)
    content = "\n".join(texts).encode(errors="replace")
    return Repetition(
        repeating=float(repeats(texts).mean()),
        openings=len({opening(text) for text in texts}) / len(texts),
        pairs=distinct(texts, 2) if any(len(words(text)) > 1 for text in texts) else None,
        compression=len(content) / len(lzma.compress(content)),
    )


def repeats_itself(repeating: float, usual: float = USUAL) -> bool:
    """Whether the share of repeating texts is clearly larger than is usual for real texts."""
    return repeating > usual + _MUCH


def as_many(real: Sequence[str], texts: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Draw as many real texts as there are texts, if there are enough, each cut to the length of one of the texts."""
    lengths = rng.permutation([max(1, len(words(text))) for text in texts])
    drawn = [real[index] for index in rng.permutation(len(real))[: len(texts)]]
    return [_cut(text, int(length)) for text, length in zip(drawn, lengths, strict=False)]


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text with at most so many words, but at least one piece."""
    pieces = text.split()
    kept: list[str] = []
    for piece in pieces:
        most -= len(words(piece))
        if most < 0 and kept:
            break
        kept.append(piece)
    return " ".join(kept)
