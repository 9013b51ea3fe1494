"""Points as the metrics accept them: float32 numpy arrays, or torch tensors on any device.

Distances are those between points as float32, summed in float64, as in voting. A tensor stays on its device, where
everything quadratic in the number of points is computed; results are numpy arrays.
"""

import sys
from typing import Any, TypeAlias

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Floats, Points
from gape.voting.nearest import MAX_NORM, check_points

# A numpy array or a torch tensor. Torch is an optional extra, so its type cannot be named here.
Array: TypeAlias = Any

_BLOCK = 2**23  # most distances held at once on a device: 64 MB


def is_tensor(array: Array) -> bool:
    """Return whether an array is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def check(array: Array, name: str) -> Array:
    """Return points as float32, (n, d), on their device, or refuse them with a message that quotes no values."""
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
            f"{name} must be finite as float32 with norms below {MAX_NORM:g}, got other rows; fix or rescale them"
        )
    return points


def check_pair(real: Array, synthetic: Array) -> tuple[Array, Array]:
    """Return both sets as float32 points of equal width and on one device, or raise an error that says what differs."""
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
    """Return all distances between two sets of checked points, (n, m), in float64, on their device.

    Tensors use the direct sum of squares, so that equal distances compare as equal.
    """
    if not is_tensor(X):
        return distances(X, Y)
    import torch  # noqa: PLC0415  (an optional extra, installed if there is a tensor)

    return torch.cdist(X.double(), Y.double(), compute_mode="donot_use_mm_for_euclid_dist")


def stacked(blocks: list[Array]) -> Array:
    """Concatenate blocks of rows."""
    if not is_tensor(blocks[0]):
        return np.concatenate(blocks)
    import torch  # noqa: PLC0415  (likewise)

    return torch.cat(blocks)


def like(values: Floats, points: Array) -> Array:
    """Return float64 values on the device of the points."""
    if not is_tensor(points):
        return values
    import torch  # noqa: PLC0415  (likewise)

    return torch.from_numpy(values).to(points.device)


def log_sum_exp(values: Array) -> Floats:
    """Return the log-sum-exp of each row, (n,). A numpy array is overwritten."""
    if is_tensor(values):
        on_device: Floats = values.logsumexp(dim=1).cpu().numpy()
        return on_device
    top: Floats = values.max(axis=1)
    values -= top[:, None]
    sums: Floats = np.exp(values, out=values).sum(axis=1)
    return top + np.log(sums)


def row_blocks(n: int, m: int, most: int | None = None) -> list[slice]:
    """Split n rows into blocks with at most `most` distances to m points each, by default as many as a device holds."""
    size = max(1, (_BLOCK if most is None else most) // m)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def row_distances(left: Points, right: Points) -> Floats:
    """Return the distance between each row of `left` and the same row of `right`, (n,), in float64."""
    gaps = np.empty(len(left))
    rows = max(1, _BLOCK // left.shape[1])
    for start in range(0, len(left), rows):
        block = slice(start, start + rows)
        gaps[block] = np.linalg.norm(left[block].astype(np.float64) - right[block], axis=1)
    return gaps
