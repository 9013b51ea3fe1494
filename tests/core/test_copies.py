"""Which texts count as near copies, and sets without any."""

import pytest

from gape.core.copies import Distinct, are_near_copies, opening, repeats, runs
from gape.core.errors import InputError

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def text(*words: str) -> str:
    return " ".join(words)


def test_eight_words_in_a_row_make_a_near_copy_and_seven_do_not() -> None:
    eight = text("so", "it", "was", "that", "here", *WORDS[:8])
    assert are_near_copies(eight, text("but", "then", "we", "went", "there", *WORDS[:8], "and", "on"))
    assert not are_near_copies(eight, text("but", "then", "we", "went", "there", *WORDS[:7], "and", "on"))


def test_the_same_first_five_words_make_a_near_copy_and_four_do_not() -> None:
    assert are_near_copies(text(*WORDS[:5], "a", "b"), text(*WORDS[:5], "c", "d"))
    assert not are_near_copies(text(*WORDS[:4], "a", "b", "c"), text(*WORDS[:4], "d", "e", "f"))


def test_case_and_punctuation_make_no_difference() -> None:
    assert are_near_copies("It was, all in all, a good day.", "it was all in all A GOOD DAY!")


def test_a_short_text_is_a_copy_of_its_equal_alone() -> None:
    assert are_near_copies("Good food.", "good food")
    assert not are_near_copies("Good food.", "Good food here.")
    assert runs("Good food.") == {("good", "food")}
    assert opening("Good food.") == ("good", "food")


def test_a_set_takes_no_near_copy_of_any_text_it_has_taken() -> None:
    seen = Distinct(["We went to the old harbour and looked at ships."])
    assert not seen.take("We went to the old station instead.")
    assert seen.take("In the evening it rained, and nobody minded.")
    assert not seen.take("In the evening it rained all over town.")
    assert not seen.take("Later somebody went to the old harbour and looked at ships again.")
    assert seen.take("Nothing else happened on that day.")


def test_what_a_set_refuses_leaves_no_trace() -> None:
    seen = Distinct(["We went to the old harbour."])
    assert not seen.take("We went to the old mill, where a wheel turned slowly in the stream below.")
    assert seen.take("Look, a wheel turned slowly in the stream below the bridge.")


def test_runs_of_no_words_are_refused() -> None:
    with pytest.raises(InputError, match="n must be at least 1 word"):
        runs("some text", 0)


def test_texts_without_words_are_not_copies_of_each_other() -> None:
    seen = Distinct()
    assert seen.take("")
    assert seen.take("")
    assert not repeats(["", "", "One text.", "Another text."]).any()
