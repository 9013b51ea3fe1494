import re
import time
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

import made_gguf
from contracts.language_model import LanguageModelContract
from contracts.local_model import LocalModelContract, check_that_it_stops_when_interrupted
from gape.core.errors import InputError, ServiceError
from gape.language.faster import in_fast_format
from gape.language.gguf import read_layout
from gape.language.openvino import OpenVinoModel, _Engine
from gape.language.openvino_engine import Setup
from gape.language.request import Completion, LanguageModel, Request
from gape.language.weights import SMOLLM2, fetch


@cache
def model() -> OpenVinoModel:
    return OpenVinoModel(fetch(SMOLLM2), slots=5, context=256)


def converted() -> Path:
    """The model as the engine reads it."""
    return in_fast_format(fetch(SMOLLM2), SMOLLM2.sha256[:12])


def answers(*requests: Request) -> list[Completion]:
    done = dict(model().complete(requests))
    return [done[place] for place in range(len(requests))]


class TestContract(LanguageModelContract):
    failing: ClassVar[Request | None] = Request("too long for the context " * 200)

    def make(self) -> LanguageModel:
        return model()


class TestLocalModel(LocalModelContract):
    kind = OpenVinoModel
    answers = staticmethod(answers)


class TestAnswers:
    def test_a_question_is_put_by_the_chat_template_of_the_model(self) -> None:
        question = Request("What is the capital of France?", "The capital of France is", temperature=0.0, max_tokens=3)
        (completion,) = answers(question)
        assert completion.text.startswith(" Paris")
        assert completion.prompt_tokens == 37 + 5  # as the other engine counts, and the opening

    def test_an_answer_is_the_same_on_one_engine_and_on_two(self) -> None:
        requests = [Request(f"Tell a story about {i} rivers.", max_tokens=16, seed=i) for i in range(18)]
        together = answers(*requests)
        assert together == [answers(request)[0] for request in requests]
        assert len({completion.text for completion in together}) == len(requests)

    def test_another_seed_is_another_answer(self) -> None:
        requests = [Request("Tell me a story.", max_tokens=10, seed=seed) for seed in (0, 1, 2**32 - 2, 2**63)]
        assert len({completion.text for completion in answers(*requests)}) > 1

    def test_a_lone_surrogate_does_not_stop_it(self) -> None:
        assert answers(Request("Broken \ud800 text.", max_tokens=2))[0].completion_tokens == 2


class TestName:
    def test_it_tells_the_engine_the_model_the_sampling_and_the_system_prompt(self) -> None:
        assert model().name == (
            f"gguf {SMOLLM2.sha256[:12]} as Q8_0 by OpenVINO (top_k=400, top_p=0.95, min_p=0.0, "
            "repetition_penalty=1.05, system=None)"
        )


class TestRefusals:
    def test_a_tokenizer_that_it_does_not_read(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="architecture llama with a tokenizer llama; use embedded instead"):
            OpenVinoModel(made_gguf.make(tmp_path / "some.gguf"))

    def test_weights_in_a_format_that_it_does_not_read(self, tmp_path: Path) -> None:
        file = tmp_path / "some.gguf"
        content = bytearray(converted().read_bytes())
        first = read_layout(converted()).tensors[0]
        at = content.index(first.name.encode()) + len(first.name) + 4 + 8 * len(first.shape)
        assert int.from_bytes(content[at : at + 4], "little") == first.kind
        content[at : at + 4] = (20).to_bytes(4, "little")  # IQ4_NL
        file.write_bytes(content)
        with pytest.raises(InputError, match="has weights in the GGUF formats 20; use embedded instead"):
            OpenVinoModel(file)

    def test_a_model_whose_weights_are_cut_off(self, tmp_path: Path) -> None:
        file = tmp_path / "some.gguf"
        file.write_bytes(converted().read_bytes()[:3_000_000])
        with pytest.raises(InputError, match="is not a complete GGUF file; download it again"):
            OpenVinoModel(file)

    def test_a_library_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gape.language.openvino.find_spec", lambda name: None)
        with pytest.raises(InputError, match=re.escape("pip install 'gape[openvino]', or use embedded instead")):
            OpenVinoModel(fetch(SMOLLM2))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 1 MB, which loads in a tenth of the time."""
    return made_gguf.make_with_letters(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


class TestProcesses:
    def test_they_end_with_the_model(self, tiny: Path) -> None:
        short = OpenVinoModel(tiny, slots=1, context=64)
        (engine,) = short._engines
        assert engine.process.poll() is None
        del short
        assert engine.process.returncode == 0

    def test_an_answer_given_up_does_not_delay_the_next(self) -> None:
        short = [Request("Hello.", max_tokens=1)]
        for _ in model().complete(short + [Request("Write a novel.", max_tokens=200)] * 4):
            break
        begin = time.monotonic()
        assert len(list(model().complete(short))) == 1
        assert time.monotonic() - begin < 20

    def test_one_that_was_killed_is_an_error(self, tiny: Path) -> None:
        killed = OpenVinoModel(tiny, slots=1, context=1000)
        novels = [Request("Write a novel.", max_tokens=900)] * 8
        answers = killed.complete([Request("Hello.", max_tokens=1), *novels])
        next(answers)
        killed._engines[0].process.kill()
        with pytest.raises(ServiceError, match="a process of OpenVINO ended"):
            list(answers)
        # The next call starts another process, as it does for one that ended while nobody asked.
        hello = [Request("Hello.", max_tokens=3)]
        (again,) = killed.complete(hello)
        killed._engines[0].process.kill()
        killed._engines[0].process.wait()
        assert list(killed.complete(hello)) == [again]
        assert len(killed._engines) == 1

    def test_one_that_was_killed_while_it_loads_leaves_none_behind(
        self, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = OpenVinoModel(tiny, slots=1, context=64)
        (first,) = here._engines
        monkeypatch.setattr("gape.language.openvino.cores", lambda: 3)
        start, others = _Engine.started, []

        def started(setup: Setup) -> _Engine:
            others.append(start(setup))
            if len(others) == 2:
                others[-1].process.kill()
            return others[-1]

        monkeypatch.setattr(_Engine, "started", started)
        hello = [Request("Hello.", max_tokens=1, seed=seed) for seed in range(17)]
        with pytest.raises(InputError, match="its process ended"):
            list(here.complete(hello))
        assert here._engines == [first]
        assert [other.process.poll() is None for other in others] == [False, False]
        assert [index for index, _ in here.complete(hello[:1])] == [0]

    @pytest.mark.slow
    def test_it_stops_when_interrupted_and_writes_nothing_to_the_terminal(self) -> None:
        check_that_it_stops_when_interrupted(OpenVinoModel, seconds=20)
