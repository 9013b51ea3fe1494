"""Truncated distances computed on a GPU, in float64 as on the CPU.

Both computations are within 1e-8 of the exact distance, and the stored distances are rounded to float32. So the device
affects only the speed, and possibly the last digit of a float32.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from gape._support.memory import is_full, let_go
from gape.core.types import Costs, Indices, Points

# Below this share of the squared norms the expansion |x|^2 - 2xy + |y|^2 has lost half of its digits.
_CANCELLED = 1e-7

_BYTES = 2**28  # size of one float64 block on the device; there are a few at a time


def on_device(points: Points, device: str) -> DeviceCosts | None:
    """Copy points to a device; return None if it is full, and the CPU has to be used."""
    try:
        return DeviceCosts(points, device)
    except RuntimeError as error:
        if not is_full(error):
            raise
        let_go()
        return None


class DeviceCosts:
    """Costs between points that are stored on a torch device."""

    def __init__(self, points: Points, device: str) -> None:
        """Copy the points, (v, d), to the device. Only requested costs are copied back."""
        self.name = device
        self._torch: Any = importlib.import_module("torch")
        self._points = self._torch.from_numpy(np.ascontiguousarray(points)).to(device)

    def costs(self, rows: Indices, columns: Indices, cap: float, grid: float, dtype: type[np.floating[Any]]) -> Costs:
        """Return the distances between two sets of the points, at most `cap`, on multiples of `grid`."""
        torch = self._torch
        result = np.empty((len(rows), len(columns)), dtype=dtype)
        if not result.size:
            return result
        kind = torch.float32 if dtype == np.float32 else torch.float64
        right = self._load(columns)
        right_norms = (right * right).sum(1)
        count = max(1, _BYTES // (8 * len(columns)))
        for start in range(0, len(rows), count):
            left = self._load(rows[start : start + count])
            norms = (left * left).sum(1)[:, None] + right_norms[None, :]
            squared = norms - 2.0 * (left @ right.T)
            i, j = torch.nonzero(squared <= _CANCELLED * norms, as_tuple=True)
            for low in range(0, len(i), 4096):
                near = slice(low, low + 4096)
                squared[i[near], j[near]] = ((left[i[near]] - right[j[near]]) ** 2).sum(1)
            costs = squared.sqrt_().clamp_(max=cap)
            if grid > 0.0:
                costs = costs.div_(grid).round_().mul_(grid)
            torch.from_numpy(result[start : start + count]).copy_(costs.to(kind))
        return result

    def _load(self, indices: Indices) -> Any:
        return self._points[self._torch.from_numpy(indices).to(self.name)].double()
