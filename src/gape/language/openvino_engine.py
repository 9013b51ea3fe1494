"""The process of one engine of `OpenVinoModel`: a copy of the model on one core.

The library holds the lock of the interpreter while it computes, and with several threads its sums depend on which
answers are written at the same time. So each core has a process of its own. It gets requests and sends answers through
a connection, and ends when the other side is closed.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gape._support.silence import without_telemetry
from gape.core.errors import in_one_line
from gape.language.chat import Chat
from gape.language.request import Completion, Request
from gape.language.row import ends_sentence

_SEEDS = 2**32
_TOKENS_AT_ONCE = 256  # of prompts and answers together in a step
# One thread, and activations in groups of 32 with 8 bits, as in llama.cpp. With two threads or bfloat16 an answer
# depends on the others.
_PROPERTIES = {
    "INFERENCE_NUM_THREADS": 1,
    "ENABLE_CPU_PINNING": False,  # or all engines share the first core
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32,
}
# What ends an answer in one model or another, beside the token that its file names.
_ENDS = (b"<|im_end|>", b"<|endoftext|>", b"<|eot_id|>", b"<|end_of_text|>", b"</s>")


@dataclass(frozen=True)
class Setup:
    """What an engine is told before its first request."""

    file: Path
    chat: Chat
    sampling: Mapping[str, float]
    slots: int
    context: int


@dataclass(eq=False)
class _Answer:
    """An answer in progress."""

    index: int
    request: Request
    prompt_tokens: int
    handle: Any
    tokens: list[int] = field(default_factory=list)


class _Engine:
    """A model: requests join and leave a common batch after each token."""

    def __init__(self, setup: Setup) -> None:
        without_telemetry("openvino_telemetry")
        import openvino_genai  # noqa: PLC0415  (heavy, in an extra)

        self._library, self._setup = openvino_genai, setup
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens, scheduler.max_num_seqs = _TOKENS_AT_ONCE, setup.slots
        scheduler.cache_size, scheduler.enable_prefix_caching = 0, False  # memory as needed
        self._words = openvino_genai.Tokenizer(setup.file)
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            setup.file, self._words, scheduler, "CPU", **_PROPERTIES
        )
        vocabulary = {number: text for text, number in self._words.get_vocab().items()}
        self._texts = {number: text.decode(errors="replace") for number, text in vocabulary.items()}
        named = {number for number, text in vocabulary.items() if text in _ENDS}
        self._ends = named | {self._words.get_eos_token_id()}
        self._asked = 0  # requests need numbers
        self.writing: list[_Answer] = []

    def begin(self, index: int, request: Request) -> bool:
        """Take a request into the batch; False if it does not fit into the context."""
        opening = request.opening.rstrip(" ")  # tokens start with their space, so models continue badly after one
        # The tokenizer refuses lone surrogates, which broken files contain.
        text = f"{self._setup.chat.around(request.prompt)}{opening}".encode(errors="replace").decode()
        tokens = self._words.encode(text, add_special_tokens=False).input_ids
        length = tokens.shape[1]
        limit = min(request.max_tokens, self._setup.context - length)
        if limit < 1:
            return False
        self._asked += 1
        handle = self._pipeline.add_request(self._asked, tokens, self._settings(request, limit))
        self.writing.append(_Answer(index, request, length, handle))
        return True

    def step(self) -> list[tuple[int, Completion]]:
        """Write one token of each answer, and return the answers that are done."""
        self._pipeline.step()
        done = [answer for answer in self.writing if self._is_done(answer)]
        self.writing = [answer for answer in self.writing if answer not in done]
        return [(answer.index, self._read(answer)) for answer in done]

    def cancel(self) -> None:
        """Give up all answers in progress."""
        for answer in self.writing:
            answer.handle.cancel()
        self.writing.clear()
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    def _settings(self, request: Request, limit: int) -> Any:
        settings, sampling = self._library.GenerationConfig(), self._setup.sampling
        settings.max_new_tokens, settings.do_sample = limit, request.temperature > 0
        settings.repetition_penalty = sampling["repetition_penalty"]
        if settings.do_sample:
            settings.temperature, settings.rng_seed = request.temperature, request.seed % _SEEDS
            settings.top_k, settings.top_p = int(sampling["top_k"]), sampling["top_p"]
            settings.min_p = sampling["min_p"]
        settings.stop_token_ids = self._ends
        return settings

    def _is_done(self, answer: _Answer) -> bool:
        """Take the tokens of the last step, and stop an answer that is long enough."""
        if answer.handle.can_read():
            for output in answer.handle.read().values():
                answer.tokens += output.generated_ids
        if answer.handle.get_status() != self._library.GenerationStatus.RUNNING:
            return True
        enough = answer.request.enough
        last = "".join(self._texts.get(token, "") for token in answer.tokens[-2:])
        complete = enough is not None and len(answer.tokens) >= enough and ends_sentence(last)
        if complete or any(stop in self._text(answer.tokens[-4:]) for stop in self._setup.chat.stops):
            answer.handle.stop()
            return True
        return False

    def _read(self, answer: _Answer) -> Completion:
        ended = bool(answer.tokens) and answer.tokens[-1] in self._ends
        whole = text = self._text(answer.tokens[:-1] if ended else answer.tokens)
        for stop in self._setup.chat.stops:
            text = text.partition(stop)[0]
        finished = ended or text != whole
        if answer.request.opening.endswith(" "):
            text = text.removeprefix(" ")
        return Completion(text, answer.prompt_tokens, len(answer.tokens), finished)

    def _text(self, tokens: list[int]) -> str:
        text: str = self._words.decode(tokens) if tokens else ""
        return text


def serve(descriptor: int) -> None:
    """Load the model of the setup that arrives first, say what went wrong or nothing, and answer requests.

    Each (index, request) is answered by (index, completion), with None for a request that does not fit into the
    context. None cancels the answers in progress, and is sent back.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side decides
    with Connection(descriptor) as other:
        try:
            engine = _Engine(other.recv())
        except (ImportError, RuntimeError) as error:
            other.send(in_one_line(error)[:200])
            return
        other.send("")
        try:
            while True:
                _serve_once(engine, other)
        except (EOFError, OSError):
            os._exit(0)  # at once: the other side is gone, and the library may still compute


def _serve_once(engine: _Engine, other: "Connection[Any, Any]") -> None:
    """Take what has arrived, or wait for something if nothing is to be done, and write one token of each answer."""
    while not engine.writing or other.poll():
        order = other.recv()
        if order is None:
            engine.cancel()
            other.send(None)
        elif not engine.begin(*order):
            other.send((order[0], None))
    for answer in engine.step():
        other.send(answer)
