"""The operations of `gape.language.gpu.kernels` in torch, for machines without Triton and for its tests."""

from typing import Any

import torch


def attention(query: Any, keys: Any, values: Any, lengths: Any, scale: float) -> Any:
    """Attend from `query`, (slots, heads, shared, width), to the first `lengths` tokens of keys and values."""
    seen = torch.arange(keys.shape[2], device=keys.device) < lengths.reshape(-1, 1, 1, 1)
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen, scale=scale)


def add_and_norm(stream: Any, change: Any, weight: Any, eps: float) -> Any:
    """Add a change to the stream in place, both (tokens, width), and return the norm of the sum."""
    stream += change
    return torch.nn.functional.rms_norm(stream, weight.shape, weight, eps)


def gate(both: Any) -> Any:
    """Return silu(first half) * second half of each row."""
    first, second = both.chunk(2, dim=-1)
    return torch.nn.functional.silu(first) * second


def rotate_and_keep(
    heads: Any, turning: int, cosines: Any, sines: Any, slots: Any, positions: Any, keys: Any, values: Any
) -> None:
    """Rotate the first `turning` heads of each token by its angles, in place, and store keys and values in a cache.

    `heads` is (tokens, queries + keys + values, width) with as many values as keys, the angles (tokens, width), `slots`
    and `positions` (tokens,), the cache two of (slots, heads, room, width).
    """
    turned = heads[:, :turning]
    first, second = turned.float().chunk(2, dim=-1)
    other = torch.cat((-second, first), dim=-1)
    turned.copy_(turned.float() * cosines[:, None].float() + other * sines[:, None].float())
    shared = keys.shape[1]
    keys[slots, :, positions] = heads[:, turning - shared : turning]
    values[slots, :, positions] = heads[:, turning:]
