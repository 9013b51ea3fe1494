"""A small model that predicts words: by hand, and what copies and other sources teach it."""

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.metrics.next_word import next_word_accuracy
from made_up import private_rows


def test_the_word_met_most_often_is_predicted_after_the_longest_known_run() -> None:
    learnt = ["a b c", "a b c", "a b d", "x b d", "y b d"]
    # After "a": b. After "a b": c, though d follows "b" more often. After "z b", of which only "b" was met: d.
    assert next_word_accuracy(learnt, ["a b c"]).tolist() == [1.0]
    assert next_word_accuracy(learnt, ["a b d"]).tolist() == [0.5]
    assert next_word_accuracy(learnt, ["z b d"]).tolist() == [1.0]  # after "z", unmet, the commonest word of all: b


def test_ties_go_to_the_word_that_is_commoner_after_less() -> None:
    learnt = ["a b c", "a b d", "x b d"]
    assert next_word_accuracy(learnt, ["a b d"]).tolist() == [1.0]


def test_it_knows_its_own_source_best_and_learns_little_from_copies() -> None:
    reviews = [row["review"] for row in private_rows(90)]
    learnt, real = reviews[:45], reviews[45:]
    others = [f"Results of the trial showed that dose {i} lowered the risk of stroke." for i in range(45)]
    by_source, by_others, by_copies = (
        next_word_accuracy(texts, real).mean() for texts in (learnt, others, [learnt[0]] * 45)
    )
    assert by_source > by_copies > by_others


def test_texts_of_one_word_are_left_out() -> None:
    assert len(next_word_accuracy(["a b"], ["a", "a b", ""])) == 1
    with pytest.raises(InputError, match="at least two words"):
        next_word_accuracy(["a b"], ["a"])
    for learnt, real in (([], ["a b"]), (["a b"], []), ("a b", ["a b"])):
        with pytest.raises(InputError, match="a list of at least one text"):
            next_word_accuracy(learnt, real)


def test_it_is_the_same_in_any_process() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdef"), size=12)) for _ in range(30)]
    first = next_word_accuracy(texts, texts[::-1])
    assert np.array_equal(next_word_accuracy(list(texts), texts[::-1]), first)
