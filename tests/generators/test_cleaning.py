import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.generators.cleaning import Rules, clean, is_finished, loops, sentences

TEXT = "The food was warm and the staff were kind. We will come back."

# Pieces that the rules are about, in any order, so that taking one out may bring another together.
PIECES = (
    "Sure, here is the rephrased text:", "Abstract:", '"', "\u201c", "'", "```", "```text\n", "**", "\n", "\n\n", "# ",
    "- ", "<|im_end|>", "<|im_", "|>", "</s>", "assistant: ", "The food was warm.", "We came back twice!", "e.g.",
    "See https://a.example/b for it.", "Mail me@home.org now.", "doi:10.1000/182", "Call 555-123-4567.", "[Your Name]",
    "I hope this helps!", "and then the", "\x00", "\u200b", "\ud800", "\u0301", "...", "?", "Dr. Who", "again ", "(",
    "(laughs)", "[somewhere]", "How can I help?", "Share:", ":", '5"', "\u201d",
)  # fmt: skip
MESSY = st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=12).map(" ".join) | st.text(max_size=200)


@given(MESSY, st.booleans(), st.sampled_from(["", "The food", "Abstract:"]))
def test_cleaning_twice_is_cleaning_once(text: str, cut: bool, prompt: str) -> None:  # noqa: FBT001
    rules = Rules(prompt=prompt, cut=cut, fewest_words=1)
    cleaned = clean(text, rules)
    assert cleaned is None or clean(cleaned, rules) == cleaned


@given(MESSY, st.booleans())
def test_a_clean_text_is_one_visible_line_without_edges(text: str, cut: bool) -> None:  # noqa: FBT001
    cleaned = clean(text, Rules(cut=cut, fewest_words=1))
    if cleaned is not None:
        assert cleaned
        assert cleaned == " ".join(cleaned.split())
        assert not any(unicodedata.category(c)[0] == "C" for c in cleaned)
        assert "<|" not in cleaned or "|>" not in cleaned.split("<|", 1)[1][:40]
        assert "http://" not in cleaned
        assert "```" not in cleaned


@given(MESSY)
def test_sentences_joined_by_spaces_are_the_text(text: str) -> None:
    collapsed = " ".join(text.split())
    assert " ".join(sentences(collapsed)) == collapsed


@pytest.mark.parametrize(
    "written",
    [
        f"Sure, here is a rephrased version of the review:\n\n{TEXT}",
        f"Here's the rephrased text in a casual style: {TEXT}",
        f'Certainly! Here is the review:\n\n"{TEXT}"',
        f"Sure! {TEXT}",
        f"Abstract: {TEXT}",
        f"**Rephrased Review:**\n{TEXT}",
        f"```\n{TEXT}\n```",
        f"```text\n{TEXT}\n```\nI hope this helps!",
        f"I've been tasked to create a Reddit post with the category: a difficult roommate. {TEXT}",
        f"{TEXT} The text is as follows: it rained.",
        f"{TEXT} The imm\ufffdne system was fine.",
        f'"{TEXT}"',
        f"\u201c{TEXT}\u201d",
        f'"{TEXT}',
        f"<|im_start|>assistant\n{TEXT}<|im_end|>",
        f"{TEXT}<|im_end|>\n<|im_start|>user\nMore please.",
        f"Assistant: {TEXT}",
        f"{TEXT} Let me know if you would like me to make it shorter.",
        f"{TEXT} The food was warm and the staff were kind.",
        "The food  was\twarm and\n\nthe staff were kind.\r\n We will come back.",
        "The food was **warm** and the staff were __kind__. We will come back.",
        f"{TEXT} Visit us at www.nowhere.com for the menu.",
        f"{TEXT} Write to [Your Name] at once.",
        f"{TEXT} Published under doi:10.1000/182 in May.",
        f"{TEXT} Trial NCT01234567 holds more.",
        f"{TEXT} Ask for booking 123456789.",
        f"{TEXT} Ring (212) 555-0199 before noon.",
        f"{TEXT} My address is jo@example.org, as ever.",
        f"A Visit to Remember\n\nIntroduction\n\n{TEXT}",
        f"Title: A Visit\nKeywords: food, staff\nReview: {TEXT}",
        f'I am happy to help you with this. Here is the revised version: "{TEXT}"',
        f"{TEXT} I'm an AI designed to assist.",
        f"{TEXT} This review was written in a casual tone.",
        f"{TEXT} 1.",
        f"{TEXT}'",
        f"Abstract: {TEXT} Abstract: {TEXT}",
        'The food was warm and the staff" were kind. We will come back.',
        "The food was warm (laughs) and the staff were kind. (He pauses, smiling.) We will come back.",
        f"{TEXT} How can I help you today?",
        f"{TEXT} I'm here to help you with your meal.",
        f"{TEXT} You are a friendly chatbot in a restaurant.",
        f"{TEXT} I was in [somewhere nice] before.",
        f"{TEXT} Share with Emma:",
        "The *food* was warm and the staff were kind. We will come back.",
        "The food was\x00 warm and the staff\u200b were kind. We will come back.",
    ],
)
def test_what_is_no_part_of_the_text_goes(written: str) -> None:
    assert clean(written) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "Great food and a great review from all of us. Yes, we liked it.",
        "Here is the thing: nobody asked the cook.",
        '"Never," she said, and left. He called it "fine".',
        "Of 1,250,000 patients, 42.5% (range [IQR] 40-45) improved [1]. The p-value was <0.05 in 2010-2015.",
        "Dr. Smith et al. treated e.g. asthma and croup. J. K. Jones disagreed.",
        "what a week this has been for all of us lol",
        "We went there on a Monday, as always, my mother and I,\nand sat by the window.".replace("\n", " "),
        "I asked the AI assistant of the shop. It was not of much use #fail",
        "My boss asked me to write a report by Friday. I was tasked with creating the slides.",
        'Its 42" screen was large. The other was "fine".',
        "How can I help my mother? You are an assistant, she says (laughs 2 times).",
        "We had to wait for three hours, and it rained :(",
        "What I found in the end was this:",
        "He said [some 3 days later] that he was fine. [Others] were not.",
    ],
)
def test_what_belongs_to_the_text_stays(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"We" came and "they left.', '"We" came and they left.'),
        ('We" came and "they" left.', 'We came and "they" left.'),
        ("\u201cWe came. \u201cThey\u201d left.", "We came. \u201cThey\u201d left."),
        ('She (the "boss) said "yes" to us.', 'She (the boss) said "yes" to us.'),
    ],
)
def test_of_many_quotation_marks_only_the_unpaired_one_goes(written: str, expected: str) -> None:
    assert clean(written) == expected


def test_an_echo_of_the_prompt_goes() -> None:
    prompt = "Write a review,\nplease."
    assert clean(f"Write a review, please.\n\n{TEXT}", Rules(prompt=prompt)) == TEXT
    assert clean("Write a review,\nplease.", Rules(prompt=prompt)) is None


def test_sentences_about_the_task_go() -> None:
    rules = Rules(instructions=("Using a variety of sentence types, write an abstract",))
    assert clean(f"{TEXT} By using a variety of sentence types it reads well.", rules) == TEXT
    assert clean(f"{TEXT} A variety of sentence length helps.", rules) == f"{TEXT} A variety of sentence length helps."


def test_lines_that_were_wrapped_are_no_headings() -> None:
    assert clean("The food was warm and\nthe staff were kind. We\nwill come back.") == TEXT


def test_a_last_sentence_that_was_cut_goes() -> None:
    cut = Rules(cut=True)
    assert clean(f"{TEXT} Next time we", cut) == TEXT
    assert clean(f"{TEXT} Next time we") == f"{TEXT} Next time we"
    assert clean("Next time we will bring the", cut) is None
    assert clean(TEXT, cut) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "Too short.",
        "I'm sorry, but I cannot help with that request.",
        "As an AI language model, I do not eat in restaurants at all.",
        "See https://nowhere.example/page for the whole story.",
        "very " * 30,
        "it was good and " * 5,
        "word " * 2001,
    ],
)
def test_what_cannot_be_mended_is_rejected(text: str) -> None:
    assert clean(text) is None


def test_length_is_measured_by_the_rules() -> None:
    assert clean("One two three.", Rules(fewest_words=3)) == "One two three."
    assert clean("One two three.", Rules(fewest_words=4)) is None
    assert clean("One two three.", Rules(fewest_words=1, most_words=2)) is None


def test_sentences_end_where_readers_think_they_do() -> None:
    text = 'Dr. No met J. R. at 5.30 p.m. in St. Ives (e.g. once). "Why?" he asked. It rained! Then it stopped'
    assert sentences(text) == [
        "Dr. No met J. R. at 5.30 p.m. in St. Ives (e.g. once).",
        '"Why?" he asked.',
        "It rained!",
        "Then it stopped",
    ]
    assert [is_finished(part) for part in sentences(text)] == [True, True, True, False]
    assert not is_finished("and then ...")


def test_loops_are_told_from_emphasis() -> None:
    assert not loops(["it", "was", "very", "very", "good", "and", "I", "mean", "very", "very", "good"])
    assert loops(["I", "said", "no", "no", "no", "no", "no", "no"])
    assert loops([f"w{i % 12}" for i in range(60)])
