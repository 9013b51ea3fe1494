"""How much texts repeat one another: figures by hand, and beside real texts."""

import itertools

import numpy as np
import pytest

from gape.core.copies import repeats, words
from gape.core.errors import InputError
from gape.metrics.repetition import USUAL, as_many, repeats_itself, repetition
from made_up import private_rows, public_texts

EIGHT = "one two three four five six seven eight"


def slow_repeats(texts: list[str], run: int) -> list[bool]:
    """By the definition: every text with every other one."""
    split = [words(text) for text in texts]

    def shares(a: list[str], b: list[str]) -> bool:
        if len(a) < run or len(b) < run:
            return a == b
        runs = {tuple(a[i : i + run]) for i in range(len(a) - run + 1)}
        return any(tuple(b[i : i + run]) in runs for i in range(len(b) - run + 1))

    return [any(shares(a, b) for j, b in enumerate(split) if j != i) for i, a in enumerate(split)]


def test_eight_words_in_a_row_are_a_repetition_wherever_they_stand_and_seven_are_not() -> None:
    texts = [f"{EIGHT} nine", f"And so: {EIGHT.upper()}!", "one two three four five six seven", "quite another text"]
    assert repeats(texts).tolist() == [True, True, False, False]
    assert repeats(["short", "Short!", "other"]).tolist() == [True, True, False]
    assert repeats([EIGHT * 3]).tolist() == [False]  # a text is not another one


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(["a", "b", "c"], size=rng.integers(1, 12))) for _ in range(40)]
    for run in (2, 4, 8):
        assert repeats(texts, run).tolist() == slow_repeats(texts, run)


def test_figures_by_hand() -> None:
    found = repetition(["a b c d e f", "a b c d e g", "x y"])
    assert found.repeating == 0.0
    assert found.openings == pytest.approx(2 / 3)
    assert found.pairs == pytest.approx(7 / 11)  # ab bc cd de ef eg xy of 5 + 5 + 1
    assert repetition(["a", "b"]).pairs is None


def test_copies_are_seen_by_every_figure() -> None:
    varied = [row["review"] for row in private_rows(60)]
    copied = [f"{varied[0]} {i}" for i in range(60)]
    few, many = repetition(varied), repetition(copied)
    assert many.repeating == 1.0
    assert many.openings < few.openings
    assert (many.pairs or 0) < (few.pairs or 0)
    assert many.compression > few.compression


def test_real_texts_beside_have_the_number_and_the_lengths() -> None:
    real = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(50)]
    texts = [" ".join(["word"] * (5 + i)) for i in range(20)]
    drawn = as_many(real, texts, np.random.default_rng(0))
    assert sorted(len(words(text)) for text in drawn) == sorted(len(words(text)) for text in texts)
    assert all(any(whole.startswith(text) for whole in real) for text in drawn)
    assert len(as_many(real[:3], texts, np.random.default_rng(0))) == 3


def test_what_is_much_depends_on_what_is_usual() -> None:
    assert not repeats_itself(USUAL)
    assert repeats_itself(0.5)
    assert not repeats_itself(0.5, usual=0.6)


@pytest.mark.parametrize("texts", ["one text", []])
def test_only_lists_of_texts_are_measured(texts: list[str]) -> None:
    with pytest.raises(InputError, match="a list of at least one text"):
        repetition(texts)


def test_made_up_texts_of_few_parts_repeat_openings_alone() -> None:
    found = repetition(list(itertools.islice(public_texts(), 100)))
    assert found.repeating == 0.0  # they have fewer than eight words
    assert found.openings < 1.0
