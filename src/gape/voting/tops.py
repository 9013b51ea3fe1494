"""The largest score in each group of candidates, for each record, by Triton if possible, otherwise by torch."""

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

GROUP = 256  # candidates in a group: the widest tile of the matrix units
ROWS = 128  # rows come in multiples of this, so that tiles divide them
DEPTH = 64  # columns come in multiples of this

Engine = Callable[[Any, Any, Any, Any, Any, Any], None]  # like `kernels.tops`, without the shape


def engine(torch: Any, device: str) -> Engine:
    """Choose how tops are computed: by Triton if it compiles for the device, otherwise by torch."""
    if torch.device(device).type == "cuda":
        try:
            kernels = importlib.import_module("gape.voting.kernels")
        except ImportError:
            return _by_torch
        shape = kernels.fitting(device)
        if shape:
            return functools.partial(kernels.tops, shape=shape)
        warnings.warn(
            "no Triton kernel runs on this GPU, so votes are counted by torch alone, which takes longer",
            RuntimeWarning,
            stacklevel=4,
        )
    return _by_torch


def _by_torch(rounded: Any, inverse: Any, candidates: Any, group_inverse: Any, lift: Any, out: Any) -> None:
    """Fill `out` like `kernels.tops`, with the products written to memory."""
    torch: Any = importlib.import_module("torch")
    size = len(lift) // len(group_inverse)
    for rows in pieces(len(rounded), 8192):
        for groups in pieces(len(group_inverse), 16):
            columns = slice(groups.start * size, groups.stop * size)
            products = _product(torch, rounded[rows], candidates[columns]).view(-1, groups.stop - groups.start, size)
            scale = inverse[rows, None] * group_inverse[groups]
            scores = torch.addcmul(lift[columns].view(-1, size), products, scale[:, :, None])
            out[groups, rows] = scores.amax(2).T


def _product(torch: Any, left: Any, right: Any) -> Any:
    """Multiply float16 numbers and sum in float32. TF32 would do no harm, because it represents any float16 number."""
    recent = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
    if left.is_cuda and recent and not torch.backends.cuda.matmul.allow_fp16_accumulation:
        return torch.mm(left, right.T, out_dtype=torch.float32)
    return left.float() @ right.float().T


def pieces(n: int, most: int) -> list[slice]:
    """Cut n items into slices of at most `most` items, and of at least one."""
    most = max(most, 1)
    return [slice(start, min(start + most, n)) for start in range(0, n, most)]


def padded(length: int, step: int) -> int:
    """Round a length up to a multiple of the step."""
    return -(-length // step) * step
