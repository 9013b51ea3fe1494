"""What can be said of texts without a model: lengths, word sequences, variety, and texts that are almost the same.

A word is a run of letters, digits or underscores, with what follows an apostrophe, case folded. An n-gram is n words in
a row of one text. The total variation of two distributions, sum |p - q| / 2, is zero where they are the same and one
where nothing of the one occurs in the other.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from gape.core.copies import Gram, ngrams, words
from gape.core.errors import InputError


def length_distance(real: Sequence[str], synthetic: Sequence[str], *, width: int = 10) -> float:
    """Total variation of the numbers of words a text has, in bins of `width` words.

    It sees nothing but length: texts of random words of the right number score zero.
    """
    _check(real=real, synthetic=synthetic)
    if width < 1:
        raise InputError(f"width must be at least 1 word, got {width}; use the default of 10")
    return _total_variation(*(Counter(len(words(text)) // width for text in texts) for texts in (real, synthetic)))


def ngram_distance(real: Sequence[str], synthetic: Sequence[str], n: int = 1) -> float:
    """Total variation of the frequencies of n-grams over all texts; for n = 1, of the words.

    Two samples of one source are apart as well, the more the longer the grams and the smaller the samples: read it
    beside the distance of two halves of the real texts.
    """
    _check(real=real, synthetic=synthetic)
    counts = [Counter(gram for text in texts for gram in ngrams(text, n)) for texts in (real, synthetic)]
    if not all(counts):
        raise InputError(f"both sets must have a text of at least {n} words, got one without; use a smaller n")
    return _total_variation(*counts)


def distinct(texts: Sequence[str], n: int = 2) -> float:
    """Share of the n-grams of all texts that are different from all others: distinct-n (Li et al., 2016).

    It falls as texts are added, whatever they say, so compare sets of about as many words; nonsense scores high.
    """
    _check(texts=texts)
    grams = [gram for text in texts for gram in ngrams(text, n)]
    if not grams:
        raise InputError(f"texts must have one of at least {n} words, got none; use a smaller n")
    return len(set(grams)) / len(grams)


def vocabulary_overlap(real: Sequence[str], synthetic: Sequence[str]) -> float:
    """Words that both sets have, over words that either has: the Jaccard index of the vocabularies.

    Rare words decide it, so it is low for a small set beside a large one even of the same source.
    """
    _check(real=real, synthetic=synthetic)
    ours, theirs = ({word for text in texts for word in words(text)} for texts in (real, synthetic))
    if not ours | theirs:
        raise InputError("texts must have at least one word, got none; check the column they were read from")
    return len(ours & theirs) / len(ours | theirs)


def near_duplicate_rate(texts: Sequence[str], *, threshold: float = 0.8, n: int = 3) -> float:
    """Share of texts with another, of another index, whose set of n-grams overlaps by at least `threshold`.

    The overlap is the Jaccard index (Broder, 1997); a text of fewer than n words is one gram. Exact: of two sets that
    overlap by t, the rarest |A| - ceil(t |A|) + 1 grams of each have one in common (Chaudhuri et al., 2006), so only
    such pairs are compared.
    """
    _check(texts=texts)
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1, got {threshold}; use the default of 0.8")
    sets = [set(ngrams(text, n)) or {tuple(words(text))} for text in texts]
    frequency = Counter(gram for grams in sets for gram in grams)
    holders: defaultdict[Gram, list[int]] = defaultdict(list)
    duplicate = np.zeros(len(texts), dtype=np.bool_)
    for i, grams in enumerate(sets):
        rarest = sorted(grams, key=lambda gram: (frequency[gram], gram))
        # Less a hair, as 0.8 x 5 must not be rounded up to 5.
        prefix = rarest[: len(rarest) - ceil(threshold * len(rarest) - 1e-9) + 1]
        for j in {j for gram in prefix for j in holders[gram]}:
            if not (duplicate[i] and duplicate[j]):
                common = len(grams & sets[j])
                if common >= threshold * (len(grams) + len(sets[j]) - common) - 1e-9:
                    duplicate[[i, j]] = True
        for gram in prefix:
            holders[gram].append(i)
    return float(duplicate.mean())


def _check(**sets: Sequence[str]) -> None:
    for name, texts in sets.items():
        if isinstance(texts, str) or not len(texts):
            raise InputError(f"{name} must be a list of at least one text, got a single text or none")


def _total_variation(left: Counter[Any], right: Counter[Any]) -> float:
    total_left, total_right = left.total(), right.total()
    return sum(abs(left[key] / total_left - right[key] / total_right) for key in left.keys() | right.keys()) / 2
