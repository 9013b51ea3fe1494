"""Any model that slots serve, in the layers of the library; only the attention of single tokens is replaced."""

from collections.abc import Callable
from typing import Any

from gape.language.gpu.operations import operations

NAME = "gape_slots"  # name of the slot attention in the library


class Library:
    """Reads tokens into slots, and computes the logits of the next ones."""

    def __init__(self, torch: Any, transformers: Any, model: Any, count: int, room: int) -> None:
        """Replace the attention of a model by that of slots, and create `count` slots of `room` tokens."""
        self._torch, self._model = torch, model
        _attend_to_slots(torch, transformers, model)
        self._cache, self._layers = _fixed_cache(torch, transformers, model, count, room)

    def read(self, ids: Any, slots: Any) -> None:
        """Read prompts, (n, tokens), into slots, (n,), from their first position on."""
        self._layers.slots = slots
        positions = self._torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        self._forward(ids, positions, positions.new_full((len(ids),), ids.shape[1]))
        self._layers.slots = None

    def move(self, slots: Any, to: Any) -> None:
        """Copy what slots, (n,), have read to other slots, (n,)."""
        with self._torch.inference_mode():
            for layer in self._cache.layers:
                layer.keys[to] = layer.keys[slots]
                layer.values[to] = layer.values[slots]

    def step(self, ids: Any, positions: Any, lengths: Any) -> Any:
        """Read one token in each of the first slots, (n, 1), and return the next logits, (n, vocabulary).

        `positions` has the position of each token, `lengths` the number of tokens of each slot that count, including
        this one; both are (n,).
        """
        self._layers.positions = positions
        return self._forward(ids, positions[:, None], lengths)

    def _forward(self, ids: Any, positions: Any, lengths: Any) -> Any:
        # The library does not change a mask of four dimensions: here it contains the number of tokens each row reads.
        with self._torch.inference_mode():
            return self._model(
                input_ids=ids,
                attention_mask=lengths[:, None, None, None],
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]


def _attend_to_slots(torch: Any, transformers: Any, model: Any) -> None:
    """Let a model attend as `gape.language.gpu.slots` requires: prompts causally, single tokens to their own slot.

    Instead of a mask it gets the number of tokens that each row reads, (n, 1, 1, 1). With any other mask it attends as
    before, because texts that are too long for slots are written in batches.
    """
    if model.config.get_text_config()._attn_implementation == NAME:
        return
    attention = operations(model.device).attention
    usual: Callable[..., tuple[Any, None]] = transformers.AttentionInterface()["sdpa"]

    def attend(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        scaling: float | None = None,
        **others: Any,
    ) -> tuple[Any, None]:
        if attention_mask is None or attention_mask.dtype != torch.long:
            return usual(module, query, key, value, attention_mask, scaling=scaling, **others)
        rows, heads, tokens, width = query.shape
        if tokens > 1:
            return usual(module, query, key, value, None, scaling=scaling, is_causal=True)
        scale = width**-0.5 if scaling is None else scaling
        # For one new token, heads that share keys can be treated as several tokens of one head.
        grouped = query.view(rows, key.shape[1], heads // key.shape[1], width)
        out = attention(grouped.contiguous(), key, value, attention_mask, scale)
        return out.reshape(rows, 1, heads, value.shape[3]), None

    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, transformers.AttentionMaskInterface()["sdpa"])
    model.set_attn_implementation(NAME)


class _Layers:
    """Where the layers of a cache store new keys and values: in `slots` from the front, or at `positions`."""

    def __init__(self) -> None:
        self.slots: Any = None
        self.positions: Any = None


def _fixed_cache(torch: Any, transformers: Any, model: Any, count: int, room: int) -> tuple[Any, _Layers]:
    where = _Layers()
    base = transformers.cache_utils.DynamicLayer

    class SlotLayer(base):  # type: ignore[misc, valid-type]
        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            self.dtype, self.device = key_states.dtype, key_states.device
            self.keys, self.values = (
                states.new_zeros((count, states.shape[1], room, states.shape[3]))
                for states in (key_states, value_states)
            )
            self._all = torch.arange(count, device=self.device)
            self.is_initialized = True

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            if where.slots is not None:
                width = key_states.shape[2]
                self.keys[where.slots, :, :width] = key_states
                self.values[where.slots, :, :width] = value_states
                return key_states, value_states
            first = self._all[: len(key_states)]
            self.keys[first, :, where.positions] = key_states[:, :, 0]
            self.values[first, :, where.positions] = value_states[:, :, 0]
            return self.keys[: len(first)], self.values[: len(first)]

        def get_seq_length(self) -> int:
            return 0

    cache = transformers.DynamicCache(config=model.config)
    cache.layers = [SlotLayer() for _ in cache.layers]
    return cache, where
