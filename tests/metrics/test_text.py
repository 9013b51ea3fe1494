from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.core.copies import words
from gape.core.errors import InputError
from gape.metrics import distinct, length_distance, near_duplicate_rate, ngram_distance, vocabulary_overlap

REAL = ["The dog sat on the mat.", "A cat sat on the dog!", "The sun is warm today, isn't it?"]
OTHER = ["Rain falls over mountains", "Nothing here repeats at all"]
TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=8).map(" ".join), min_size=1, max_size=12)


def test_words_are_what_the_rule_says() -> None:
    assert words("Don't, o'clock: ÉTÉ x_1 -- 42") == ["don't", "o'clock", "été", "x_1", "42"]
    assert words(" ... ") == []


class TestDistancesOfDistributions:
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_are_zero_for_the_same_texts_and_one_for_others(self, n: int) -> None:
        assert ngram_distance(REAL, REAL[::-1], n) == pytest.approx(0.0, abs=1e-12)
        assert ngram_distance(REAL, OTHER, n) == pytest.approx(1.0)

    def test_are_the_total_variation(self) -> None:
        # a: 2/4 against 1/2, b: 1/4 against 1/2, c: 1/4 against none
        assert ngram_distance(["a a", "b c"], ["a b"]) == pytest.approx((0 + 1 / 4 + 1 / 4) / 2)
        # grams do not go from one text to the next
        assert ngram_distance(["a b c"], ["a b", "b c"], 2) == pytest.approx(0.0)
        assert ngram_distance(["a b c"], ["a b", "c d"], 2) == pytest.approx(1 / 2)

    def test_of_lengths_are_those_of_bins(self) -> None:
        texts = ["w " * count for count in (1, 9, 10, 25)]
        assert length_distance(texts, texts) == 0.0
        assert length_distance(texts, ["w " * 9, "w " * 100]) == pytest.approx((0 + 1 / 4 + 1 / 4 + 1 / 2) / 2)
        assert length_distance(["a b"], ["c d e"], width=1) == 1.0


def test_distinct_is_the_share_of_different_grams() -> None:
    assert distinct(["a b a b"], 2) == pytest.approx(2 / 3)
    assert distinct(["a b", "a b", "c"], 1) == pytest.approx(3 / 5)
    assert distinct(["a b c d"], 1) == 1.0


def test_vocabularies_overlap_by_jaccard() -> None:
    assert vocabulary_overlap(["a b c"], ["B c d", "c"]) == pytest.approx(2 / 4)
    assert vocabulary_overlap(REAL, OTHER) == 0.0
    assert vocabulary_overlap(REAL, REAL) == 1.0


class TestNearDuplicates:
    @given(TEXTS, st.sampled_from([0.2, 1 / 3, 0.5, 0.6, 0.8, 1.0]), st.integers(1, 3))
    def test_are_what_comparing_all_pairs_finds(self, texts: list[str], threshold: float, n: int) -> None:
        sets = []
        for text in texts:
            found = text.split()
            sets.append({tuple(found[i : i + n]) for i in range(len(found) - n + 1)} or {tuple(found)})
        near = {
            index
            for (i, a), (j, b) in combinations(enumerate(sets), 2)
            if len(a & b) / len(a | b) >= threshold - 1e-9
            for index in (i, j)
        }
        assert near_duplicate_rate(texts, threshold=threshold, n=n) == pytest.approx(len(near) / len(texts))

    def test_one_word_of_many_makes_no_other_text(self) -> None:
        story = " ".join(f"word{i}" for i in range(60))
        assert near_duplicate_rate([story, story.replace("word59", "end"), *REAL]) == pytest.approx(2 / 5)
        assert near_duplicate_rate([story, *REAL]) == 0.0

    def test_many_copies_are_found_at_once(self) -> None:
        rng = np.random.default_rng(0)
        texts = [" ".join(map(str, rng.integers(0, 500, 30))) for _ in range(400)]
        counts = Counter(rng.integers(0, 400, 300).tolist())
        copies = [texts[i] for i, count in counts.items() for _ in range(count)]
        expected = (len(copies) + len(counts)) / (len(texts) + len(copies))
        assert near_duplicate_rate(texts + copies) == pytest.approx(expected)


class TestRefusals:
    @pytest.mark.parametrize("metric", [length_distance, ngram_distance, vocabulary_overlap])
    def test_no_texts(self, metric: Callable[..., Any]) -> None:
        with pytest.raises(InputError, match="synthetic must be a list"):
            metric(REAL, [])
        with pytest.raises(InputError, match="real must be a list"):
            metric("one text", REAL)

    @pytest.mark.parametrize("metric", [distinct, near_duplicate_rate])
    def test_no_texts_of_one_set(self, metric: Callable[..., Any]) -> None:
        with pytest.raises(InputError, match="texts must be a list"):
            metric([])

    def test_nothing_to_compare(self) -> None:
        with pytest.raises(InputError, match="at least 4 words"):
            ngram_distance(["a b c"], ["a b c d"], 4)
        with pytest.raises(InputError, match="at least 2 words"):
            distinct(["a", "b"])
        with pytest.raises(InputError, match="at least one word"):
            vocabulary_overlap(["..."], ["!"])

    def test_parameters_out_of_range(self) -> None:
        with pytest.raises(InputError, match="n must be at least 1"):
            distinct(REAL, 0)
        with pytest.raises(InputError, match="width must be at least 1"):
            length_distance(REAL, REAL, width=0)
        with pytest.raises(InputError, match="threshold must be above 0"):
            near_duplicate_rate(REAL, threshold=0.0)
