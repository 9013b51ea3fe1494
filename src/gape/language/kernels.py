"""The attention of slots for GPUs, in Triton: only what is in a slot is read, once."""

from typing import Any

import torch
import triton
import triton.language as tl

_BLOCK = 64  # tokens that a program reads at a time
_LEAST = 16  # rows that the matrix units take


def attention(query: Any, keys: Any, values: Any, lengths: Any, scale: float) -> Any:
    """Attend from `query`, (slots, heads, shared, width), to the first tokens of keys and values.

    Both are (slots, heads, room, width) and contiguous; `lengths` says how many tokens of each slot count. All of a
    head's `shared` queries read the same keys.
    """
    slots, heads, shared, width = query.shape
    query = query.contiguous()
    out = torch.empty_like(query)
    _attend[(slots * heads,)](
        query,
        keys,
        values,
        lengths.reshape(-1),
        out,
        scale,
        shared,
        heads,
        keys.shape[2],
        width=width,
        padded=max(_LEAST, triton.next_power_of_2(width)),
        rows=max(_LEAST, triton.next_power_of_2(shared)),
        block=_BLOCK,
        num_warps=2,
    )
    return out


@triton.jit  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    query,
    keys,
    values,
    lengths,
    out,
    scale,
    shared,
    heads,
    room,
    width: tl.constexpr,
    padded: tl.constexpr,
    rows: tl.constexpr,
    block: tl.constexpr,
):
    """One slot and one head of its keys: the softmax of all its scores, kept as a running maximum and sum."""
    pair = tl.program_id(0).to(tl.int64)  # slot * heads + head
    length = tl.load(lengths + pair // heads)
    of = tl.arange(0, rows)
    at = tl.arange(0, padded)
    inside = (of[:, None] < shared) & (at[None, :] < width)
    own = pair * shared * width + of[:, None] * width + at[None, :]
    q = tl.load(query + own, mask=inside, other=0.0)
    most = tl.full((rows,), -1e30, tl.float32)
    total = tl.zeros((rows,), tl.float32)
    sums = tl.zeros((rows, padded), tl.float32)
    for start in range(0, length, block):
        token = start + tl.arange(0, block)
        here = (token[:, None] < length) & (at[None, :] < width)
        spots = pair * room * width + token[:, None] * width + at[None, :]
        k = tl.load(keys + spots, mask=here, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(token[None, :] < length, scores, -1e30)
        top = tl.maximum(most, tl.max(scores, 1))
        shares = tl.exp(scores - top[:, None])
        fade = tl.exp(most - top)
        total = total * fade + tl.sum(shares, 1)
        v = tl.load(values + spots, mask=here, other=0.0)
        sums = sums * fade[:, None] + tl.dot(shares.to(v.dtype), v)
        most = top
    result = sums / total[:, None]
    tl.store(out + own, result.to(out.dtype.element_ty), mask=inside)
