"""The operations of `gape.language.gpu.plain` in Triton: one GPU kernel each, where torch takes several."""

from typing import Any

import torch
import triton
import triton.language as tl

from gape.language.gpu import plain

_BLOCK = 64  # tokens that a program reads at a time, fewer if heads are wider than _WIDE
_WIDE = 128
_LEAST = 16  # minimum number of rows for the matrix units
_GATED = 1024  # values of a row per program of the gate


def attention(query: Any, keys: Any, values: Any, lengths: Any, scale: float) -> Any:
    """Attend from `query`, (slots, heads, shared, width), to the first `lengths` tokens of keys and values.

    Both are (slots, heads, room, width) and contiguous; the queries of a slot are contiguous. All `shared` queries of a
    head read the same keys, once, and only the first `lengths` tokens. Values of another width are left to torch.
    """
    slots, heads, shared, width = query.shape
    if values.shape[3] != width:
        return plain.attention(query, keys, values, lengths, scale)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    padded = max(_LEAST, triton.next_power_of_2(width))
    wider = max(1, padded // _WIDE)
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
        query.stride(0),
        width=width,
        padded=padded,
        rows=max(_LEAST, triton.next_power_of_2(shared)),
        block=max(_LEAST, _BLOCK // wider),
        num_warps=2 * wider,
    )
    return out


def add_and_norm(stream: Any, change: Any, weight: Any, eps: float) -> Any:
    """Add a change to the stream in place, both (tokens, width), and return the norm of the sum."""
    tokens, width = stream.shape
    out = torch.empty_like(stream)
    _add_and_norm[(tokens,)](stream, change, weight, out, eps, width, padded=triton.next_power_of_2(width), num_warps=4)
    return out


def gate(both: Any) -> Any:
    """Return silu(first half) * second half of each row."""
    width = both.shape[-1] // 2
    out = torch.empty((*both.shape[:-1], width), dtype=both.dtype, device=both.device)
    rows = both.numel() // (2 * width)
    _gate[(rows, triton.cdiv(width, _GATED))](both, out, width, block=_GATED, num_warps=4)
    return out


def rotate_and_keep(
    heads: Any, turning: int, cosines: Any, sines: Any, slots: Any, positions: Any, keys: Any, values: Any
) -> None:
    """Rotate the first `turning` heads of each token by its angles, in place, and store keys and values in a cache."""
    tokens, count, width = heads.shape
    _rotate_and_keep[(tokens,)](
        heads,
        cosines,
        sines,
        slots,
        positions,
        keys,
        values,
        turning,
        count,
        keys.shape[1],
        keys.shape[2],
        half=width // 2,
        padded=triton.next_power_of_2(count),
        num_warps=2,
    )


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
    stride,
    width: tl.constexpr,
    padded: tl.constexpr,
    rows: tl.constexpr,
    block: tl.constexpr,
):
    """Process one slot and one head of its keys: a softmax over all scores with a running maximum and sum."""
    pair = tl.program_id(0).to(tl.int64)  # slot * heads + head
    slot = pair // heads
    length = tl.load(lengths + slot)
    of = tl.arange(0, rows)
    at = tl.arange(0, padded)
    inside = (of[:, None] < shared) & (at[None, :] < width)
    own = of[:, None] * width + at[None, :]
    q = tl.load(query + slot * stride + (pair % heads) * shared * width + own, mask=inside, other=0.0)
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
    tl.store(out + pair * shared * width + own, result.to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _add_and_norm(stream, change, weight, out, eps, width, padded: tl.constexpr):  # type: ignore[no-untyped-def]
    """Process one token."""
    at = tl.arange(0, padded)
    inside = at < width
    spots = tl.program_id(0).to(tl.int64) * width + at
    before = tl.load(stream + spots, mask=inside, other=0.0).to(tl.float32)
    rounded = (before + tl.load(change + spots, mask=inside, other=0.0).to(tl.float32)).to(stream.dtype.element_ty)
    tl.store(stream + spots, rounded, mask=inside)
    whole = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(whole * whole, 0) / width + eps)
    normed = whole * scale * tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + spots, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _gate(both, out, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Process part of a row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * block + tl.arange(0, block)
    inside = at < width
    first = tl.load(both + row * 2 * width + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(both + row * 2 * width + width + at, mask=inside, other=0.0).to(tl.float32)
    gated = first / (1 + tl.exp(-first)) * second
    tl.store(out + row * width + at, gated.to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _rotate_and_keep(  # type: ignore[no-untyped-def]
    heads,
    cosines,
    sines,
    slots,
    positions,
    keys,
    values,
    turning,
    count,
    shared,
    room,
    half: tl.constexpr,
    padded: tl.constexpr,
):
    """Process one token with all its heads: rotate queries and keys, and store keys and values."""
    token = tl.program_id(0).to(tl.int64)
    of = tl.arange(0, padded)[:, None]
    at = tl.arange(0, half)[None, :]
    spots = (token * count + of) * 2 * half + at
    inside = of < count
    first = tl.load(heads + spots, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(heads + spots + half, mask=inside, other=0.0).to(tl.float32)
    angles = token * 2 * half + at
    turns = of < turning
    left = first * tl.load(cosines + angles).to(tl.float32) - second * tl.load(sines + angles).to(tl.float32)
    right = second * tl.load(cosines + angles + half).to(tl.float32) + first * tl.load(sines + angles + half).to(
        tl.float32
    )
    left = tl.where(turns, left, first).to(keys.dtype.element_ty)
    right = tl.where(turns, right, second).to(keys.dtype.element_ty)
    tl.store(heads + spots, left, mask=turns)
    tl.store(heads + spots + half, right, mask=turns)
    # The cache is (slots, shared, room, width).
    slot = tl.load(slots + token)
    position = tl.load(positions + token)
    kept = ((slot * shared + of - (turning - shared)) * room + position) * 2 * half + at
    is_key = turns & (of >= turning - shared)
    tl.store(keys + kept, left, mask=is_key)
    tl.store(keys + kept + half, right, mask=is_key)
    kept -= shared * room * 2 * half
    is_value = inside & (of >= turning)
    tl.store(values + kept, left, mask=is_value)
    tl.store(values + kept + half, right, mask=is_value)
