"""Points as the metrics take them: float32 on this machine's processor, or tensors of torch on any device.

Distances are those of the points as float32, summed in float64, as for the votes. A tensor stays on its device, and
what is quadratic in the number of points is computed there; what is returned is numpy's.
"""

import sys
from typing import Any, TypeAlias

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Floats, Points
from gape.voting.nearest import MAX_NORM, check_points

# A numpy array or a tensor of torch. Torch is an extra, so it cannot be named here.
Array: TypeAlias = Any

_BLOCK = 2**23  # distances held at once on a device, 64 MB


def is_tensor(array: Array) -> bool:
    """Say whether an array is torch's, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def check(array: Array, name: str) -> Array:
    """Return points as float32, (n, d), where they are, or refuse them in words that hold none of their values."""
    if not is_tensor(array):
        return check_points(array, name)
    if array.dtype.is_complex or array.dim() != 2 or 0 in array.shape:
        raise InputError(
            f"{name} must be a 2-D tensor of real numbers with at least one row and column, got shape "
            f"{tuple(array.shape)} and dtype {array.dtype}; reshape or convert it"
        )
    points = array.detach().float().contiguous()
    if not bool((points.double().norm(dim=1) < MAX_NORM).all()):
        raise InputError(
            f"{name} must be finite as float32 with norms below {MAX_NORM:g}, got others; repair or rescale those rows"
        )
    return points


def check_pair(real: Array, synthetic: Array) -> tuple[Array, Array]:
    """Return both sets as float32 points of one space and of one kind, or say what keeps them from being compared."""
    if is_tensor(real) != is_tensor(synthetic):
        raise InputError("real and synthetic points must both be numpy arrays or both tensors, got one of each")
    X, Y = check(real, "real embeddings"), check(synthetic, "synthetic embeddings")
    if X.shape[1] != Y.shape[1]:
        raise InputError(
            f"real and synthetic embeddings must have the same width, got {X.shape[1]} and {Y.shape[1]}; "
            "embed both with the same embedder"
        )
    if is_tensor(X) and X.device != Y.device:
        raise InputError(
            f"real and synthetic embeddings must be on one device, got {X.device} and {Y.device}; move one of them"
        )
    return X, Y


def on_host(points: Array) -> Points:
    """Return checked points as a numpy array."""
    host: Points = points.cpu().numpy() if is_tensor(points) else points
    return host


def dense_distances(X: Array, Y: Array) -> Array:
    """Return all distances between two sets of checked points, (n, m), in float64, where the points are.

    On a device by the direct sum of squares, so that equal distances compare as equal.
    """
    if not is_tensor(X):
        return distances(X, Y)
    import torch  # noqa: PLC0415  (an extra; whoever has a tensor has it)

    return torch.cdist(X.double(), Y.double(), compute_mode="donot_use_mm_for_euclid_dist")


def stacked(blocks: list[Array]) -> Array:
    """Put blocks of rows on top of each other."""
    if not is_tensor(blocks[0]):
        return np.concatenate(blocks)
    import torch  # noqa: PLC0415  (likewise)

    return torch.cat(blocks)


def like(values: Floats, points: Array) -> Array:
    """Return float64 values where the points are."""
    if not is_tensor(points):
        return values
    import torch  # noqa: PLC0415  (likewise)

    return torch.from_numpy(values).to(points.device)


def log_sum_exp(values: Array) -> Floats:
    """Return log sum exp of each row, (n,). The rows of a numpy array are overwritten."""
    if is_tensor(values):
        on_device: Floats = values.logsumexp(dim=1).cpu().numpy()
        return on_device
    top: Floats = values.max(axis=1)
    values -= top[:, None]
    sums: Floats = np.exp(values, out=values).sum(axis=1)
    return top + np.log(sums)


def row_blocks(n: int, m: int) -> list[slice]:
    """Cut n rows so that the distances of each block to m points are few enough to hold."""
    size = max(1, _BLOCK // m)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def row_distances(left: Points, right: Points) -> Floats:
    """Return the distance of each row of `left` to the same row of `right`, (n,), in float64."""
    gaps = np.empty(len(left))
    rows = max(1, _BLOCK // left.shape[1])
    for start in range(0, len(left), rows):
        block = slice(start, start + rows)
        gaps[block] = np.linalg.norm(left[block].astype(np.float64) - right[block], axis=1)
    return gaps
