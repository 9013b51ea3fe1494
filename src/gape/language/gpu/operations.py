"""Chooses the operations of slots: GPU kernels, or equivalent torch operations."""

from types import ModuleType
from typing import Any


def operations(device: Any) -> ModuleType:
    """Return `gape.language.gpu.kernels` for a GPU with Triton, `gape.language.gpu.plain` for anything else."""
    from gape.language.gpu import plain  # noqa: PLC0415  (needs torch, which is in an extra)

    if device.type != "cuda":
        return plain
    try:
        from gape.language.gpu import kernels  # noqa: PLC0415  (Triton comes only with torch for GPUs)
    except ImportError:
        return plain
    return kernels
