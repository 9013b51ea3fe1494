"""A copy of a model in a format that the engine computes faster, made at first use and kept in the cache.

The engine multiplies Q4_1 weights with one row at a time, and Q8_0 weights with several. Q8_0 holds the same weights
with an error far below that of their first quantisation.
"""

import os
import tempfile
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from gape.language.gguf import Buffer, Layout, Tensor, mapped, read_layout, write_tensors
from gape.language.weights import cache_folder

_BLOCK = 32  # weights per block of both formats
_Q4_1, _Q8_0 = 3, 8  # numbers of the formats
_SLOW = np.dtype([("scale", "<f2"), ("least", "<f2"), ("levels", "u1", _BLOCK // 2)])
_FAST = np.dtype([("scale", "<f2"), ("levels", "i1", _BLOCK)])
_LARGEST = 127
_AT_ONCE = 2**16  # blocks


def in_fast_format(file: Path, digest: str) -> Path:
    """Return a copy of the model of this digest with its Q4_1 weights as Q8_0, or the file itself if it has none.

    The copy is deterministic and written atomically. Without room for it the file itself is used, only slower.
    """
    layout = read_layout(file)
    if all(tensor.kind != _Q4_1 for tensor in layout.tensors):
        return file
    sizes = _sizes(layout, file.stat().st_size - layout.data)
    target = _converted(layout, sizes)
    path = cache_folder() / f"fast-{digest}-q8_0.gguf"
    if path.is_file() and path.stat().st_size == target.data + sum(_new_sizes(layout, sizes)):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fast-", dir=path.parent, ignore_cleanup_errors=True) as scratch:
            part = Path(scratch) / "part"
            with part.open("wb") as copy, mapped(file) as content:
                _write(copy, content, layout, target, sizes)
                copy.flush()
                os.fsync(copy.fileno())
            part.replace(path)
    except OSError:
        return file
    return path


def to_q8_0(content: bytes) -> bytes:
    """Convert blocks of Q4_1 into blocks of Q8_0."""
    blocks = np.frombuffer(content, _SLOW)
    levels = np.concatenate([blocks["levels"] & 15, blocks["levels"] >> 4], axis=1).astype(np.float32)  # (blocks, 32)
    weights = levels * blocks["scale"].astype(np.float32)[:, None] + blocks["least"].astype(np.float32)[:, None]
    scales = np.abs(weights).max(axis=1) / _LARGEST
    inverse = np.divide(1, scales, where=scales > 0, out=np.zeros_like(scales))
    converted = np.empty(len(blocks), _FAST)
    converted["scale"] = scales
    converted["levels"] = np.rint(weights * inverse[:, None])
    return converted.tobytes()


def _sizes(layout: Layout, length: int) -> list[int]:
    """Return the bytes of each tensor in the file, padding included."""
    starts = sorted(tensor.offset for tensor in layout.tensors)
    following = dict(zip(starts, [*starts[1:], length], strict=True))
    return [following[tensor.offset] - tensor.offset for tensor in layout.tensors]


def _new_sizes(layout: Layout, sizes: list[int]) -> list[int]:
    """Return the bytes of each tensor in the copy, padding included."""
    lengths = [
        _blocks(tensor) * _FAST.itemsize if tensor.kind == _Q4_1 else size
        for tensor, size in zip(layout.tensors, sizes, strict=True)
    ]
    return [length + -length % layout.alignment for length in lengths]


def _converted(layout: Layout, sizes: list[int]) -> Layout:
    """Return the layout of the copy."""
    offset, tensors = 0, []
    for tensor, size in zip(layout.tensors, _new_sizes(layout, sizes), strict=True):
        tensors.append(replace(tensor, kind=_Q8_0 if tensor.kind == _Q4_1 else tensor.kind, offset=offset))
        offset += size
    copy = replace(layout, tensors=tuple(tensors))
    return replace(copy, data=layout.entries + len(write_tensors(copy)))


def _write(copy: IO[bytes], content: Buffer, layout: Layout, target: Layout, sizes: list[int]) -> None:
    copy.write(content[: layout.entries])
    copy.write(write_tensors(target))
    for tensor, size in zip(layout.tensors, sizes, strict=True):
        start, stop = layout.data + tensor.offset, layout.data + tensor.offset + size
        if tensor.kind == _Q4_1:
            step, stop = _AT_ONCE * _SLOW.itemsize, start + _blocks(tensor) * _SLOW.itemsize
            for place in range(start, stop, step):
                copy.write(to_q8_0(content[place : min(place + step, stop)]))
        else:
            copy.write(content[start:stop])
        copy.write(bytes(-(copy.tell() - target.data) % layout.alignment))


def _blocks(tensor: Tensor) -> int:
    return prod(tensor.shape) // _BLOCK
