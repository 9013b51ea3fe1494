"""What texts teach about real texts: a small model learns from them and predicts each next word of the real texts.

The model counts: after the longest known run of up to two words, it predicts the word that followed it most often. It
learns from a set of texts in seconds, on any machine and without randomness, and copies teach it little. Compare sets
with the same number of texts.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from gape.core.copies import words
from gape.core.errors import InputError
from gape.core.types import Floats
from gape.metrics.text import check_texts

_CONTEXT = 2  # number of words that the next one is predicted from


def next_word_accuracy(learnt: Sequence[str], real: Sequence[str]) -> Floats:
    """Return the share of words predicted correctly, for each real text with at least two words."""
    check_texts(learnt=learnt, real=real)
    likeliest = _likeliest(learnt)
    shares = []
    for text in real:
        sequence = words(text)
        if len(sequence) > 1:
            shares.append(np.mean([_predict(likeliest, sequence[:i]) == sequence[i] for i in range(1, len(sequence))]))
    if not shares:
        raise InputError("real must hold a text of at least two words, got none; check the column they were read from")
    return np.array(shares)


def _likeliest(texts: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Find the most frequent word after each run of up to two words; ties go to the commonest after a shorter run."""
    following: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for text in texts:
        sequence = words(text)
        for i, word in enumerate(sequence):
            for length in range(min(_CONTEXT, i) + 1):
                following[tuple(sequence[i - length : i])][word] += 1

    def frequency(run: tuple[str, ...], word: str) -> tuple[int, ...]:
        return tuple(following[run[cut:]][word] for cut in range(len(run) + 1))

    return {run: max(counts, key=lambda word: frequency(run, word)) for run, counts in list(following.items())}


def _predict(likeliest: dict[tuple[str, ...], str], before: Sequence[str]) -> str | None:
    for length in range(min(_CONTEXT, len(before)), -1, -1):
        run = tuple(before[len(before) - length :])
        if run in likeliest:
            return likeliest[run]
    return None
