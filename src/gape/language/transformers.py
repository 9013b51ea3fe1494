"""Any causal language model of the Hugging Face hub, run by transformers on the CPU or GPU of this machine."""

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gape._support.memory import Pressure, refuse_full
from gape._support.silence import hub_unused_for
from gape.core.errors import InputError, in_one_line
from gape.language.gguf import read_header
from gape.language.gpu.decoding import Batch
from gape.language.gpu.sampling import Sampling
from gape.language.gpu.slots import Slots, longest_text, slots_that_fit
from gape.language.gpu.writer import Writer
from gape.language.request import MIN_P, REPEAT_PENALTY, TOP_K, TOP_P, Completion, Request
from gape.language.row import Ends, Row, ends_sentence

# A CPU gains little from more. An H200 writes as fast with 2,048 slots as with 4,096, in half the memory.
_BATCHES = {"cpu": 32, "cuda": 2048}
_BURST = 64  # answers that a GPU writes in milliseconds
_CACHED = 2**12  # prompts in their template, and decoded tokens
_SAMPLED = 1024  # values of each tensor that identify a model
# Variables of chat templates: no thinking, which would use up the tokens, and a fixed date instead of today's.
_TEMPLATE = {"enable_thinking": False, "date_string": "26 Jul 2024"}


class TransformersModel:
    """A causal language model from a folder or from the hub. Prompts and answers stay on this machine.

    An answer depends only on its request, up to rounding: padding is masked and not counted in positions, and each
    request has its own random numbers, one for each token. Rounding differs between batches. In float32 it hardly ever
    changes a token; in bfloat16, on a GPU, it changes one now and then, and those after it. Unless memory runs short,
    batches depend only on the requests, so the same list gets the same answers on the same machine.
    """

    can_continue = True

    def __init__(
        self,
        model: str | Path,
        *,
        system: str = "",
        device: str | None = None,
        dtype: str | None = None,
        batch: int | None = None,
        top_k: int = TOP_K,
        top_p: float = TOP_P,
        min_p: float = MIN_P,
        repeat_penalty: float = REPEAT_PENALTY,
    ) -> None:
        """Load `model`: a folder, a GGUF file (which needs the packages gguf and accelerate) or a name on the hub.

        It is loaded on `device`, by default a CUDA GPU if there is one, in `dtype`, by default bfloat16 there and
        float32 elsewhere. `batch` answers are written at once, fewer if memory is short. If the tokenizer has a chat
        template, the prompt is the user's turn, after a `system` turn unless that is empty. Otherwise the prompt is a
        line of text that the answer follows, up to the next empty line. Sampling first makes tokens among the last 64
        less likely by `repeat_penalty`. Before the temperature is applied, it keeps the `top_k` likeliest tokens (0:
        all), of these the `top_p` of the probability mass, and of these the tokens with at least `min_p` times the
        largest probability.
        """
        if (batch is not None and batch < 1) or top_k < 0 or not 0 < top_p <= 1 or not 0 <= min_p <= 1:
            raise InputError(
                "batch must be at least 1, top_k at least 0, top_p above 0 and up to 1, min_p from 0 to 1, "
                f"got {batch}, {top_k}, {top_p} and {min_p}; leave them out for the defaults"
            )
        if not 1 <= repeat_penalty <= 2:
            raise InputError(f"repeat_penalty must be between 1 and 2, got {repeat_penalty}; use 1 for no penalty")
        try:
            import torch  # noqa: PLC0415  (heavy, and in an extra)
            import transformers  # noqa: PLC0415  (likewise)
        except ImportError as error:
            raise InputError(
                f"the generator hf needs torch and transformers ({error}); run `pip install 'gape[hf]'`"
            ) from error
        self._torch, self._transformers = torch, transformers
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        kind = self._device.partition(":")[0]
        dtype = dtype or ("bfloat16" if kind == "cuda" else "float32")
        self._batch = batch or _BATCHES.get(kind, 32)
        self._system, self._sampling = system, Sampling(top_k, top_p, min_p, repeat_penalty)
        # Variations of all texts use a few prompts, and follow a few tokens.
        self._turns, self._decode_one = lru_cache(_CACHED)(self._template), lru_cache(_CACHED)(self._decode)
        folder, file = (Path(model).parent, Path(model).name) if str(model).endswith(".gguf") else (model, None)
        try:
            with hub_unused_for(model) as local:
                how = {"gguf_file": file, "local_files_only": local}
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
                if file and hasattr(transformers, "GgufConfig"):
                    # Slots cannot read packed weights, which newer versions keep where the package kernels is.
                    how["quantization_config"] = transformers.GgufConfig(dequantize=True)
                loader = transformers.AutoModelForCausalLM
                self._model = loader.from_pretrained(folder, dtype=dtype, **how).to(self._device).eval()
            self._chat(Request("Hello."))
        except Exception as error:  # any error of the libraries, the files or the template
            refuse_full(error, model)
            raise InputError(
                f"transformers cannot load {model} in {dtype} on {self._device} ({in_one_line(error)}); give a folder, "
                "a .gguf file or the hub name of a causal language model, and a system prompt only if it accepts one"
            ) from error
        accepted = set(inspect.signature(self._model.forward).parameters)
        self._side_by_side = Batch(torch, transformers, self._model, accepted, self._sampling)
        self._slots_up_to = longest_text(transformers, self._model, accepted) if kind == "cuda" else 0  # tokens
        self._writer = Writer(self._make_slots, self._batch)
        self._context = getattr(self._model.config.get_text_config(), "max_position_embeddings", None) or np.inf
        ends = self._model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        vocabulary = self._tokenizer.get_vocab().items()
        # A base model answers with one paragraph.
        paragraphs = [] if self._tokenizer.chat_template else [n for token, n in vocabulary if _is_empty_line(token)]
        self._first = [self._tokenizer.bos_token_id] if file and read_header(Path(model)).adds_first_token else []
        self._ends = Ends(
            frozenset(
                {self._tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends]), *paragraphs} - {None}
            ),
            frozenset(number for token, number in vocabulary if ends_sentence(token)),
        )
        known = f"{self._model.config.model_type} {weights_digest(self._model, self._tokenizer.chat_template or '')}"
        self._name = f"{known} ({dtype}, {top_k=}, {top_p=}, {min_p=}, {repeat_penalty=}, {system=})"

    @property
    def name(self) -> str:
        """Identifies the weights, the chat template, the precision, the sampling and the system prompt."""
        return self._name

    @property
    def burst(self) -> int:
        """Number of answers that may be stored together, see `burst_of`."""
        return _BURST if self._slots_up_to else 1

    @property
    def concurrent(self) -> bool:
        """Whether several threads may ask at once, and answers of all are then written side by side."""
        return self._slots_up_to > 0

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding each when it is done. Those that do not fit into the context are left out."""
        # Similar requests are batched together. The longest come first, so that a lack of memory shows at once.
        rows = sorted(self._rows(requests), key=lambda row: (row.limit, len(row.prompt)), reverse=True)
        try:
            in_slots = [row for row in rows if len(row.prompt) + row.limit <= self._slots_up_to]
            in_batches = [row for row in rows if len(row.prompt) + row.limit > self._slots_up_to]
            for row in chain(self._writer.write(in_slots), self._in_batches(in_batches)):
                yield row.index, self._read(row)
        except FloatingPointError as error:
            raise InputError(
                f"{self._name} computes values that are not finite; load it in bfloat16 or float32"
            ) from error

    def _in_batches(self, rows: list[Row]) -> Iterator[Row]:
        pressure = Pressure(self._batch, "an answer of the model")
        while rows:
            try:
                yield from self._side_by_side.write(rows[: pressure.batch], self._ends)
            except RuntimeError as error:
                pressure.relieve(error, len(rows))
            rows = [row for row in rows if not row.done]

    def _rows(self, requests: Sequence[Request]) -> Iterator[Row]:
        # Tokenizers refuse lone surrogates, which broken files contain.
        texts = [self._chat(request).encode(errors="replace").decode() for request in requests]
        special = not self._tokenizer.chat_template  # a template has its own special tokens
        prompts = self._tokenizer(texts, add_special_tokens=special, verbose=False)["input_ids"] if texts else []
        for index, (request, tokens) in enumerate(zip(requests, prompts, strict=True)):
            # Tokenizers that transformers makes of a GGUF file forget the token that starts every text.
            prompt = tokens if tokens[:1] == self._first else self._first + tokens
            limit = int(min(request.max_tokens, self._context - len(prompt)))
            if prompt and limit > 0:
                yield Row(index, request, prompt, limit)

    def _chat(self, request: Request) -> str:
        """Apply the model's chat template to one turn of the user, and append the opening of the answer."""
        opening = request.opening.rstrip(" ")  # tokens start with their space, so models continue badly after one
        if not self._tokenizer.chat_template:
            return "\n".join([self._system, request.prompt, opening] if self._system else [request.prompt, opening])
        return f"{self._turns(request.prompt)}{opening}"

    def _template(self, prompt: str) -> str:
        turns = [{"role": "system", "content": self._system}] if self._system else []
        turns.append({"role": "user", "content": prompt})
        chat: str = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **_TEMPLATE)
        return chat

    def _read(self, row: Row) -> Completion:
        finished = row.tokens[-1] in self._ends.of_answers
        # Decoded after the last token of the prompt: alone, many tokenizers drop an answer's first space.
        last = row.prompt[-1]
        both = self._decode((last, *(row.tokens[:-1] if finished else row.tokens)))
        text = both.removeprefix(self._decode_one((last,)))
        if row.request.opening.endswith(" "):
            text = text.removeprefix(" ")
        return Completion(text, len(row.prompt), len(row.tokens), finished)

    def _decode(self, tokens: tuple[int, ...]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _make_slots(self, wanted: int, room: int) -> Slots:
        """Make slots of `room` tokens: as many as wanted, or as fit into the memory."""
        count = slots_that_fit(self._model, wanted, room)
        return Slots(self._torch, self._transformers, self._model, self._sampling, self._ends, count, room)


def _is_empty_line(token: str) -> bool:
    """Whether a token of a vocabulary consists of two or more line breaks, which byte-level vocabularies write as Ċ."""
    return len(token) > 1 and not token.strip("\nĊ")


def weights_digest(model: Any, also: str = "") -> str:
    """Identify a model by some values of each of its tensors: the same on any machine, different after any training."""
    digest = hashlib.sha256(also.encode())
    for name, tensor in model.state_dict().items():
        values = tensor.flatten()[:: max(1, tensor.numel() // _SAMPLED)].float().cpu().numpy()
        digest.update(f"{name} {tuple(tensor.shape)} ".encode() + values.tobytes())
    return digest.hexdigest()[:12]
