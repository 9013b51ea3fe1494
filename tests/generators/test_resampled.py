import math
import re
from dataclasses import replace

import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.copies import are_near_copies
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.core.types import Samples
from gape.generators.asking import TRIES
from gape.generators.cleaning import is_finished, sentences, whole_sentences
from gape.generators.prompts import generic
from gape.generators.resampled import ResampledText, choose_span, fit
from gape.language.request import Completion, Request
from gape.language.scripted import ScriptedModel
from generators.writing import rng_of, write

PROMPTS = generic("letters to a landlord", words=60)
SCALES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


def parent(words: int = 9, parts: int = 12) -> str:
    """Return sentences of so many words each, no two the same."""
    return " ".join(f"Old {' '.join(f'part{i}word{j}' for j in range(words - 2))} end{i}." for i in range(parts))


def copies(text: str, count: int) -> Samples:
    samples = np.empty(count, dtype=object)
    samples[:] = text
    return samples


def vary(
    text: str, scale: float, *, spans: float, beginnings: float = 0.0, whole_from: float = math.inf, count: int = 40
) -> tuple[ScriptedModel, list[str]]:
    model = ScriptedModel(write)
    varied = ResampledText(model, PROMPTS, beginnings=beginnings, spans=spans, whole_from=whole_from).vary(
        copies(text, count), np.full(count, scale), np.random.default_rng(1)
    )
    return model, list(varied)


class TestContract(TextGeneratorContract):
    def make(self) -> Generator:
        return ResampledText(ScriptedModel(write), PROMPTS)


def test_random_texts_begin_as_the_prompts_say() -> None:
    model = ScriptedModel(write)
    prompts = replace(PROMPTS, openings=("I", "We"))
    drawn = ResampledText(model, prompts).random(20, np.random.default_rng(0))
    assert {call.opening for call in model.calls} == {"I", "We"}
    assert {text.split()[0] for text in drawn} == {"I", "We"}
    assert all("It is about: " in call.prompt for call in model.calls)


class TestEnd:
    @pytest.mark.parametrize("scale", SCALES)
    def test_the_share_that_is_kept_is_one_less_the_scale(self, scale: float) -> None:
        text = parent()
        model, varied = vary(text, scale, spans=0.0)
        kept = int((1 - scale) * 108)
        assert {call.opening for call in model.calls} == {" ".join(text.split()[:kept])}
        for new in varied:
            assert new.split()[:kept] == text.split()[:kept]
            assert new != text
            assert is_finished(new)

    def test_lengths_neither_grow_nor_shrink_much(self) -> None:
        for scale in (0.1, 0.35, 0.5):
            _, varied = vary(parent(), scale, spans=0.0, count=200)
            assert np.mean([len(new.split()) for new in varied]) == pytest.approx(108, rel=0.12)

    def test_no_text_grows_without_bound(self) -> None:
        texts = copies(parent(), 20)
        generator = ResampledText(ScriptedModel(write), PROMPTS)
        for turn in range(30):
            texts = generator.vary(texts, np.full(len(texts), 0.4), np.random.default_rng(turn))
        assert max(len(text.split()) for text in texts) <= 2 * 60 + 12

    def test_at_scale_one_a_random_text_is_written_with_a_topic(self) -> None:
        model, varied = vary(parent(), 1.0, spans=0.0)
        assert all(call.opening in PROMPTS.openings and "It is about: " in call.prompt for call in model.calls)
        assert not any("Old" in new for new in varied)

    def test_no_topic_contradicts_an_opening(self) -> None:
        model, _ = vary(parent(), 0.5, spans=0.5)
        assert not any("It is about: " in call.prompt for call in model.calls)

    def test_what_is_written_has_room_to_end_its_sentence(self) -> None:
        for scale in (0.1, 0.9):
            model, _ = vary(parent(), scale, spans=0.0)
            assert all(
                1.7 * 108 * scale * 0.75 < call.max_tokens < 1.7 * (108 * scale * 1.4 + 26) for call in model.calls
            )


class TestMiddle:
    @pytest.mark.parametrize("scale", [0.1, 0.2, 0.35, 0.5])
    def test_whole_sentences_are_rewritten_between_the_first_and_the_last(self, scale: float) -> None:
        text = parent()
        old = sentences(text)
        _, varied = vary(text, scale, spans=1.0)
        for new in varied:
            parts = sentences(new)
            assert parts[0] == old[0]
            assert parts[-1] == old[-1]
            assert all(part in old or re.fullmatch(r"The \w+ near the \w+ likes the \w+\.", part) for part in parts)
            gone = 1 - len([part for part in parts if part in old]) / len(old)
            assert scale / 1.7 <= gone <= scale * 1.7
            assert set(parts) - set(old)

    def test_the_model_goes_on_from_what_stands_before_the_span(self) -> None:
        text = parent()
        model, _ = vary(text, 0.3, spans=1.0)
        starts = {call.opening for call in model.calls}
        assert len(starts) > 3
        assert all(text.startswith(start) and start.endswith(".") for start in starts)

    def test_a_text_without_a_middle_gets_a_new_end(self) -> None:
        text = parent(parts=2)
        model, varied = vary(text, 0.5, spans=1.0)
        assert {call.opening for call in model.calls} == {" ".join(text.split()[:9])}
        assert all(new.split()[:9] == text.split()[:9] for new in varied)

    def test_an_old_end_does_not_follow_from_a_text_that_is_mostly_new(self) -> None:
        model, _ = vary(parent(), 0.8, spans=1.0)
        assert {call.opening for call in model.calls} == {" ".join(parent().split()[:21])}

    def test_both_kinds_are_mixed(self) -> None:
        model, _ = vary(parent(), 0.3, spans=0.5, count=200)
        ends = sum(call.opening == " ".join(parent().split()[:75]) for call in model.calls)
        assert 60 < ends < 140


class TestBeginning:
    @pytest.mark.parametrize("scale", [0.1, 0.3, 0.6])
    def test_whole_sentences_are_rewritten_from_the_first_word_on(self, scale: float) -> None:
        text = parent()
        old = sentences(text)
        model, varied = vary(text, scale, spans=0.0, beginnings=1.0)
        assert all(call.opening in PROMPTS.openings and text in call.prompt for call in model.calls)
        for new in varied:
            parts = sentences(new)
            assert parts[0] not in old
            kept = [part for part in parts if part in old]
            assert kept == old[-len(kept) :] == parts[-len(kept) :]
            assert scale / 1.7 <= 1 - len(kept) / len(old) <= scale * 1.7

    def test_a_text_of_one_sentence_gets_a_new_end(self) -> None:
        text = parent(words=12, parts=1)
        model, _ = vary(text, 0.5, spans=0.0, beginnings=1.0)
        assert {call.opening for call in model.calls} == {" ".join(text.split()[:6])}

    def test_beginning_and_end_of_one_text_have_nothing_in_common_where_most_is_new(self) -> None:
        _, beginnings = vary(parent(), 0.6, spans=0.0, beginnings=1.0, count=5)
        _, ends = vary(parent(), 0.6, spans=0.0, count=5)
        assert not any(are_near_copies(one, other) for one in beginnings for other in ends)

    def test_all_three_places_are_mixed(self) -> None:
        model, _ = vary(parent(), 0.3, spans=1 / 3, beginnings=1 / 3, count=300)
        ends = sum(call.opening == " ".join(parent().split()[:75]) for call in model.calls)
        beginnings = sum(call.opening in PROMPTS.openings for call in model.calls)
        assert 70 < ends < 130
        assert 70 < beginnings < 130

    def test_no_middle_is_rewritten_where_most_is_new(self) -> None:
        model, _ = vary(parent(), 0.6, spans=1 / 3, beginnings=1 / 3, count=200)
        beginnings = sum(call.opening in PROMPTS.openings for call in model.calls)
        assert 70 < beginnings < 130
        assert sum(call.opening == " ".join(parent().split()[:43]) for call in model.calls) == 200 - beginnings


class TestNewTexts:
    def test_the_model_sees_the_sample_as_an_example(self) -> None:
        model, varied = vary(parent(), 0.9, spans=1 / 3, beginnings=1 / 3, whole_from=0.8)
        assert all(f'Here is an example: "{parent()}"' in call.prompt for call in model.calls)
        assert all(call.opening in PROMPTS.openings for call in model.calls)
        assert not any("It is about: " in call.prompt for call in model.calls)
        assert not any(are_near_copies(new, parent()) for new in varied)

    def test_an_answer_that_is_a_near_copy_of_the_sample_will_not_do(self) -> None:
        model = ScriptedModel(lambda request: f" thought this: {parent()}")
        varied = ResampledText(model, PROMPTS).vary(copies(parent(), 1), np.array([0.9]), np.random.default_rng(0))
        assert varied[0] == parent()
        assert len(model.calls) == TRIES

    def test_texts_shorter_than_their_domain_may_grow(self) -> None:
        short = parent(parts=3)
        _, varied = vary(short, 0.5, spans=0.0, count=100)
        assert np.mean([len(new.split()) for new in varied]) > 1.1 * len(short.split())


class TestWhatWillNotDo:
    TEXT = parent(parts=6)

    def answered(self, answer: str, *, finished: bool = True, spans: float = 0.0) -> tuple[ScriptedModel, str]:
        class Model(ScriptedModel):
            def complete(self, requests):  # type: ignore[no-untyped-def]
                for place, request in enumerate(requests):
                    self.calls.append(request)
                    yield place, Completion(answer, finished=finished)

        model = Model(write)
        varied = ResampledText(model, PROMPTS, beginnings=0.0, spans=spans).vary(
            copies(self.TEXT, 1), np.array([0.3]), np.random.default_rng(0)
        )
        return model, str(varied[0])

    @pytest.mark.parametrize("answer", ["", " and", " or not. See www.nowhere.com for it.", " very" * 40 + "."])
    @pytest.mark.parametrize("spans", [0.0, 1.0])
    def test_a_sample_stays_after_the_last_try(self, answer: str, spans: float) -> None:
        if spans and "www" in answer:
            answer = " See www.nowhere.com for it."
        elif "www" in answer:
            answer = " see www.nowhere.com for it."
        model, new = self.answered(answer, spans=spans)
        assert new == self.TEXT
        assert len({call.seed for call in model.calls}) == len(model.calls) == TRIES

    def test_an_end_that_was_cut_is_left_out(self) -> None:
        _, new = self.answered(" or so they said. A new thing happened then. And after", finished=False)
        assert new.endswith("or so they said. A new thing happened then.")

    def test_a_missing_space_after_a_sentence_is_put_there(self) -> None:
        _, new = self.answered("Then it rained for the rest of the long day.", spans=1.0)
        assert ". Then it rained for the rest of the long day. Old" in new

    def test_the_rest_of_a_cut_word_is_joined_to_it(self) -> None:
        _, new = self.answered("ish matters were settled by noon.")
        assert new.endswith("end3. Oldish matters were settled by noon.")

    def test_an_answer_that_starts_over_is_no_variation(self) -> None:
        answer = " or so. Here is the revised text: It rained all day long, and nobody came to see us."
        model, new = self.answered(answer)
        assert new == self.TEXT
        assert len(model.calls) == TRIES

    def test_lists_are_left_out(self) -> None:
        _, new = self.answered(" or so it seems.\n\n1. First Thing\n2. Second Thing\n\nThen came the long rain.")
        assert new.endswith("or so it seems. Then came the long rain.")

    def test_titles_need_no_end(self) -> None:
        model = ScriptedModel(lambda request: " a river runs through it")
        title = copies("How we lost our way in the woods", 1)
        varied = ResampledText(model, replace(PROMPTS, words=8)).vary(
            title, np.full(len(title), 0.5), np.random.default_rng(0)
        )
        assert varied[0] == "How we lost our a river runs through it"


def test_requests_repeat_where_the_rest_was_answered() -> None:
    def flaky(request: Request) -> str | None:
        return write(request) if rng_of(request).random() < 0.5 else None

    first, again = ScriptedModel(flaky), ScriptedModel(flaky)
    for model in (first, again):
        ResampledText(model, PROMPTS).vary(copies(parent(), 20), np.full(20, 0.4), np.random.default_rng(4))
    assert first.calls == again.calls


def test_spans_have_about_the_length_that_is_asked_for() -> None:
    parts = sentences(parent(words=10, parts=8))
    rng = np.random.default_rng(0)
    spans = {choose_span(parts, 20.0, rng) for _ in range(200)}
    assert spans == {(i, j) for i in range(1, 7) for j in range(i + 1, 8) if j - i in {2, 3}}
    assert choose_span(parts, 1.0, rng) is None
    assert choose_span(parts[:2], 10.0, rng) is None


def test_sentences_are_taken_while_they_bring_the_length_nearer() -> None:
    parts = ["One two.", "Three four five.", "Six seven.", "Eight nine ten."]
    assert fit(parts, 0, 5.0) == parts[:2]
    assert fit(parts, 5, 0.1) == parts[:3]
    assert fit(parts, 10, 5.0) == []
    assert whole_sentences("One two. Three") == "One two."
    assert whole_sentences("Three") == ""


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="scripted cannot continue a given opening; use PromptedText with it"):
        ResampledText(ScriptedModel(write, can_continue=False), PROMPTS)
    with pytest.raises(InputError, match=r"spans must be a share in \[0, 1\], got 2"):
        ResampledText(ScriptedModel(write), PROMPTS, spans=2)
    with pytest.raises(InputError, match=r"beginnings and spans must add up to at most 1, got 1\.2"):
        ResampledText(ScriptedModel(write), PROMPTS, beginnings=0.7, spans=0.5)
    with pytest.raises(InputError, match="1 writes a new random text"):
        ResampledText(ScriptedModel(write), PROMPTS).vary(
            copies("A text.", 1), np.array([1.5]), np.random.default_rng(0)
        )
