"""Decoding many answers at once on a GPU: a fixed number of slots with one answer each, refilled as answers end.

On a GPU a step of a small model costs little compared with its overhead: hundreds of launches, a transfer to the host
after each token, rows that are done but still computed, a cache that is copied to grow. Here a step, including the
sampling, is recorded once and replayed. Every few steps the host takes finished answers and gives their slots to the
next requests. When fewer answers are left, they move to the front, and steps compute only that part of the slots.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from gape._support.memory import free_bytes, is_full
from gape.language.gpu.library import NAME, Library
from gape.language.gpu.llama import Llama, is_llama
from gape.language.gpu.sampling import RECENT, Sampling, last_tokens
from gape.language.row import Ends, Row

_STRIDE = 8  # steps between two checks of the host: a finished answer waits for half of them on average
_REFILLED = 16  # slots are refilled when one in this many is free
_FEWEST = 32  # slots below which a step does not become faster
_READ = 2**16  # prompt tokens that are read at once
_STEP = 128  # the room of a slot is rounded up to a multiple, so that slots serve many calls
_PER_TOKEN = 16  # bytes per token of a slot beside the cache: the token and its random number
_SHARE = 0.25  # share of the free memory that slots may use


def longest_text(transformers: Any, model: Any, accepted: set[str]) -> float:
    """Return how many tokens a text in a slot may have, prompt included: 0 if slots do not serve a model.

    In slots, every layer attends to all earlier tokens through the library's usual attention. A layer with a sliding
    window does so up to the length of its window.
    """
    layers = transformers.DynamicCache(config=model.config).layers
    config = model.config.get_text_config()
    usual = config._attn_implementation in {"sdpa", NAME} and "position_ids" in accepted
    attending = all(type(layer).__name__ in {"DynamicLayer", "DynamicSlidingWindowLayer"} for layer in layers)
    if not (usual and attending and len(layers) == config.num_hidden_layers):  # some models have layers without a cache
        return 0
    return min((layer.sliding_window for layer in layers if layer.is_sliding), default=math.inf)


def slots_that_fit(model: Any, wanted: int, room: int) -> int:
    """Return the number of slots to create: the wanted number, halved until the slots fit into a share of free memory.

    This leaves memory for other processes, and processes that start together do not each count on all of it.
    """
    if model.device.type != "cuda":
        return wanted
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    of_cache = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize
    per_slot = (of_cache + _PER_TOKEN) * (-(-room // _STEP) * _STEP)
    most = free_bytes(model.device) * _SHARE
    while wanted > 1 and wanted * per_slot > most:
        wanted //= 2
    return wanted


def no_more(free: int) -> list[Row]:  # noqa: ARG001  (the signature of what has more)
    """Return no further rows."""
    return []


class Slots:
    """Writes up to `count` answers at once, with up to `room` tokens each, prompts included."""

    def __init__(
        self, torch: Any, transformers: Any, model: Any, sampling: Sampling, ends: Ends, count: int, room: int
    ) -> None:
        """Use a model that slots serve, for texts up to its `longest_text`."""
        self._torch, self._model, self._sampling = torch, model, sampling
        self.count, self.room = count, -(-room // _STEP) * _STEP
        self._reader = (
            Llama(torch, model, count, self.room)
            if is_llama(model)
            else Library(torch, transformers, model, count, self.room)
        )

        def zeros(*shape: int, dtype: Any = torch.long) -> Any:
            return torch.zeros(shape, dtype=dtype, device=model.device)

        self._ends = torch.tensor(sorted(ends.of_answers), dtype=torch.long, device=model.device)
        self._closing = zeros(model.config.get_text_config().vocab_size, dtype=torch.bool)
        self._closing[sorted(ends.of_sentences)] = True
        self._enough = zeros(count)
        self._ids = zeros(count, 1)  # the token to be read next
        self._position = zeros(count)  # its position in the cache
        self._written = zeros(count)  # number of tokens
        self._limit = zeros(count)
        self._going = zeros(count, dtype=torch.bool)
        self._finite = torch.ones(count, dtype=torch.bool, device=model.device)
        self._recent = zeros(count, RECENT)  # the last tokens, including the next one to be read
        self._temperature = torch.ones(count, dtype=torch.double, device=model.device)
        self._draws = zeros(count, self.room, dtype=torch.double)
        self._tokens = zeros(count, self.room + 1)  # the last column takes the tokens of finished slots
        self._sizes = [count]  # numbers of slots that a step can compute, from the front
        while self._sizes[-1] >= 2 * _FEWEST:
            self._sizes.append(self._sizes[-1] // 2)
        self._steps: dict[int, Callable[[], None]] = {}  # by the number of slots

    def write(self, rows: Sequence[Row], more: Callable[[int], Sequence[Row]] = no_more) -> Iterator[Row]:
        """Write the answers of all rows, yielding each shortly after it is done.

        Whenever slots are free, `more` is called with their number and may return further rows. Rows that are marked
        as done from outside lose their slots.
        """
        waiting = list(reversed(rows))
        held: dict[int, Row] = {}
        ended: list[Row] = []
        self._going.zero_()
        while True:
            if (room_for := self.count - len(held) - len(waiting)) > 0:
                waiting[:0] = reversed(more(room_for))
            if not waiting and not held:
                break
            free = [slot for slot in range(self.count) if slot not in held]
            if waiting and (len(free) * _REFILLED >= self.count):
                held |= self._fill(free, waiting)
            front = self._front(held)
            for _ in range(_STRIDE):
                self._step(front)
            yield from _done(ended)  # the caller handles these while the GPU works
            going = self._going[:front].tolist()
            ended = self._take([slot for slot, row in held.items() if row.done or not going[slot]], held)
        yield from _done(ended)

    def _front(self, held: dict[int, Row]) -> int:
        """Return how many slots a step must compute, after moving answers to the front if that makes it fewer."""
        size = self._size(len(held))
        if size < self._size(max(held) + 1):
            behind = [slot for slot in held if slot >= size]
            free = [slot for slot in range(size) if slot not in held][: len(behind)]
            self._move(behind, free)
            held |= {to: held.pop(slot) for slot, to in zip(behind, free, strict=True)}
        return self._size(max(held) + 1)

    def _size(self, needed: int) -> int:
        return min(size for size in self._sizes if size >= needed)

    def _move(self, slots: list[int], to: list[int]) -> None:
        """Move answers to other slots."""
        torch, device = self._torch, self._model.device
        behind, free = torch.tensor(slots, device=device), torch.tensor(to, device=device)
        for state in (
            self._ids, self._position, self._written, self._recent, self._limit, self._enough, self._going,
            self._temperature, self._draws, self._tokens,
        ):  # fmt: skip
            state[free] = state[behind]
        self._going[behind] = False
        self._reader.move(behind, free)

    def _take(self, ended: list[int], held: dict[int, Row]) -> list[Row]:
        """Read the answers of finished slots, and free the slots."""
        if not ended:
            return []
        torch = self._torch
        if not self._finite.all():
            raise FloatingPointError
        chosen = torch.tensor(ended, device=self._model.device)
        self._going[chosen] = False  # of rows that are no longer wanted
        lengths = self._written[chosen].tolist()
        tokens = self._tokens[chosen, : max(lengths)].cpu().numpy()
        rows = [held.pop(slot) for slot in ended]
        for row, length, written in zip(rows, lengths, tokens, strict=True):
            row.tokens = written[:length].tolist()
        return rows

    def _fill(self, free: list[int], waiting: list[Row]) -> dict[int, Row]:
        """Give free slots to waiting rows, and read their prompts except the last token, which a step reads."""
        torch, device = self._torch, self._model.device
        rows = [waiting.pop() for _ in range(min(len(free), len(waiting)))]
        slots = torch.tensor(free[: len(rows)], device=device)

        def put(to: Any, values: Any) -> None:
            to[slots] = torch.tensor(values, dtype=to.dtype).to(device)

        put(self._ids, [[row.prompt[-1]] for row in rows])
        put(self._position, [len(row.prompt) - 1 for row in rows])
        put(self._written, [0] * len(rows))
        put(self._recent, [last_tokens(row.prompt) for row in rows])
        put(self._limit, [row.limit for row in rows])
        put(self._enough, [row.enough for row in rows])
        put(self._going, [True] * len(rows))
        put(self._temperature, [row.temperature for row in rows])
        draws = np.zeros((len(rows), self.room))
        for drawn, row in zip(draws, rows, strict=True):
            drawn[: row.limit] = row.draws()
        put(self._draws, draws)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].prompt))
        while order:
            width = len(rows[order[-1]].prompt) - 1
            share = [order.pop() for _ in range(min(len(order), max(1, _READ // max(width, 1))))]
            if width:
                self._read([rows[i].prompt[:-1] for i in share], slots[share], width)
        return dict(zip(free, rows, strict=False))

    def _read(self, prompts: list[list[int]], slots: Any, width: int) -> None:
        """Read prompts into their slots. They are padded on the right, where none of their tokens attends."""
        torch, device = self._torch, self._model.device
        padded = np.zeros((len(prompts), width), dtype=np.int64)
        for line, prompt in zip(padded, prompts, strict=True):
            line[: len(prompt)] = prompt
        self._reader.read(torch.from_numpy(padded).to(device), slots)

    def _step(self, front: int) -> None:
        """Read one token and write the next in each of the first slots, from a recording if possible."""
        if front not in self._steps:
            self._advance(front)  # the warm-up is a step too
            advance = partial(self._advance, front)
            self._steps[front] = record(self._torch, advance) if self._ids.is_cuda else advance
        else:
            self._steps[front]()

    def _advance(self, front: int) -> None:
        torch = self._torch
        ids, position, written, going = (
            state[:front] for state in (self._ids, self._position, self._written, self._going)
        )
        logits = self._reader.step(ids, position, torch.where(going, position + 1, 1))
        draws = self._draws[:front].gather(1, written[:, None].clamp(max=self.room - 1))
        recent = self._recent[:front]
        tokens, finite = self._sampling(torch, logits, self._temperature[:front], draws, recent)
        self._finite[:front] &= finite | ~going
        column = torch.where(going, written, self.room)
        self._tokens[:front].scatter_(1, column[:, None], tokens)
        ids.copy_(torch.where(going[:, None], tokens, ids))
        recent.copy_(torch.cat([recent[:, 1:], tokens], dim=1))
        position += going
        written += going
        complete = self._closing[tokens[:, 0]] & (written >= self._enough[:front])
        going &= ~torch.isin(tokens[:, 0], self._ends) & ~complete & (written < self._limit[:front])


def _done(rows: list[Row]) -> Iterator[Row]:
    """Yield rows, and mark only yielded ones as done, in case memory runs short in between."""
    for row in rows:
        row.done = True
        yield row


def record(torch: Any, step: Callable[[], None]) -> Callable[[], None]:
    """Record a step as a CUDA graph and return its replay, or the step itself if it cannot be recorded."""
    graph = torch.cuda.CUDAGraph()
    try:
        # Other threads, which embed texts at the same time, may allocate memory on the device.
        with torch.inference_mode(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
    except RuntimeError as error:  # the step needs a value from the GPU and would have to wait for it
        if is_full(error):
            raise
        torch.cuda.synchronize()
        return step
    repeat: Callable[[], None] = graph.replay
    return repeat
