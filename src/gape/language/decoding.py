"""Decoding many answers side by side: the two ways of a causal model of transformers to give the next logits.

On a GPU a step of a small model costs little beside what surrounds it: hundreds of launches, a cache of keys and values
that is copied to grow by a token, and heads that are copied to be shared. `FixedDecoder` has none of the three.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

_ATTENTION = "gape_grouped"


class Decoder(Protocol):
    """The state of a batch between two tokens."""

    crowd: ClassVar[float]  # rows that are done are worth dropping once no larger share than this goes on

    def first(self, ids: Any, mask: Any) -> Any:
        """Read prompts, (n, width), padded on the left where `mask` is 0; return the next logits, (n, vocabulary)."""
        ...

    def next(self, ids: Any) -> Any:
        """Read one more token of every row, (n, 1), and return the next logits, (n, vocabulary)."""
        ...

    def keep(self, rows: Any) -> None:
        """Go on with some of the rows alone."""
        ...


def make_decoder(torch: Any, transformers: Any, model: Any, accepted: set[str], room: int) -> Decoder:
    """Return the decoder for a batch of `model` whose prompts and answers take up to `room` tokens."""
    fixed = model.device.type == "cuda" and is_plain(transformers, model, accepted)
    return (FixedDecoder if fixed else GrowingDecoder)(torch, transformers, model, accepted, room)


def is_plain(transformers: Any, model: Any, accepted: set[str]) -> bool:
    """Whether every layer of a model attends to all earlier tokens through the library's usual attention."""
    layers = transformers.DynamicCache(config=model.config).layers
    usual = model.config.get_text_config()._attn_implementation in {"sdpa", _ATTENTION}
    return usual and "position_ids" in accepted and all(type(layer).__name__ == "DynamicLayer" for layer in layers)


class GrowingDecoder:
    """For any model: the library's own cache, which grows with every token."""

    crowd: ClassVar[float] = 1.0

    def __init__(self, torch: Any, transformers: Any, model: Any, accepted: set[str], room: int) -> None:  # noqa: ARG002
        """Take what `make_decoder` is given; the cache takes what room it needs."""
        self._torch, self._model, self._accepted = torch, model, accepted
        self._cache = transformers.DynamicCache(config=model.config)

    def first(self, ids: Any, mask: Any) -> Any:
        """Read the prompts."""
        self._mask = mask
        return self._forward(ids)

    def next(self, ids: Any) -> Any:
        """Read one more token of every row."""
        self._mask = self._torch.cat([self._mask, self._mask.new_ones((len(ids), 1))], dim=1)
        return self._forward(ids)

    def keep(self, rows: Any) -> None:
        """Drop the others from the cache."""
        self._mask = self._mask[rows]
        self._cache.reorder_cache(rows)

    def _forward(self, ids: Any) -> Any:
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        return forward(self._torch, self._model, self._accepted, ids, self._mask, positions, self._cache)


class FixedDecoder:
    """For plain models: a cache that has all its room from the start, and on a GPU a step that is recorded once.

    The recording, a CUDA graph, holds for one number of rows, so rows that are done are kept for a while.
    """

    crowd: ClassVar[float] = 0.5

    def __init__(self, torch: Any, transformers: Any, model: Any, accepted: set[str], room: int) -> None:
        """Take what `make_decoder` is given."""
        self._torch, self._model, self._accepted, self._room = torch, model, accepted, room
        share_heads(torch, transformers, model)
        self._place = torch.zeros(1, dtype=torch.long, device=model.device)  # of the next token in the cache
        self._cache = transformers.DynamicCache(config=model.config)
        layer = fixed_layer(transformers)
        self._cache.layers = [layer(room, self._place) for _ in self._cache.layers]
        self._graph: Callable[[], Any] | None = None
        self._steps = 0  # since the rows last changed

    def first(self, ids: Any, mask: Any) -> Any:
        """Read the prompts."""
        torch, width = self._torch, ids.shape[1]
        self._visible = torch.zeros((len(ids), 1, 1, self._room), dtype=torch.bool, device=ids.device)
        self._visible[:, 0, 0, :width] = mask.bool()
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = forward(torch, self._model, self._accepted, ids, mask, positions, self._cache)
        self._positions, self._ids = positions[:, -1:].contiguous(), torch.zeros_like(ids[:, :1])
        self._place.fill_(width)
        return logits

    def next(self, ids: Any) -> Any:
        """Read one more token of every row."""
        self._ids.copy_(ids)
        self._visible.index_fill_(3, self._place, value=True)
        self._positions += 1
        if self._steps == 1 and ids.is_cuda:  # the step before has warmed everything up
            self._graph = record(self._torch, self._step)
        self._steps += 1
        logits = self._graph() if self._graph else self._step()
        self._place += 1
        return logits

    def keep(self, rows: Any) -> None:
        """Drop the others, and the recording with them."""
        self._ids, self._positions, self._visible = (
            each[rows].contiguous() for each in (self._ids, self._positions, self._visible)
        )
        self._cache.reorder_cache(rows)
        self._graph, self._steps = None, 0

    def _step(self) -> Any:
        return forward(self._torch, self._model, self._accepted, self._ids, self._visible, self._positions, self._cache)


def forward(torch: Any, model: Any, accepted: set[str], ids: Any, mask: Any, positions: Any, cache: Any) -> Any:
    """Return the logits of every row's next token, (n, vocabulary), from the tokens not yet in the cache."""
    given = {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": positions,
        "past_key_values": cache,
        "use_cache": True,
        "logits_to_keep": 1,
    }
    with torch.inference_mode():
        return model(**{key: each for key, each in given.items() if key in accepted}).logits[:, -1]


def record(torch: Any, step: Callable[[], Any]) -> Callable[[], Any] | None:
    """Record a step as a CUDA graph, and return what repeats it; None for a model that cannot be recorded."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.inference_mode(), torch.cuda.graph(graph):
            logits = step()
    except RuntimeError:  # it asks the GPU for a value on the way, and would have to wait for it
        torch.cuda.synchronize()
        return None

    def repeat() -> Any:
        graph.replay()
        return logits

    return repeat


def fixed_layer(transformers: Any) -> Any:
    """Return the class of a layer's cache that has all its room from the start."""
    base = transformers.cache_utils.DynamicLayer

    class FixedLayer(base):  # type: ignore[misc, valid-type]
        def __init__(self, room: int, place: Any) -> None:
            super().__init__()
            self._room, self._place = room, place

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            self.dtype, self.device = key_states.dtype, key_states.device
            # Zeros: what is masked counts nothing only if it is a number.
            self.keys, self.values = (
                each.new_zeros((*each.shape[:2], self._room, each.shape[3])) for each in (key_states, value_states)
            )
            self.is_initialized = True

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
                self.keys[:, :, : key_states.shape[2]] = key_states
                self.values[:, :, : key_states.shape[2]] = value_states
                return key_states, value_states
            self.keys.index_copy_(2, self._place, key_states)
            self.values.index_copy_(2, self._place, value_states)
            return self.keys, self.values

        def get_seq_length(self) -> int:
            return self._room if self.is_initialized else 0

    return FixedLayer


def share_heads(torch: Any, transformers: Any, model: Any) -> None:
    """Have a model's attention read the keys and values that several heads share where they lie.

    For one new token, heads that share keys are as good as several tokens of one head, which no kernel copies for.
    """
    if model.config.get_text_config()._attn_implementation == _ATTENTION:
        return
    from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: PLC0415  (heavy)
    from transformers.masking_utils import sdpa_mask  # noqa: PLC0415  (heavy)

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **given: Any) -> tuple[Any, None]:
        rows, heads, tokens, width = query.shape
        if tokens > 1 or heads == key.shape[1]:
            usual: tuple[Any, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **given)
            return usual
        grouped = query.view(rows, key.shape[1], heads // key.shape[1], width)
        out = torch.nn.functional.scaled_dot_product_attention(
            grouped, key, value, attn_mask=attention_mask, scale=given.get("scaling")
        )
        return out.reshape(rows, 1, heads, value.shape[3]), None

    transformers.AttentionInterface.register(_ATTENTION, attend)
    transformers.AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
    model.set_attn_implementation(_ATTENTION)
