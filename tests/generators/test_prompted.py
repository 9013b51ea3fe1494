from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError, ServiceError
from gape.core.protocols import Generator
from gape.core.types import Samples
from gape.generators.asking import LEAST_SHARE, REDRAWS, TRIES
from gape.generators.prompted import PromptedText, mask_words
from gape.generators.prompts import generic, load
from gape.language.request import Completion, Request
from gape.language.scripted import ScriptedModel
from generators.writing import rng_of, write

PROMPTS = generic("letters to a landlord", words=40)


def texts(*written: str) -> Samples:
    samples = np.empty(len(written), dtype=object)
    samples[:] = written
    return samples


class TestRephrase(TextGeneratorContract):
    def make(self) -> Generator:
        return PromptedText(ScriptedModel(write, can_continue=False), PROMPTS)


class TestFill(TextGeneratorContract):
    def make(self) -> Generator:
        return PromptedText(ScriptedModel(write, can_continue=False), PROMPTS, by="fill")


class TestRandom:
    def test_every_text_has_a_prompt_of_its_own(self) -> None:
        model = ScriptedModel(write)
        drawn = PromptedText(model, PROMPTS, temperature=0.7).random(30, np.random.default_rng(0))
        assert len(set(drawn)) == 30
        assert len({call.seed for call in model.calls}) == 30
        assert len({call.prompt for call in model.calls}) > 20
        assert {call.temperature for call in model.calls} == {0.7}
        assert all("letters to a landlord" in call.prompt for call in model.calls)

    def test_answers_may_come_in_any_order(self) -> None:
        class Backwards(ScriptedModel):
            def complete(self, requests):  # type: ignore[no-untyped-def]
                return reversed(list(super().complete(requests)))

        forwards, backwards = (
            PromptedText(kind(write), PROMPTS).random(9, np.random.default_rng(0))
            for kind in (ScriptedModel, Backwards)
        )
        np.testing.assert_array_equal(forwards, backwards)

    def test_requests_do_not_depend_on_when_the_rest_was_answered(self) -> None:
        """Where answers are kept by request, a run that is resumed asks for the same ones again."""

        def flaky(request: Request) -> str | None:
            return write(request) if rng_of(request).random() < 0.6 else None

        first, again = ScriptedModel(flaky), ScriptedModel(flaky)
        for model in (first, again):
            generator = PromptedText(model, PROMPTS)
            generator.vary(generator.random(12, np.random.default_rng(3)), np.ones(12), np.random.default_rng(4))
        assert first.calls == again.calls
        assert len(set(first.calls)) == len(first.calls)

    def test_a_rejected_answer_is_asked_for_again_under_another_seed(self) -> None:
        seen: Counter[str] = Counter()

        def second_time(request: Request) -> str:
            seen[request.prompt] += 1
            return write(request) if seen[request.prompt] == TRIES else "Too short."

        model = ScriptedModel(second_time)
        PromptedText(model, PROMPTS).random(1, np.random.default_rng(0))
        assert len(model.calls) == TRIES
        assert len({call.seed for call in model.calls}) == TRIES
        assert {replace(call, seed=0) for call in model.calls} == {replace(model.calls[0], seed=0)}

    def test_prompts_that_are_given_up_are_drawn_anew(self) -> None:
        model = ScriptedModel(lambda request: write(request) if request.prompt.startswith("Put yourself") else None)
        drawn = PromptedText(model, PROMPTS).random(20, np.random.default_rng(0))
        assert len(drawn) == 20
        assert len(set(drawn)) > 15

    def test_what_stays_missing_repeats_what_is_there(self) -> None:
        generator = PromptedText(ScriptedModel(write), PROMPTS)
        wanted = {str(text) for text in generator.random(30, np.random.default_rng(0))[:6]}

        def six(request: Request) -> str | None:
            return text if (text := write(request)).strip() in wanted else None

        model = ScriptedModel(six)
        drawn = PromptedText(model, PROMPTS).random(30, np.random.default_rng(0))
        assert set(drawn) == wanted
        assert len(model.calls) == 30 + 24 * (TRIES - 1) + REDRAWS * 24 * TRIES

    @pytest.mark.parametrize("count", [1, 5, 40])
    def test_a_model_that_does_not_work_is_an_error(self, count: int) -> None:
        model = ScriptedModel(lambda _: "No.")
        with pytest.raises(ServiceError, match=f"scripted gave usable answers to 0 of {count} prompts"):
            PromptedText(model, PROMPTS).random(count, np.random.default_rng(0))
        assert LEAST_SHARE == 0.1
        assert len(model.calls) <= max(count, REDRAWS * 5 + 5) * TRIES  # forty prompts are enough to tell


class TestVary:
    SAMPLES = texts("Dear landlord, the heating is broken. Please come.", 'He said "no" and {tone} left. It was late.')

    def test_rephrasing_is_done_at_the_temperature_of_the_scale(self) -> None:
        model = ScriptedModel(write)
        PromptedText(model, PROMPTS).vary(self.SAMPLES, np.full(len(self.SAMPLES), 1.3), np.random.default_rng(0))
        assert {call.temperature for call in model.calls} == {1.3}
        assert '"Dear landlord, the heating is broken. Please come."' in model.calls[0].prompt
        assert "\"He said 'no' and {tone} left. It was late.\"" in model.calls[1].prompt
        assert not any(call.opening for call in model.calls)

    def test_blanks_are_made_with_the_chance_of_the_scale(self) -> None:
        model = ScriptedModel(write)
        long = texts(" ".join(f"word{i}" for i in range(400)))
        PromptedText(model, load("pubmed"), by="fill").vary(long, np.full(len(long), 0.3), np.random.default_rng(0))
        (call,) = model.calls
        assert 80 < len([word for word in call.prompt.split() if word == "_"]) < 160
        assert "about 400 words" in call.prompt

    def test_a_sample_stays_where_no_answer_will_do(self) -> None:
        model = ScriptedModel(lambda request: None if "landlord, the heating" in request.prompt else write(request))
        varied = PromptedText(model, PROMPTS).vary(
            self.SAMPLES, np.full(len(self.SAMPLES), 1.0), np.random.default_rng(0)
        )
        assert varied[0] == self.SAMPLES[0]
        assert varied[1] != self.SAMPLES[1]

    def test_an_unchanged_text_and_blanks_left_open_are_no_answer(self) -> None:
        same = ScriptedModel(lambda _: str(self.SAMPLES[0]))
        PromptedText(same, PROMPTS).vary(self.SAMPLES[:1], np.array([1.0]), np.random.default_rng(0))
        assert len(same.calls) == TRIES
        blank = ScriptedModel(lambda _: "Dear landlord, the _ is broken. Please come.")
        varied = PromptedText(blank, PROMPTS, by="fill").vary(
            self.SAMPLES[:1], np.array([0.5]), np.random.default_rng(0)
        )
        assert varied[0] == self.SAMPLES[0]

    def test_an_answer_that_was_cut_ends_with_its_last_whole_sentence(self) -> None:
        class Cut(ScriptedModel):
            def complete(self, requests):  # type: ignore[no-untyped-def]
                for place in range(len(requests)):
                    yield place, Completion("Dear owner, it is cold here. Please send some", finished=False)

        varied = PromptedText(Cut(write), PROMPTS).vary(
            self.SAMPLES, np.full(len(self.SAMPLES), 1.0), np.random.default_rng(0)
        )
        assert list(varied) == ["Dear owner, it is cold here."] * 2

    def test_a_temperature_may_exceed_one_but_a_share_may_not(self) -> None:
        with pytest.raises(InputError, match=r"scale must be a share of words in \(0, 1\] for 'fill', got 1.5"):
            PromptedText(ScriptedModel(write), PROMPTS, by="fill").vary(
                self.SAMPLES, np.full(len(self.SAMPLES), 1.5), np.random.default_rng(0)
            )


def test_one_word_at_least_is_masked() -> None:
    rng = np.random.default_rng(0)
    assert all(mask_words("a b c", 1e-9, "_", rng).split().count("_") == 1 for _ in range(9))
    assert mask_words("a b c", 1.0, "[]", rng) == "[] [] []"
    assert mask_words("", 0.5, "_", rng) == ""


def test_mistakes_are_named() -> None:
    model = ScriptedModel(write)
    with pytest.raises(InputError, match="by must be 'rephrase' or 'fill', got 'magic'"):
        PromptedText(model, PROMPTS, by="magic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'generic' have no template under fill"):
        PromptedText(model, replace(PROMPTS, fill=()), by="fill")
