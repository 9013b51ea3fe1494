"""Any causal language model of the Hugging Face hub, run by transformers on this machine's processor or GPU."""

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gape.errors import InputError
from gape.language.decoding import make_decoder
from gape.language.request import Completion, Request

_BATCHES = {"cpu": 32, "cuda": 4096}  # a processor gains little by more; a GPU is as fast for a thousand as for one
_COLDEST = 1e-9  # at this temperature the likeliest token has all the probability
_SEEDS = 2**64
_SAMPLED = 1024  # values of each tensor that tell a model from another
# What chat templates may ask for: no thinking, which would use up the tokens, and one date, not that of the day.
_TEMPLATE = {"enable_thinking": False, "date_string": "26 Jul 2024"}


@dataclass
class _Row:
    """A request being answered."""

    place: int
    request: Request
    prompt: list[int]
    limit: int  # tokens that it may write
    tokens: list[int] = field(default_factory=list)
    done: bool = False


class TransformersModel:
    """A causal language model of a folder or of the hub; prompts and answers stay on this machine.

    An answer depends on its request alone, up to rounding: padding is masked and not counted in positions, and every
    request has its own random numbers, one for each token. Rounding does differ between batches. In float32 it hardly
    ever changes a token; in bfloat16, on a GPU, it changes one now and then, and what follows. Batches are made of the
    requests alone while memory lasts, so the same list gets the same answers on the same machine.
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
        top_k: int = 50,
        top_p: float = 0.95,
        min_p: float = 0.02,
    ) -> None:
        """Load `model`: a folder, a GGUF file (which needs the packages gguf and accelerate) or a name on the hub.

        It goes to `device`, by default a CUDA GPU if there is one, in `dtype`, by default bfloat16 there and float32
        elsewhere; `batch` answers are written at once, fewer if memory is short. Where the tokenizer has a chat
        template, the prompt is the user's turn, after a turn of the `system` unless that is empty; where it has none,
        the prompt is a line of text that the answer follows. Before the temperature, sampling keeps the `top_k`
        likeliest tokens (0: all), of these the `top_p` of the probability, and of these what has at least `min_p` of
        the likeliest one's.
        """
        if (batch is not None and batch < 1) or top_k < 0 or not 0 < top_p <= 1 or not 0 <= min_p <= 1:
            raise InputError(
                "batch must be at least 1, top_k at least 0, top_p above 0 and up to 1, min_p from 0 to 1, "
                f"got {batch}, {top_k}, {top_p} and {min_p}"
            )
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
        self._system, self._top_k, self._top_p, self._min_p = system, top_k, top_p, min_p
        folder, file = (Path(model).parent, Path(model).name) if str(model).endswith(".gguf") else (model, None)
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
            loader = transformers.AutoModelForCausalLM
            self._model = loader.from_pretrained(folder, gguf_file=file, dtype=dtype).to(self._device).eval()
            self._chat(Request("Hello."))
        except Exception as error:  # whatever the libraries, the files and the template raise
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise InputError(
                f"transformers cannot load {model} in {dtype} on {self._device} ({reason}); name a folder, a .gguf "
                "file or a model of the hub that is a causal language model, and a system prompt only if it takes one"
            ) from error
        self._accepted = set(inspect.signature(self._model.forward).parameters)
        self._context = getattr(self._model.config.get_text_config(), "max_position_embeddings", None) or np.inf
        ends = self._model.generation_config.eos_token_id
        self._ends = {self._tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        known = f"{self._model.config.model_type} {weights_digest(self._model, self._tokenizer.chat_template or '')}"
        self._name = f"{known} ({dtype}, {top_k=}, {top_p=}, {min_p=}, {system=})"

    @property
    def name(self) -> str:
        """The model by its weights and its chat template, the precision, the sampling and the system prompt."""
        return self._name

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Answer the requests, yielding each as it is done; one that leaves no room in the context is left out."""
        # Alike ones go together. The longest come first: if memory is short, that shows at once.
        rows = sorted(self._rows(requests), key=lambda row: (row.limit, len(row.prompt)), reverse=True)
        while rows:
            try:
                for row in self._write(rows[: self._batch]):
                    yield row.place, self._read(row)
            except self._torch.OutOfMemoryError:
                if self._batch == 1:
                    raise
                self._batch = max(1, min(self._batch, len(rows)) // 2)
            rows = [row for row in rows if not row.done]

    def _rows(self, requests: Sequence[Request]) -> Iterator[_Row]:
        # Half a surrogate pair, which broken files contain, is no character that the tokenizer would take.
        texts = [self._chat(request).encode(errors="replace").decode() for request in requests]
        special = not self._tokenizer.chat_template  # which has its own
        prompts = self._tokenizer(texts, add_special_tokens=special, verbose=False)["input_ids"] if texts else []
        for place, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
            limit = int(min(request.max_tokens, self._context - len(prompt)))
            if prompt and limit > 0:
                yield _Row(place, request, prompt, limit)

    def _chat(self, request: Request) -> str:
        """The model's own chat template for one turn of the user, and what the answer begins with."""
        opening = request.opening.rstrip(" ")  # tokens begin with their space: after one, the model is at a loss
        if not self._tokenizer.chat_template:
            return "\n".join([self._system, request.prompt, opening] if self._system else [request.prompt, opening])
        turns = [{"role": "system", "content": self._system}] if self._system else []
        turns.append({"role": "user", "content": request.prompt})
        chat = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **_TEMPLATE)
        return f"{chat}{opening}"

    def _read(self, row: _Row) -> Completion:
        finished = row.tokens[-1] in self._ends
        # Decoded behind the last token of the prompt: by itself, many a tokenizer drops an answer's first space.
        before, both = (
            self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            for ids in (row.prompt[-1:], row.prompt[-1:] + (row.tokens[:-1] if finished else row.tokens))
        )
        text = both.removeprefix(before)
        if row.request.opening.endswith(" "):
            text = text.removeprefix(" ")
        return Completion(text, len(row.prompt), len(row.tokens), finished)

    def _write(self, rows: list[_Row]) -> Iterator[_Row]:
        """Write the answers of a batch side by side, yielding a row, and making room, as soon as it is done."""
        torch = self._torch
        width, steps = max(len(row.prompt) for row in rows), max(row.limit for row in rows)
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        draws = torch.zeros((len(rows), steps), dtype=torch.double)
        for i, row in enumerate(rows):
            row.tokens.clear()
            ids[i, width - len(row.prompt) :] = torch.tensor(row.prompt)
            mask[i, width - len(row.prompt) :] = 1
            numbers = np.random.default_rng(row.request.seed % _SEEDS).random(row.limit)
            draws[i, : row.limit] = torch.from_numpy(numbers)
        temperatures = torch.tensor([max(row.request.temperature, _COLDEST) for row in rows], dtype=torch.double)
        ids, mask, draws, temperatures = (each.to(self._device) for each in (ids, mask, draws, temperatures))
        decoder = make_decoder(torch, self._transformers, self._model, self._accepted, width + steps)
        logits = decoder.first(ids, mask)
        for step in range(steps):
            ids = self._sample(logits, temperatures, draws[:, step])  # (n, 1)
            for row, token in zip(rows, ids[:, 0].tolist(), strict=True):
                if not row.done:
                    row.tokens.append(token)
                    row.done = token in self._ends or len(row.tokens) == row.limit
                    if row.done:
                        yield row
            going = [i for i, row in enumerate(rows) if not row.done]
            if not going:
                break
            if len(going) < len(rows) and len(going) <= decoder.crowd * len(rows):
                rows, keep = [rows[i] for i in going], torch.tensor(going, device=self._device)
                ids, draws, temperatures = (each[keep] for each in (ids, draws, temperatures))
                decoder.keep(keep)
            logits = decoder.next(ids)

    def _sample(self, logits: Any, temperatures: Any, draws: Any) -> Any:
        """One token for every row, (n, 1): where its draw, uniform on [0, 1), falls among the probabilities."""
        kept = min(self._top_k or logits.shape[1], logits.shape[1])
        values, tokens = logits.topk(kept)  # likeliest first
        values = values.double()
        chances = values.softmax(1)
        out = (chances.cumsum(1) - chances >= self._top_p) | (chances < self._min_p * chances[:, :1])
        tempered = ((values - values[:, :1]) / temperatures[:, None]).masked_fill(out, -self._torch.inf).softmax(1)
        if tempered.isnan().any():
            raise InputError(f"{self._name} computes values that are not finite; load it in bfloat16 or float32")
        # In the order of the vocabulary: that of equal or almost equal chances is a matter of rounding.
        tokens, order = tokens.sort(1)
        sums = tempered.gather(1, order).cumsum(1)
        wanted = (1 - draws[:, None]) * sums[:, -1:]  # above 0, so a token without a chance is never the first
        return tokens.gather(1, self._torch.searchsorted(sums, wanted))


def weights_digest(model: Any, also: str = "") -> str:
    """Tell a model by some values of each of its tensors: the same wherever it lies, another after any training."""
    digest = hashlib.sha256(also.encode())
    for name, tensor in model.state_dict().items():
        some = tensor.flatten()[:: max(1, tensor.numel() // _SAMPLED)].float().cpu().numpy()
        digest.update(f"{name} {tuple(tensor.shape)} ".encode() + some.tobytes())
    return digest.hexdigest()[:12]
