"""Measures of texts without a model: lengths, word sequences, variety, and near duplicates.

A word is a case-folded run of letters, digits or underscores, including what follows an apostrophe. An n-gram is n
consecutive words of a text. The total variation distance of two distributions, sum |p - q| / 2, is zero if they are
equal and one if they have nothing in common.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from gape.core.copies import Gram, ngrams, words
from gape.core.errors import InputError


def length_distance(real: Sequence[str], synthetic: Sequence[str], *, width: int = 10) -> float:
    """Return the total variation distance of the lengths of texts, in bins of `width` words.

    It only sees lengths: texts of random words score zero if their lengths are right.
    """
    check_texts(real=real, synthetic=synthetic)
    if width < 1:
        raise InputError(f"width must be at least 1 word, got {width}; use the default of 10")
    return total_variation(*(Counter(len(words(text)) // width for text in texts) for texts in (real, synthetic)))


def ngram_distance(real: Sequence[str], synthetic: Sequence[str], n: int = 1) -> float:
    """Return the total variation distance of the frequencies of n-grams over all texts; for n = 1, of words.

    Two samples from the same source differ as well, the more the longer the n-grams and the smaller the samples:
    compare with the distance between two halves of the real texts.
    """
    check_texts(real=real, synthetic=synthetic)
    counts = [Counter(gram for text in texts for gram in ngrams(text, n)) for texts in (real, synthetic)]
    if not all(counts):
        raise InputError(f"both sets must have a text of at least {n} words, got a set without; use a smaller n")
    return total_variation(*counts)


def distinct(texts: Sequence[str], n: int = 2) -> float:
    """Return the number of different n-grams over the number of all n-grams: distinct-n (Li et al., 2016).

    It falls as texts are added, so compare sets with about as many words. Nonsense scores high.
    """
    check_texts(texts=texts)
    grams = [gram for text in texts for gram in ngrams(text, n)]
    if not grams:
        raise InputError(f"texts must include one of at least {n} words, got none; use a smaller n")
    return len(set(grams)) / len(grams)


def vocabulary_overlap(real: Sequence[str], synthetic: Sequence[str]) -> float:
    """Return the number of words in both sets over that of words in either: the Jaccard index of the vocabularies.

    It depends on rare words, so it is low for a small and a large set even from the same source.
    """
    check_texts(real=real, synthetic=synthetic)
    real_words, synthetic_words = ({word for text in texts for word in words(text)} for texts in (real, synthetic))
    if not real_words | synthetic_words:
        raise InputError("texts must have at least one word, got none; check the column they were read from")
    return len(real_words & synthetic_words) / len(real_words | synthetic_words)


def near_duplicate_rate(texts: Sequence[str], *, threshold: float = 0.8, n: int = 3) -> float:
    """Return the share of texts whose set of n-grams overlaps that of some other text by at least `threshold`.

    The overlap is the Jaccard index (Broder, 1997); a text of fewer than n words counts as one n-gram. The result is
    exact: if two sets overlap by t, the rarest |A| - ceil(t |A|) + 1 n-grams of each have one in common (Chaudhuri et
    al., 2006), so only such pairs are compared.
    """
    check_texts(texts=texts)
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1, got {threshold}; use the default of 0.8")
    sets = [set(ngrams(text, n)) or {tuple(words(text))} for text in texts]
    frequency = Counter(gram for grams in sets for gram in grams)
    holders: defaultdict[Gram, list[int]] = defaultdict(list)
    duplicate = np.zeros(len(texts), dtype=np.bool_)
    for i, grams in enumerate(sets):
        rarest = sorted(grams, key=lambda gram: (frequency[gram], gram))
        # The small tolerance keeps 0.8 x 5 from being rounded up to 5.
        prefix = rarest[: len(rarest) - ceil(threshold * len(rarest) - 1e-9) + 1]
        for j in {j for gram in prefix for j in holders[gram]}:
            if not (duplicate[i] and duplicate[j]):
                common = len(grams & sets[j])
                if common >= threshold * (len(grams) + len(sets[j]) - common) - 1e-9:
                    duplicate[[i, j]] = True
        for gram in prefix:
            holders[gram].append(i)
    return float(duplicate.mean())


def check_texts(**sets: Sequence[str]) -> None:
    """Refuse sets that are a single text or empty; the keywords name them."""
    for name, texts in sets.items():
        if isinstance(texts, str) or not len(texts):
            raise InputError(f"{name} must be a list of at least one text, got a single text or none")


def total_variation(left: Counter[Any], right: Counter[Any]) -> float:
    """Return the total variation distance of the frequencies in two non-empty counters."""
    total_left, total_right = left.total(), right.total()
    return sum(abs(left[key] / total_left - right[key] / total_right) for key in left.keys() | right.keys()) / 2
