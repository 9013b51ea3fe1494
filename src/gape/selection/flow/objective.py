"""The paper's local-search objective (Definition "Local-Search Objective"), exact."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from gape._support.compiled import in_threads, threads
from gape._support.geometry import distances
from gape._support.memory import is_full, let_go
from gape._support.parallel import one_blas_thread
from gape.core.errors import InputError
from gape.core.types import Costs, Floats, Indices, NoisyVotes, Points
from gape.selection.flow import simplex as flow
from gape.selection.flow.device import DeviceCosts

_SIDE = 512  # side of a tile of distances, whose temporaries stay in the caches


@dataclass(frozen=True)
class SignedPoints:
    """Weighted points split by sign, with the truncated distance c(x, y) = min(rho(x, y), R/3) between them."""

    points: Points  # (v, d)
    sources: Indices  # D+: points of positive weight
    sinks: Indices  # D-: points of negative weight
    supply: Floats  # (p,): w_x
    demand: Floats  # (q,): -w_y
    cap: float  # R/3
    scale: float  # at least the largest truncated distance between any two of the points
    device: DeviceCosts | None = None  # GPU that computes the distances; None for the CPU

    @property
    def feasible(self) -> bool:
        """Whether the positive weight suffices to cancel all of the negative weight."""
        return float(self.supply.sum()) >= float(self.demand.sum())

    def costs(self, rows: Indices, columns: Indices, dtype: type[np.floating[Any]] = np.float64) -> Costs:
        """Return c(x, y) between two sets of the points, (rows, columns), rounded to what `dtype` holds."""
        if self.device is not None:
            try:
                return self.device.costs(rows, columns, self.cap, flow.grid_of(self.scale), dtype)
            except RuntimeError as error:
                if not is_full(error):
                    raise
                let_go()  # and compute on the CPU
        costs = np.empty((len(rows), len(columns)), dtype=dtype)
        left, right = (self.points[indices].astype(np.float64) for indices in (rows, columns))

        def fill(_: int, corner: tuple[int, int]) -> None:
            at, of = (slice(start, start + _SIDE) for start in corner)
            rho = distances(left[at], right[of])
            costs[at, of] = flow.on_grid(np.minimum(rho, self.cap, out=rho), self.scale)

        corners = list(product(range(0, len(rows), _SIDE), range(0, len(columns), _SIDE)))
        if len(corners) == 1:
            fill(0, corners[0])
        else:
            with one_blas_thread():
                in_threads(fill, range(threads()), corners)
        return costs


def signed_points(points: Points, weights: NoisyVotes | Floats, separation: float) -> SignedPoints:
    """Check points, weights and separation, and split them by sign."""
    points = np.asarray(points)
    w = np.asarray(weights, dtype=np.float64)
    if points.ndim != 2 or w.shape != points.shape[:1] or not len(w):
        raise InputError(
            f"points must be (v, d) and weights (v,) with v >= 1, got {points.shape} and {w.shape}; "
            "give one weight per point"
        )
    if not np.isfinite(points).all() or not np.isfinite(w).all():
        raise InputError("points and weights must be finite, got NaN or infinity; drop those candidates")
    if not separation > 0:
        raise InputError(f"separation must be positive, got {separation}; use inf for no truncation")
    w = flow.weights_on_grid(w)
    # Twice the largest distance to one point bounds the distance between any two.
    widest = 2.0 * float(distances(points[:1], points).max())
    return SignedPoints(
        points=points,
        sources=np.flatnonzero(w > 0),
        sinks=np.flatnonzero(w < 0),
        supply=w[w > 0],
        demand=-w[w < 0],
        cap=separation / 3,
        scale=min(separation / 3, widest),
    )


def check_selected(selected: Indices, count: int) -> Indices:
    """Return the selected indices as an array, or refuse them."""
    indices = np.asarray(selected, dtype=np.int64)
    if indices.ndim != 1 or not len(indices):
        raise InputError(
            f"selected must be a non-empty list of indices, got shape {indices.shape}; select at least one point"
        )
    if indices.min() < 0 or indices.max() >= count:
        raise InputError(
            f"selected indices must be in 0..{count - 1}, got {indices.min()}..{indices.max()}; index into the points"
        )
    return indices


def flow_cost(points: Points, weights: NoisyVotes | Floats, selected: Indices, separation: float) -> float:
    """Minimum cost of sending every positive weight to a negative one or to a selected point.

    min_f sum_{x in D+, y in D-} c(x, y) f(x, y) + sum_{x in D+, z in selected} c(x, z) f(x, z), where x sends
    exactly w_x, y receives exactly -w_y, and c(x, y) = min(rho(x, y), separation / 3). Infinite if the negative
    weight exceeds the positive. `selected` are indices into `points`, (v, d); `weights` is (v,).
    """
    signed = signed_points(points, weights, separation)
    selected = check_selected(selected, len(signed.points))
    if not signed.feasible:
        return float("inf")
    if not len(signed.sources):
        return 0.0
    nearest = signed.costs(signed.sources, selected).min(axis=1)
    net = flow.network(signed.costs(signed.sources, signed.sinks), signed.supply, signed.demand, nearest)
    flow.optimise(net)
    return float(flow.total_cost(net))
