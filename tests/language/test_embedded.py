import sys
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

import made_gguf
import small_model
from contracts.language_model import LanguageModelContract
from contracts.local_model import LocalModelContract, check_that_it_stops_when_interrupted
from gape.core.errors import InputError
from gape.language.embedded import EmbeddedModel
from gape.language.request import Completion, LanguageModel, Request
from gape.language.weights import SMOLLM2, fetch


@cache
def model() -> EmbeddedModel:
    return EmbeddedModel(fetch(SMOLLM2), slots=3, context=256)


def answers(*requests: Request) -> list[Completion]:
    done = dict(model().complete(requests))
    return [done[place] for place in range(len(requests))]


class TestContract(LanguageModelContract):
    failing: ClassVar[Request | None] = Request("too long for the context " * 200)

    def make(self) -> LanguageModel:
        return model()


class TestLocalModel(LocalModelContract):
    kind = EmbeddedModel
    answers = staticmethod(answers)


class TestAnswers:
    def test_the_chat_template_is_the_models_own(self) -> None:
        # The engine applies the template of the file itself, where it is given messages.
        question = Request("What is the capital of France?", temperature=0.0, max_tokens=12)
        asked = {"messages": [{"role": "user", "content": question.prompt}], "temperature": 0.0, "max_tokens": 12}
        theirs = model()._engines[0].handle_chat_completions({**asked, **model()._sampling})
        (ours,) = answers(question)
        assert ours.text == theirs["choices"][0]["message"]["content"]
        assert ours.prompt_tokens == theirs["usage"]["prompt_tokens"]

    def test_a_system_prompt_is_a_turn_of_its_own(self) -> None:
        short = EmbeddedModel(fetch(SMOLLM2), system="You know geography.", slots=1, context=64)
        ((_, completion),) = short.complete([Request("What is the capital of France?", temperature=0.0)])
        assert "Paris" in completion.text
        assert completion.finished
        assert completion.prompt_tokens == 16 + 9  # role, line ends and marks included
        assert completion.completion_tokens < 16

    def test_another_seed_is_another_answer(self) -> None:
        requests = [Request("Tell me a story.", max_tokens=10, seed=seed) for seed in (0, 1, 2**32 - 2, 2**63)]
        first, again = (answers(*requests) for _ in range(2))
        assert first == again
        assert len({completion.text for completion in first}) > 1

    def test_the_number_of_slots_changes_no_answer(self) -> None:
        requests = [Request("Write about rivers.", max_tokens=12, seed=seed) for seed in range(4)]
        single = EmbeddedModel(fetch(SMOLLM2), slots=1, context=256)
        assert dict(single.complete(requests)) == dict(model().complete(requests))
        assert single.name == model().name


class TestOtherModels:
    def test_a_base_model_continues_the_prompt_as_transformers_does(self, tmp_path: Path) -> None:
        base = EmbeddedModel(made_gguf.make(tmp_path / "base.gguf"), slots=2, context=128)
        stories = [
            Request(text, temperature=0.0, max_tokens=24) for text in ("One day, Lily met a", "The dog was sad.")
        ]
        done = dict(base.complete(stories))
        theirs = small_model.answers(*stories)
        assert [done[index].text for index in range(2)] == [answer.text for answer in theirs]
        assert [done[index].prompt_tokens for index in range(2)] == [answer.prompt_tokens for answer in theirs]

    def test_a_template_that_is_not_chatml(self, tmp_path: Path) -> None:
        told = EmbeddedModel(made_gguf.make(tmp_path / "told.gguf", made_gguf.LLAMA), slots=1, context=128)
        request = Request("Tell a story.", temperature=0.0, max_tokens=12)
        asked = {"messages": [{"role": "user", "content": request.prompt}], "temperature": 0.0, "max_tokens": 12}
        theirs = told._engines[0].handle_chat_completions({**asked, **told._sampling})  # by the engine's own renderer
        ((_, ours),) = told.complete([request])
        assert ours.text.strip() == theirs["choices"][0]["message"]["content"].strip()
        assert ours.prompt_tokens == theirs["usage"]["prompt_tokens"]

    def test_another_file_is_another_name(self, tmp_path: Path) -> None:
        files = [
            made_gguf.make(tmp_path / f"{number}.gguf", template)
            for number, template in enumerate((None, made_gguf.LLAMA))
        ]
        base, told = (EmbeddedModel(file, slots=1, context=64).name for file in files)
        assert base != told


class TestName:
    def test_it_tells_the_model_the_sampling_and_the_system_prompt(self, tmp_path: Path) -> None:
        assert SMOLLM2.sha256[:12] in model().name
        assert "top_k=400, top_p=0.95, min_p=0.0, repeat_penalty=1.05" in model().name
        other = EmbeddedModel(
            made_gguf.make(tmp_path / "other.gguf"), system="You write.", min_p=0.1, slots=1, context=64
        )
        assert "min_p=0.1" in other.name
        assert "You write." in other.name


class TestDropping:
    def test_an_engine_that_was_never_asked_can_be_dropped_at_once(self, tmp_path: Path) -> None:
        file = made_gguf.make(tmp_path / "some.gguf")
        for _ in range(4):  # the engine itself would now and then wait for ever
            EmbeddedModel(file, slots=1, context=64)


class TestRefusals:
    def test_a_file_that_is_no_model(self, tmp_path: Path) -> None:
        file = tmp_path / "some.gguf"
        file.write_bytes(b"not a model")
        with pytest.raises(InputError, match="is not a complete GGUF file"):
            EmbeddedModel(file)

    def test_a_model_whose_weights_are_cut_off(self, tmp_path: Path) -> None:
        file = made_gguf.make(tmp_path / "some.gguf")
        file.write_bytes(file.read_bytes()[:20_000])
        with pytest.raises(InputError, match=r"cannot load .* with 8 slots of 1024 tokens"):
            EmbeddedModel(file)

    def test_an_engine_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
        with pytest.raises(InputError, match="run `pip install xllamacpp`"):
            EmbeddedModel(fetch(SMOLLM2))


class TestProcess:
    def test_it_stops_when_interrupted_and_writes_nothing_to_the_terminal(self) -> None:
        check_that_it_stops_when_interrupted(EmbeddedModel, seconds=10)
