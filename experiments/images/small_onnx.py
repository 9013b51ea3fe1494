"""A decoder as an ONNX file, written by hand: sigmoid of a linear map of a latent vector, shaped as images."""

from pathlib import Path

import numpy as np

from gape.core.types import Floats


def write_decoder(path: Path, weights: Floats, bias: Floats, shape: tuple[int, ...], *, labels: bool = False) -> Path:
    """Write the decoder with weights (d, pixels); with `labels`, row k of a second bias (10, pixels) is added for k."""
    linear = _node("MatMul", ["z", "weights"], "mapped") + _node("Add", ["mapped", "bias"], "moved")
    given = _value("z", 1, (0, weights.shape[0]))
    tensors = _tensor("weights", weights, 1) + _tensor("bias", bias, 1) + _tensor("shape", np.array([-1, *shape]), 7)
    last = "moved"
    if labels:
        rows = np.eye(10).repeat(weights.shape[1] // 10 + 1, axis=1)[:, : weights.shape[1]] * 4
        tensors += _tensor("rows", rows, 1)
        linear += _node("Gather", ["rows", "label"], "row") + _node("Add", ["moved", "row"], "labelled")
        given += _value("label", 7, (0,))
        last = "labelled"
    nodes = linear + _node("Sigmoid", [last], "shades") + _node("Reshape", ["shades", "shape"], "images")
    graph = nodes + _field(2, b"decoder") + tensors + given + _value("images", 1, (0, *shape), number=12)
    path.write_bytes(_field(1, 8) + _field(8, _field(1, b"") + _field(2, 17)) + _field(7, graph))
    return path


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    content = b""
    while number > 127:
        content += bytes([number % 128 + 128])
        number //= 128
    return content + bytes([number])


def _field(number: int, value: int | bytes) -> bytes:
    """A field of protobuf: a whole number, or anything with a length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _node(kind: str, inputs: list[str], output: str) -> bytes:
    named = b"".join(_field(1, name.encode()) for name in inputs)
    return _field(1, named + _field(2, output.encode()) + _field(4, kind.encode()))


def _tensor(name: str, array: np.ndarray, kind: int) -> bytes:
    raw = array.astype("<f4" if kind == 1 else "<i8").tobytes()
    dims = b"".join(_field(1, side) for side in array.shape)
    return _field(5, dims + _field(2, kind) + _field(8, name.encode()) + _field(9, raw))


def _value(name: str, kind: int, shape: tuple[int, ...], number: int = 11) -> bytes:
    """An input or output; a side of 0 is any number."""
    sides = b"".join(_field(1, _field(1, side) if side else _field(2, b"n")) for side in shape)
    described = _field(1, _field(1, kind) + _field(2, sides))
    return _field(number, _field(1, name.encode()) + _field(2, described))
