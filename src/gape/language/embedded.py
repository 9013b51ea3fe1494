"""A small language model inside this process, on the CPU."""

import hashlib
import secrets
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from gape._support.parallel import cores
from gape.core.errors import InputError
from gape.language.chat import chat_of
from gape.language.faster import in_fast_format
from gape.language.gguf import read_header
from gape.language.request import MIN_P, REPEAT_PENALTY, TOP_K, TOP_P, Completion, Request
from gape.language.row import ends_sentence

_SEEDS = 2**32 - 1  # the engine's seeds; the next one means "draw one"
_MOST_ENGINES = 8
_TOKENS_AT_ONCE = 128  # prompt tokens per step of an engine; its working memory grows with them


class EmbeddedModel:
    """A GGUF model, such as SmolLM2, run by llama.cpp. Nothing leaves this machine.

    An instruction-tuned model is asked by the chat template in its file. A base model, whose file has none, continues a
    text that begins with the prompt, up to the next empty line.

    The same request gets the same text up to rounding. Rounding can depend on the other requests answered at the same
    time, and now and then changes a token and those after it. Cached prompts are not reused, because that would make
    such changes more frequent.
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
        slots: int = 8,
        context: int = 1024,
    ) -> None:
        """Load the model in `file`, for instance `fetch(SMOLLM2)`. Without `system`, its template decides on that turn.

        Sampling first makes tokens among the last 64 less likely by `repeat_penalty`. Before the temperature is
        applied, it keeps the `top_k` likeliest tokens, of these the `top_p` of the probability mass, and of these the
        tokens with at least `min_p` times the largest probability. Each core writes `slots` answers at once; prompt and
        answer share `context` tokens.
        """
        if not file.is_file():
            raise InputError(f"there is no model file {file}; fetch one with `gape models fetch`, or choose another")
        if slots < 1 or context < 1:
            raise InputError(f"slots and context must be at least 1, got {slots} and {context}; use 8 and 1024")
        self._chat, self._slots = chat_of(read_header(file), system), slots
        self._sampling = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "repeat_penalty": repeat_penalty}
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()[:12]
        settings = ", ".join(f"{key}={value}" for key, value in self._sampling.items())
        fast = in_fast_format(file, digest)
        weights = digest if fast == file else f"{digest} as Q8_0"
        self._name = f"gguf {weights} ({settings}, system={system!r})"
        self._engines = _start(fast, slots, context)
        self._free: SimpleQueue[Any] = SimpleQueue()  # contains an engine once for each of its idle slots
        for engine in self._engines * slots:
            self._free.put(engine)

    @property
    def name(self) -> str:
        """Identifies the model's content, the sampling and the system prompt."""
        return self._name

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding each when it is done. Those that do not fit into the context are left out."""
        stop = threading.Event()
        pool = ThreadPoolExecutor(len(self._engines) * self._slots, thread_name_prefix="answering")
        indices = {pool.submit(self._answer, request, stop): index for index, request in enumerate(requests)}
        try:
            for done in as_completed(indices):
                index, completion = indices.pop(done), done.result()
                if completion is not None:
                    yield index, completion
        finally:  # done, interrupted or closed by the caller: unfinished answers stop at their next token
            stop.set()
            pool.shutdown(cancel_futures=True)

    def _answer(self, request: Request, stop: threading.Event) -> Completion | None:
        """Write one answer, token by token so that it can be stopped; None if it was stopped or failed."""
        opening = request.opening.rstrip(" ")  # tokens start with their space, so models continue badly after one
        enough = request.max_tokens if request.enough is None else request.enough
        pieces: list[str] = []
        last: dict[str, Any] = {}
        complete = False  # long enough, and at the end of a sentence

        def take(piece: dict[str, Any]) -> bool:
            nonlocal last, complete
            last = piece
            pieces.extend(choice["text"] for choice in piece.get("choices", ()))
            complete = written(piece) >= enough and ends_sentence("".join(pieces[-2:]))
            return complete or stop.is_set()

        parameters = {
            "prompt": self._chat.around(request.prompt) + opening,
            "stop": list(self._chat.stops),
            "n_predict": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed % _SEEDS,
            "cache_prompt": False,  # a prompt continued from another's cache differs in its last bits
            "stream": True,
            "timings_per_token": True,  # they contain the number of tokens
            **self._sampling,
        }
        engine = self._free.get()
        try:
            engine.handle_completions(parameters, take)
        finally:
            self._free.put(engine)
        if stop.is_set() or not (complete or "usage" in last):
            return None
        text = "".join(pieces)
        return Completion(
            text.removeprefix(" ") if opening != request.opening else text,
            prompt_tokens=last["timings"]["prompt_n"],
            completion_tokens=written(last),
            finished=last["choices"][0]["finish_reason"] == "stop",
        )


def written(piece: dict[str, Any]) -> int:
    """Return the number of tokens written so far."""
    return int(piece.get("timings", {}).get("predicted_n", 0))


def _awake(engine: Any) -> Any:
    """Wait for the engine's first answer: an engine that is dropped while it starts up would hang."""
    engine.handle_completions({"prompt": "Hello", "n_predict": 1})
    return engine


def _start(file: Path, slots: int, context: int) -> list[Any]:  # the engine has no annotations
    """Start engines of one thread each, one per core, up to a number that fits into memory.

    With one engine on all cores, threads would spin and wait for each other after every operation. On a machine shared
    with other programs that was five times slower.
    """
    try:
        import xllamacpp  # noqa: PLC0415  (heavy)
    except ImportError as error:
        raise InputError(
            f"the engine of embedded models cannot be loaded ({error}); run `pip install xllamacpp`, and install any "
            "missing system library (libgomp.so.1 is in the package libgomp1 of Debian and Ubuntu)"
        ) from error
    available = cores()
    engines = min(available, _MOST_ENGINES)
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_parallel, params.n_ctx = slots, slots * context
    params.n_batch = params.n_ubatch = _TOKENS_AT_ONCE
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads, threads.poll = available // engines, 0
    params.verbosity = -1
    params.cache_prompt, params.cache_ram_mib = False, 0
    # Each engine listens on a local port; nobody else may use it, or see what is being written.
    params.api_keys, params.endpoint_slots, params.ui = [secrets.token_hex(32)], False, False
    try:
        return [_awake(xllamacpp.Server(params)) for _ in range(engines)]
    except RuntimeError as error:
        raise InputError(
            f"the engine cannot load {file} with {slots} slots of {context} tokens ({error}); give a GGUF file, or "
            "use fewer slots if memory is short"
        ) from error
