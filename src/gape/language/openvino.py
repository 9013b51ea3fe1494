"""A language model on the CPU of this machine, by an engine whose kernels use AVX-512 and VNNI if present."""

import hashlib
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from gape._support.parallel import cores
from gape.core.errors import InputError, ServiceError
from gape.language.chat import chat_of
from gape.language.faster import in_fast_format
from gape.language.gguf import Header, Tensor, read_header, read_layout
from gape.language.openvino_engine import Setup
from gape.language.request import MIN_P, REPEAT_PENALTY, TOP_K, TOP_P, Completion, Request

_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_TOKENIZER = "gpt2"  # the only kind that the library reads from these files
# By number F32, F16, Q4_0, Q8_0 and Q6_K: the weights and the bytes of a block. The library also reads Q4_1 and Q4_K,
# but changes the weights of Q4_1 so much that SmolLM2 writes worse texts; of Q4_K it is not known.
_FORMATS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 14: (256, 210)}
_MOST_ENGINES = 8
_FEWEST = 8  # requests for which another engine is loaded
_SERVE = "from gape.language.openvino_engine import serve; serve({})"
_PATIENCE = 10.0  # seconds that an engine has to end by itself


class OpenVinoModel:
    """A GGUF model, such as SmolLM2, run by OpenVINO GenAI in a process per core. Nothing leaves this machine.

    The same request gets the same text on the same kind of processor, no matter which others are being answered.
    Prompts are those of `EmbeddedModel`, but the answers differ: the temperature is applied before the likeliest tokens
    are chosen, and the penalty on repetition applies to all tokens of prompt and answer. Calls from several threads
    wait for one another.
    """

    can_continue = True

    def __init__(
        self,
        file: Path,
        *,
        system: str | None = None,
        top_k: int = TOP_K,
        top_p: float = TOP_P,
        min_p: float = MIN_P,
        repeat_penalty: float = REPEAT_PENALTY,
        slots: int = 32,
        context: int = 1024,
    ) -> None:
        """Load the model in `file`. The parameters mean what they mean for `EmbeddedModel`.

        Each core writes up to `slots` answers at once.
        """
        if not file.is_file():
            raise InputError(f"there is no model file {file}; fetch one with `gape models fetch`, or choose another")
        if slots < 1 or context < 1:
            raise InputError(f"slots and context must be at least 1, got {slots} and {context}; use 32 and 1024")
        if find_spec("openvino_genai") is None:
            raise InputError("OpenVINO GenAI is not installed; pip install 'gape[openvino]', or use embedded instead")
        header = read_header(file)
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()[:12]
        fast = in_fast_format(file, digest)  # without Q4_1
        _refuse_unknown(fast, header)
        sampling = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repeat_penalty}
        self._setup = Setup(fast, chat_of(header, system), sampling, slots, context)
        settings = ", ".join(f"{key}={value}" for key, value in sampling.items())
        weights = digest if fast == file else f"{digest} as Q8_0"
        self._name = f"gguf {weights} by OpenVINO ({settings}, system={system!r})"
        self._turn = threading.Lock()
        self._engines: list[_Engine] = []
        weakref.finalize(self, _end, self._engines)
        self._load(1)  # so that a file that cannot be used is refused at once

    @property
    def name(self) -> str:
        """Identifies the model's content, the engine, the sampling and the system prompt."""
        return self._name

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding each when it is done. Those that do not fit into the context are left out."""
        if not requests:
            return
        waiting = deque(enumerate(requests))
        with self._turn:
            engines = self._load(min(cores(), _MOST_ENGINES, -(-len(requests) // _FEWEST)))
            most = min(self._setup.slots, -(-len(requests) // len(engines)))
            try:
                for engine in engines:
                    while waiting and engine.busy < most:
                        engine.ask(*waiting.popleft())
                while busy := {engine.connection: engine for engine in engines if engine.busy}:
                    for ready in wait(list(busy)):
                        engine = busy[ready]  # type: ignore[index]  # one of those given
                        index, completion = engine.take()
                        if waiting:
                            engine.ask(*waiting.popleft())
                        if completion is not None:
                            yield index, completion
            finally:  # done, interrupted or closed by the caller: unfinished answers stop at their next token
                for engine in engines:
                    engine.cancel()

    def _load(self, count: int) -> "list[_Engine]":
        """Return `count` engines, loading those that are missing side by side."""
        new = [_Engine.started(self._setup) for _ in range(len(self._engines), count)]
        self._engines += new
        for engine in new:
            engine.wait_until_loaded(self._setup.file)
        return self._engines[:count]


@dataclass(eq=False)
class _Engine:
    """The process of an engine, and the connection to it."""

    process: subprocess.Popen[bytes]
    connection: "Connection[Any, Any]"
    busy: int = 0  # answers in progress

    @classmethod
    def started(cls, setup: Setup) -> "_Engine":
        """Start a process. It ends when this side of the connection is closed."""
        ours, theirs = Pipe()
        with theirs:
            descriptor = theirs.fileno()
            process = subprocess.Popen(  # noqa: S603  (the user's own interpreter, and a module of this package)
                [sys.executable, "-P", "-c", _SERVE.format(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[descriptor],
            )
        ours.send(setup)
        return cls(process, ours)

    def wait_until_loaded(self, file: Path) -> None:
        """Wait until the model is loaded; raise what went wrong."""
        try:
            error = self.connection.recv()
        except (EOFError, OSError):
            error = "its process ended"
        if error:
            raise InputError(
                f"OpenVINO cannot load {file} ({error}); give another GGUF file of this model, or use embedded instead "
                "of openvino"
            )

    def ask(self, index: int, request: Request) -> None:
        """Send a request."""
        self.busy += 1
        with suppress(OSError):  # `take` says so
            self.connection.send((index, request))

    def take(self) -> tuple[int, Completion | None]:
        """Receive an answer; None in its place if the request did not fit into the context."""
        try:
            answer: tuple[int, Completion | None] = self.connection.recv()
        except (EOFError, OSError) as error:
            self.busy = 0
            raise ServiceError(
                "a process of OpenVINO ended, perhaps because memory was short; resume the run, on fewer cores if it "
                "happens again"
            ) from error
        self.busy -= 1
        return answer

    def cancel(self) -> None:
        """Give up the answers in progress."""
        if self.busy:
            with suppress(EOFError, OSError):
                self.connection.send(None)
                while self.connection.recv() is not None:
                    pass
        self.busy = 0


def _end(engines: list[_Engine]) -> None:
    """End the processes."""
    for engine in engines:
        engine.connection.close()
    for engine in engines:
        try:
            engine.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            engine.process.kill()
            engine.process.wait()


def _refuse_unknown(file: Path, header: Header) -> None:
    """Refuse a model that OpenVINO would read wrongly or not at all."""
    layout = read_layout(file)
    unknown = sorted({tensor.kind for tensor in layout.tensors} - set(_FORMATS))
    if header.architecture not in _ARCHITECTURES or header.tokenizer != _TOKENIZER:
        what = f"is of the architecture {header.architecture} with a tokenizer {header.tokenizer}"
    elif unknown:
        what = f"has weights in the GGUF formats {', '.join(map(str, unknown))}"
    elif layout.data + max(map(_length, layout.tensors), default=0) > file.stat().st_size:
        raise InputError(f"{file} is not a complete GGUF file; download it again, or name another")
    else:
        return
    raise InputError(
        f"OpenVINO reads models of the architectures {', '.join(_ARCHITECTURES)} with a tokenizer {_TOKENIZER} and "
        f"weights in the formats F32, F16, Q4_0, Q4_1, Q8_0 and Q6_K, and {file} {what}; use embedded instead"
    )


def _length(tensor: Tensor) -> int:
    """Return where the weights of a tensor end, in bytes after the start of all of them."""
    weights, size = _FORMATS[tensor.kind]
    return tensor.offset + prod(tensor.shape) // weights * size
