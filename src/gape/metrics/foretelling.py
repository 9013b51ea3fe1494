"""What texts teach about the words of real texts: a small model learns from them, and foretells each next word.

The model counts: after the longest run of up to two words that it has met, it names the word that it met most often
there. It learns from a set in seconds, on any machine and without randomness, and a set of copies teaches it little.
Compare sets of as many texts.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from gape.core.copies import words
from gape.core.errors import InputError
from gape.core.types import Floats

_BEFORE = 2  # words that the next one is told by


def next_word_accuracy(learnt: Sequence[str], real: Sequence[str]) -> Floats:
    """Return the share of words foretold rightly, for each real text that has at least two words."""
    for name, texts in (("learnt", learnt), ("real", real)):
        if isinstance(texts, str) or not len(texts):
            raise InputError(f"{name} must be a list of at least one text, got a single text or none")
    likeliest = _likeliest(learnt)
    shares = []
    for text in real:
        told = words(text)
        if len(told) > 1:
            shares.append(np.mean([_foretold(likeliest, told[:place]) == told[place] for place in range(1, len(told))]))
    if not shares:
        raise InputError("real must hold a text of at least two words, got none; check the column they were read from")
    return np.array(shares)


def _likeliest(texts: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Name the word that most often follows each run of up to two words; of equally many, the commonest after less."""
    following: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for text in texts:
        told = words(text)
        for place, word in enumerate(told):
            for length in range(min(_BEFORE, place) + 1):
                following[tuple(told[place - length : place])][word] += 1

    def often(run: tuple[str, ...], word: str) -> tuple[int, ...]:
        return tuple(following[run[cut:]][word] for cut in range(len(run) + 1))

    return {run: max(counts, key=lambda word: often(run, word)) for run, counts in list(following.items())}


def _foretold(likeliest: dict[tuple[str, ...], str], before: Sequence[str]) -> str | None:
    for length in range(min(_BEFORE, len(before)), -1, -1):
        run = tuple(before[len(before) - length :])
        if run in likeliest:
            return likeliest[run]
    return None
