"""The client of services against llama.cpp's own server, which the engine of the embedded model brings along."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import made_gguf
from gape.core.errors import ServiceError
from gape.language.openai import OpenAIModel
from gape.language.request import Request

KEY = "a-key-of-the-test"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import xllamacpp  # noqa: PLC0415  (heavy)

    file: Path = made_gguf.make(tmp_path_factory.mktemp("model") / "stories.gguf", made_gguf.LLAMA)
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(file), {"stories"}
    params.n_parallel, params.n_ctx, params.verbosity = 2, 1024, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.api_keys, params.use_jinja = [KEY], True
    running = xllamacpp.Server(params)
    running.handle_completions({"prompt": "Hello", "n_predict": 1})  # until it is up
    yield f"{running.listening_address}/v1"
    del running  # which stops it


def test_llama_cpp_answers_counts_tokens_and_cuts(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_KEY", KEY)
    model = OpenAIModel(model="stories", base_url=server, key_variable="LLAMA_KEY", prompt_price=1.0)
    requests = [Request(f"Tell a story about {name}.", max_tokens=12, seed=1) for name in ("Tom", "Lily", "a dog")]
    answers = dict(model.complete(requests))
    assert sorted(answers) == [0, 1, 2]
    assert all(answer.completion_tokens == 12 and not answer.finished and answer.text for answer in answers.values())
    assert model.usage.prompt_tokens == sum(answer.prompt_tokens for answer in answers.values()) > 0
    assert model.usage.cost > 0


def test_llama_cpp_refuses_a_wrong_key(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_KEY", "another")
    model = OpenAIModel(model="stories", base_url=server, key_variable="LLAMA_KEY")
    with pytest.raises(ServiceError, match="LLAMA_KEY is wrong"):
        list(model.complete([Request("Tell a story.", max_tokens=4)]))
