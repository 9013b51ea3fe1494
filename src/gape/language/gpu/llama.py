"""Llama-like models written out for slots: a step takes nine operations per layer, where the library takes thirty.

The time of a step of a small model is spent on starting operations and on memory access, not on arithmetic. Here the
three projections of attention are one product, and so are the two of the gate. Rotation and cache update, sum and norm,
and the gate are one operation each.
"""

from dataclasses import dataclass
from typing import Any

from gape.language.gpu.operations import operations

# Models of the library with the layers that are written out here.
_KINDS = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})


def is_llama(model: Any) -> bool:
    """Whether a model is Llama-like throughout, with heads of a width that the kernels support."""
    if type(model).__name__ not in _KINDS or model.config.hidden_act != "silu":
        return False
    width = _width(model.config)
    return width & (width - 1) == 0


@dataclass(frozen=True, eq=False)
class _Layer:
    """The weights of a layer, and its part of the cache, two of (slots, heads, room, width)."""

    before: Any  # the norm's weight
    inner: tuple[Any, Any]  # queries, keys and values: weight and bias
    head_norms: tuple[Any, Any] | None  # of queries and keys, if the model has them
    outer: tuple[Any, Any]
    between: Any
    gates: tuple[Any, Any]
    down: tuple[Any, Any]
    keys: Any
    values: Any


class Llama:
    """Reads tokens into slots, and computes the logits of the next ones."""

    def __init__(self, torch: Any, model: Any, count: int, room: int) -> None:
        """Use a model that `is_llama`, and create `count` slots of `room` tokens."""
        config = model.config
        self._torch, self._operations = torch, operations(model.device)
        self._heads, self._shared = config.num_attention_heads, config.num_key_value_heads
        self._width = _width(config)
        self._model, self._eps = model, config.rms_norm_eps
        shape = (count, self._shared, room, self._width)

        def layer(module: Any) -> _Layer:
            attention, mlp = module.self_attn, module.mlp
            return _Layer(
                module.input_layernorm.weight,
                _together(torch, attention.q_proj, attention.k_proj, attention.v_proj),
                (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None,
                (attention.o_proj.weight, attention.o_proj.bias),
                module.post_attention_layernorm.weight,
                _together(torch, mlp.gate_proj, mlp.up_proj),
                (mlp.down_proj.weight, mlp.down_proj.bias),
                *(torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in range(2)),
            )

        with torch.inference_mode():
            self._layers = [layer(module) for module in model.model.layers]
        self._all = torch.arange(count, device=model.device)

    def read(self, ids: Any, slots: Any) -> None:
        """Read prompts, (n, tokens), into slots, (n,), from their first position on."""
        torch = self._torch
        rows, tokens = ids.shape
        positions = torch.arange(tokens, device=ids.device).expand(rows, tokens)

        def attend(heads: Any, _: _Layer) -> Any:
            heads = heads.view(rows, tokens, -1, self._width).transpose(1, 2)
            query, key, value = heads.split([self._heads, self._shared, self._shared], dim=1)
            usual = torch.nn.functional.scaled_dot_product_attention
            return usual(query, key, value, is_causal=True, enable_gqa=self._heads != self._shared).transpose(1, 2)

        with torch.inference_mode():
            self._through(ids, positions, slots.repeat_interleave(tokens), attend)

    def move(self, slots: Any, to: Any) -> None:
        """Copy what slots, (n,), have read to other slots, (n,)."""
        with self._torch.inference_mode():
            for layer in self._layers:
                layer.keys[to] = layer.keys[slots]
                layer.values[to] = layer.values[slots]

    def step(self, ids: Any, positions: Any, lengths: Any) -> Any:
        """Read one token in each of the first slots, (n, 1), and return the next logits, (n, vocabulary).

        `positions` has the position of each token, `lengths` the number of tokens of each slot that count, including
        this one; both are (n,).
        """
        shared = self._heads // self._shared

        def attend(heads: Any, layer: _Layer) -> Any:
            query = heads[:, : self._heads].view(len(ids), self._shared, shared, self._width)
            keys, values = layer.keys[: len(ids)], layer.values[: len(ids)]
            return self._operations.attention(query, keys, values, lengths, self._width**-0.5)

        with self._torch.inference_mode():
            return self._model.lm_head(self._through(ids, positions[:, None], self._all[: len(ids)], attend))

    def _through(self, ids: Any, positions: Any, slots: Any, attend: Any) -> Any:
        """Return the output of the last norm for tokens, (tokens, width), with the given attention."""
        linear, rms_norm = self._torch.nn.functional.linear, self._torch.nn.functional.rms_norm
        ops, inner = self._operations, self._model.model
        stream = inner.embed_tokens(ids)  # (rows, tokens, width)
        cosines, sines = (angles.reshape(-1, self._width) for angles in inner.rotary_emb(stream, positions))
        # Kernels read by address, so positions and slots must not be views that repeat one number.
        stream, positions = stream.reshape(-1, stream.shape[-1]), positions.reshape(-1).contiguous()
        turning = self._heads + self._shared
        weights = [layer.before for layer in self._layers[1:]] + [inner.norm.weight]
        normed = rms_norm(stream, (stream.shape[1],), self._layers[0].before, self._eps)
        for layer, following in zip(self._layers, weights, strict=True):
            heads = linear(normed, *layer.inner).view(len(stream), -1, self._width)
            if layer.head_norms:
                for part, weight in zip(
                    (heads[:, : self._heads], heads[:, self._heads : turning]), layer.head_norms, strict=True
                ):
                    part.copy_(rms_norm(part, (self._width,), weight, self._eps))
            ops.rotate_and_keep(heads, turning, cosines, sines, slots, positions, layer.keys, layer.values)
            change = linear(attend(heads, layer).reshape(len(stream), -1), *layer.outer)
            normed = ops.add_and_norm(stream, change, layer.between, self._eps)
            change = linear(ops.gate(linear(normed, *layer.gates)), *layer.down)
            normed = ops.add_and_norm(stream, change, following, self._eps)
        return normed


def _width(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _together(torch: Any, *parts: Any) -> tuple[Any, Any]:
    """Combine several projections with the same input into one."""
    bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
    return torch.cat([part.weight for part in parts]), bias
