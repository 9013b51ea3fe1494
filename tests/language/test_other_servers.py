"""The client against vLLM and Ollama: their answers and errors, sent over HTTP.

Those of vLLM were recorded from version 0.32.0 on a CPU, those of Ollama have the form that it documents.
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import pytest

from gape.core.errors import ServiceError
from gape.language.openai import OpenAIModel
from gape.language.request import Completion, Request

Reply: TypeAlias = tuple[int, Any]  # status and JSON
Client: TypeAlias = Callable[..., OpenAIModel]


def vllm(text: str | None, reason: str, **message: Any) -> Reply:
    empty = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text} | empty | message,
        "logprobs": None,
        "finish_reason": reason,
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }
    details = dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"))
    usage = {"prompt_tokens": 11, "total_tokens": 18, "completion_tokens": 7} | details
    known = {"id": "chatcmpl-ba25b01cc477b4bf", "object": "chat.completion", "created": 1, "model": "tiny"}
    system = {"service_tier": None, "system_fingerprint": "vllm-0.32.0-c01aaa04"}
    others = dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params", "metrics"))
    return 200, known | {"choices": [choice], "usage": usage} | system | others


def ollama(text: str, reason: str, prompt_tokens: int = 11, **message: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": text} | message, "finish_reason": reason}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 7, "total_tokens": prompt_tokens + 7}
    known = {"id": "chatcmpl-849", "object": "chat.completion", "created": 1, "model": "tiny"}
    return 200, known | {"system_fingerprint": "fp_ollama", "choices": [choice], "usage": usage}


def vllm_error(status: int, kind: str, message: str, param: str | None = None) -> Reply:
    return status, {"error": {"message": message, "type": kind, "param": param, "code": status}}


def ollama_error(status: int, message: str) -> Reply:
    return status, {"error": {"message": message, "type": "api_error", "param": None, "code": None}}


TOO_LONG = vllm_error(
    400,
    "BadRequestError",
    "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens, which "
    "exceeds this limit even without any output tokens. Prompt: SECRET (parameter=input_tokens, value=513)",
    "input_tokens",
)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a server that gives these replies, one to each request."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    replies: list[Reply] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            self.rfile.read(int(self.headers["Content-Length"]))
            status, content = replies.pop(0)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  (the name of the base class)
            pass

    def client(*given: Reply, **settings: Any) -> OpenAIModel:
        replies.extend(given)
        address = f"http://127.0.0.1:{server.server_port}/v1"
        return OpenAIModel(**{"model": "tiny", "base_url": address, "concurrency": 1, "backoff": 0.01, **settings})

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield client
        server.shutdown()
        thread.join()
    assert replies == []  # no request too few


def texts(model: OpenAIModel, count: int) -> dict[int, Completion]:
    return dict(model.complete([Request(f"prompt {i}", seed=i) for i in range(count)]))


@pytest.mark.parametrize("service", [vllm, ollama])
def test_an_answer_and_how_it_ended(answering: Client, service: Callable[..., Reply]) -> None:
    model = answering(service("A whole text.", "stop"), service("A text that was", "length"))
    assert texts(model, 2) == {
        0: Completion("A whole text.", 11, 7, finished=True),
        1: Completion("A text that was", 11, 7, finished=False),
    }
    assert (model.usage.prompt_tokens, model.usage.completion_tokens, model.usage.retries) == (22, 14, 0)


def test_a_prompt_in_the_cache_of_ollama_counts_no_tokens(answering: Client) -> None:
    assert texts(answering(ollama("Again.", "stop", prompt_tokens=0)), 1)[0].prompt_tokens == 0


@pytest.mark.parametrize(
    "unfinished",
    [vllm(None, "length", reasoning="Let me think"), ollama("", "length", reasoning="Let me think")],
    ids=["vllm", "ollama"],
)
def test_a_model_that_only_thought_is_asked_again(answering: Client, unfinished: Reply) -> None:
    model = answering(unfinished, ollama("A text.", "stop"))
    assert texts(model, 1)[0].text == "A text."
    assert model.usage.retries == 1


@pytest.mark.parametrize(
    "refusal",
    [
        TOO_LONG,
        (400, {"object": "error"} | TOO_LONG[1]["error"]),  # earlier versions
        ollama_error(400, "invalid options: SECRET"),
    ],
    ids=["vllm", "earlier vllm", "ollama"],
)
def test_a_prompt_that_is_refused_costs_only_itself(answering: Client, refusal: Reply) -> None:
    model = answering(vllm("One.", "stop"), refusal, vllm("Three.", "stop"))
    assert set(texts(model, 3)) == {0, 2}


def test_a_service_that_refuses_all_prompts_is_an_error_without_their_content(answering: Client) -> None:
    model = answering(*[TOO_LONG] * 2, patience=2)
    with pytest.raises(ServiceError, match=r"2 requests to .* failed in a row, the last with status 400;") as error:
        texts(model, 2)
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            vllm_error(404, "NotFoundError", "The model `tiny` does not exist. Valid aliases: other.", "model"),
            "has no model 'tiny'",
        ),
        (ollama_error(404, 'model "tiny" not found, try pulling it first'), "has no model 'tiny'"),
        ((401, {"error": "Unauthorized"}), "refused the key with status 401; .* is missing"),
    ],
    ids=["vllm", "ollama", "vllm with a key"],
)
def test_what_no_request_can_pass_ends_at_once(answering: Client, reply: Reply, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        texts(answering(reply), 1)


@pytest.mark.parametrize(
    "busy",
    [
        vllm_error(503, "ServiceUnavailableError", "The engine is not ready."),
        ollama_error(503, "server busy, please try again.  maximum pending requests exceeded"),
        ollama_error(500, "llama runner process has terminated: exit status 2"),
    ],
)
def test_a_service_that_is_busy_or_restarting_is_asked_again(answering: Client, busy: Reply) -> None:
    model = answering(busy, busy, ollama("At last.", "stop"))
    assert texts(model, 1)[0].text == "At last."
    assert model.usage.retries == 2
