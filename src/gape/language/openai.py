"""Any model behind an OpenAI-compatible chat-completions service: hosted ones, and vLLM, llama.cpp or Ollama."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gape.core.errors import InputError
from gape.language.http import Again, Endpoint, Job, Refused
from gape.language.request import Completion, Request
from gape.language.spending import Tokens

_TEMPLATE_TOKENS = 128  # tokens that a chat template may add to a prompt, system message included
_LONGEST_TOKEN = 64  # characters: few tokens have more than 16
_AS_JSON = 12  # maximum bytes of a character in JSON
_AROUND = 2**18  # bytes of an answer beside its text, such as the model's reasoning


@dataclass(kw_only=True)
class OpenAIModel(Endpoint):
    """Answers each request once or leaves it out, and never exceeds the caps.

    Temporary faults (rate limits, server errors, broken or silent connections, garbled or empty answers) are retried. A
    refusal by the service costs only that request. A wrong key, an unknown model, or a service that answers nothing
    raises ServiceError. Reaching a cap raises SpendingError, after the requests in flight.

    `options` are further fields for each request, such as top_p. None removes a field, for models that do not accept a
    temperature or a seed.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    limit_field: str = "max_tokens"  # newer OpenAI models need max_completion_tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = sorted({"model", "messages", "n", "stream", "max_tokens", "max_completion_tokens"} & set(self.options))
        if fixed:
            raise InputError(f"options must not contain {', '.join(fixed)}, which each request sets; leave them out")

    @property
    def name(self) -> str:
        """Identifies the model, the address of the service, and the options."""
        options = json.dumps({**self.options, "limit": self.limit_field}, sort_keys=True)
        return f"{self.model} at {self.base_url} with {options}"

    @property
    def can_continue(self) -> bool:
        """Always False: a chat service starts its answers itself."""
        return False

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield the answers as they finish, with `concurrency` requests at a time."""
        return self.post("chat/completions", [self._job(request) for request in requests])

    def _job(self, request: Request) -> Job[Completion]:
        if request.opening:
            raise InputError("a chat service cannot continue an opening; leave it empty if can_continue is False")
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": request.prompt}],
            self.limit_field: request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            **self.options,
        }
        # No common tokenizer makes more tokens than there are bytes.
        most = Tokens(len(request.prompt.encode(errors="replace")) + _TEMPLATE_TOKENS, request.max_tokens)
        longest = request.max_tokens * _LONGEST_TOKEN
        given = {name: value for name, value in body.items() if value is not None}
        job = Job(given, most, _AROUND + _AS_JSON * longest, partial(_read, longest))
        if request.schema is None:
            return job
        answer = {"name": "answer", "strict": True, "schema": json.loads(request.schema)}
        return replace(
            job, body=given | {"response_format": {"type": "json_schema", "json_schema": answer}}, otherwise=job
        )


def _read(longest: int, content: Any, used: Tokens) -> Completion:
    choice = content["choices"][0]
    text, reason = choice["message"].get("content") or "", choice.get("finish_reason")
    if reason == "content_filter" or choice["message"].get("refusal"):
        raise Refused("a refusal", harmless=True)
    if not isinstance(text, str) or not text.strip():
        raise Again("an empty answer")
    if len(text) > longest:
        raise Again("an answer of more tokens than requested")
    return Completion(text, used.prompt, used.completion, finished=reason != "length")
