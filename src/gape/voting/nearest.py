"""The nearest candidate of each private record: the votes of Private Evolution, exactly, on all cores.

A float32 matrix product bounds every score from above and below. A leader whose bounds no other candidate's overlap has
won. The few rows left open are decided in float64, among the candidates that remain. So the answer is that of
`reference_nearest` for any blocks, threads and BLAS, at the price of one float32 product.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape._support.compiled import compiled
from gape._support.memory import is_full, let_go
from gape._support.parallel import blocks, cores, cuda, one_blas_thread, tile_side
from gape.core.errors import InputError
from gape.core.types import Counts, Floats, Indices, Points
from gape.voting.device import DeviceVoters
from gape.voting.field import CHUNK, Field, distinct_rows, field_of, norms_of, settle, tiles

MAX_NORM = 1e18  # squares of norms and of distances stay finite in float32
MAX_WIDTH = 2**20  # the rounding error of a float32 product of this length is still at most a few per cent

_SMALL = 2**22  # multiplications; fewer take less time than starting threads
_WORTH = 2**39  # multiplications; fewer take less time than importing torch and sending the points


def nearest_votes(private: NDArray[Any] | Voters, candidates: NDArray[Any]) -> Counts:
    """Count for each candidate the private records it is nearest to (Alg. 2, nearest-neighbour histogram).

    Replacing one record moves one vote.  The counts are exact and private: add noise before using them.
    Inputs, ties and errors are those of `nearest`.

    private: (n, d), candidates: (v, d), result: (v,), summing to n.
    """
    return np.bincount(nearest(private, candidates), minlength=len(candidates)).astype(np.int64, copy=False)


def nearest(private: NDArray[Any] | Voters, candidates: NDArray[Any], rows: Indices | None = None) -> Indices:
    """Find the candidate at the least Euclidean distance from each private record; ties go to the first.

    Inputs are converted to float32. Squared distances are summed over the coordinates in order in float64. Apart from
    the inputs, and a few numbers per row, memory use is fixed. The winner of each record is private. If the work is
    large enough and torch finds a GPU, the GPU is used; the winners are the same.

    private: (n, d), candidates: (v, d), result: (n,).  With `rows`, only those records vote, in that order.
    """
    voters = private if isinstance(private, Voters) else Voters(private)
    return voters.nearest(candidates, rows)


class Voters:
    """Private records that vote in many rounds. They are checked once, and kept on a GPU if that is worth it."""

    def __init__(self, private: NDArray[Any]) -> None:
        """Keep `private`, (n, d), without copying: it must not be changed afterwards."""
        self.points = check_points(private, "private embeddings")
        self._by_device: DeviceVoters | None = None
        self._device_full = False

    def nearest(self, candidates: NDArray[Any], rows: Indices | None = None) -> Indices:
        """Return the same as the function `nearest`."""
        X, Y = self.points, check_points(candidates, "candidate embeddings")
        check_widths(X, Y)
        winners = self.by_device(Y, 1, rows)
        if winners is not None:
            return winners[:, 0]
        threads = cores()
        voting = X if rows is None else X[rows]
        return _nearest(voting, Y, threads=threads, side=tile_side(X.shape[1], threads))

    def by_device(self, candidates: Points, count: int, rows: Indices | None = None) -> Indices | None:
        """Return the same as `several_nearest`, computed on a GPU; None if there is none or it is not worth it."""
        work = (len(self.points) if rows is None else len(rows)) * candidates.size
        device = cuda() if work >= _WORTH and not self._device_full else None
        if not device:
            return None
        distinct = distinct_rows(candidates)
        try:
            self._by_device = self._by_device or DeviceVoters(self.points, device)
            return self._by_device.nearest(candidates, distinct, rows, count=min(count, len(distinct))).indices
        except RuntimeError as error:
            if not is_full(error):
                raise
            self._by_device, self._device_full = None, True
            let_go()
            message = "the GPU has too little free memory for the votes, so they are counted on the CPU"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
            return None


def reference_nearest(private: NDArray[Any], candidates: NDArray[Any]) -> Indices:
    """Return the same as `nearest`, slowly, by the definition: all distances in float64, the first of the least.

    private: (n, d), candidates: (v, d), result: (n,).
    """
    X = check_points(private, "private embeddings").astype(np.float64)
    Y = check_points(candidates, "candidate embeddings").astype(np.float64)
    # cumsum adds in order; sum does not.
    return np.array([np.cumsum((Y - x) ** 2, axis=1)[:, -1].argmin() for x in X], dtype=np.int64)


def check_points(array: NDArray[Any], name: str) -> Points:
    """Return the array as contiguous float32 points, or raise an error that contains none of its values.

    `name` is a plural, such as "private embeddings". A contiguous float32 array is returned without copying.
    """
    points = np.asarray(array)
    if points.dtype.kind not in "fiu":
        raise InputError(f"{name} must be real numbers, got dtype {points.dtype}; convert them to float32")
    if points.ndim != 2:
        raise InputError(f"{name} must be 2-D (points, dimensions), got shape {points.shape}; reshape them")
    if 0 in points.shape:
        raise InputError(f"{name} must not be empty, got shape {points.shape}; give at least one row and column")
    if points.shape[1] > MAX_WIDTH:
        raise InputError(
            f"{name} must have at most {MAX_WIDTH} columns, got shape {points.shape}; reduce their dimension"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        points = np.ascontiguousarray(points, dtype=np.float32)
        squares = np.einsum("ij,ij->i", points, points)
        suspects = np.flatnonzero(~(squares < MAX_NORM**2))
    # Row by row, because a mask of the whole array would be a quarter of its size.
    if any(not np.isfinite(points[i]).all() for i in suspects):
        raise InputError(f"{name} contain NaN or infinite values as float32; remove or correct those rows")
    if suspects.size:
        raise InputError(f"{name} must have norms below {MAX_NORM:g}, got larger ones; rescale all points alike")
    return points


def check_widths(private: Points, candidates: Points) -> None:
    """Refuse two sets of points of different dimension."""
    if private.shape[1] != candidates.shape[1]:
        raise InputError(
            f"private and candidate embeddings must have the same width, got {private.shape[1]} and "
            f"{candidates.shape[1]}; embed both with the same embedder"
        )


def _nearest(X: Points, Y: Points, *, threads: int, side: int) -> Indices:
    field = field_of(Y, side)
    leader = np.empty(len(X), dtype=np.int64)
    floor = np.empty(len(X))
    is_open = np.empty(len(X), dtype=np.bool_)

    def lead(block: slice) -> None:
        leader[block], floor[block], is_open[block] = _lead_block(X[block], field, side)

    def decide(block: slice) -> None:
        leader[rows[block]] = _settle_block(X, rows[block], floor[rows[block]], field, side)

    if X.size * len(Y) < _SMALL:
        lead(slice(0, len(X)))
        rows = np.flatnonzero(is_open)
        decide(slice(0, len(rows)))
        return field.distinct[leader]
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(lead, blocks(len(X), threads, side)))
        rows = np.flatnonzero(is_open)
        list(pool.map(decide, blocks(len(rows), threads, side)))
    return field.distinct[leader]


def _lead_block(X: Points, field: Field, side: int) -> tuple[Indices, Floats, NDArray[np.bool_]]:
    """Bound all scores of a block of rows.

    X: (r, d), results, all (r,): the leader, as a position in field.distinct; the floor that another candidate's upper
    bound must reach for the row to stay open; whether any does.
    """
    A = X - field.centre
    norms = norms_of(A)
    reach = norms.astype(np.float32)
    best, second = np.full((2, len(X)), -np.inf, dtype=np.float32)
    leader = np.zeros(len(X), dtype=np.int64)
    for tile, products in tiles(A, field, side):
        _lead(products, reach, field.slope[tile], field.shift[tile], tile.start, best, second, leader)
    # The leader's lower bound, minus the error of float64 itself for points far from all candidates.
    error = norms * field.slope[leader] + field.blur[leader]
    floor = best - 2 * error - 4 * (A.shape[1] + 16) * 2.0**-53 * norms**2
    return leader, floor, second >= floor


def _settle_block(X: Points, rows: Indices, floor: Floats, field: Field, side: int) -> Indices:
    """Decide a block of open rows in float64 among the candidates whose upper bound reaches the floor.

    The products are computed again instead of being kept, so that memory does not grow with the number of ties.

    X: (n, d), rows and floor: (r,), result: (r,), positions in field.distinct.
    """
    A = X[rows] - field.centre
    reach = norms_of(A).astype(np.float32)
    least = np.full((len(rows), 1), np.inf)
    winner = np.zeros((len(rows), 1), dtype=np.int64)
    for tile, products in tiles(A, field, side):
        bounds = (products, reach, field.slope[tile], field.shift[tile], floor)
        settle(*bounds, X, rows, field.points, field.distinct[tile], tile.start, least, winner)
    return winner[:, 0]


@compiled
def _lead(
    products: Points,
    reach: Points,
    slope: Points,
    shift: Points,
    start: int,
    best: Points,
    second: Points,
    leader: Indices,
) -> None:
    """Update each row's two greatest upper bounds, and the candidate of the greatest, with one more tile."""
    r, c = products.shape
    for i in range(r):
        for low in range(0, c, CHUNK):
            high = min(low + CHUNK, c)
            # A loop from zero over slices vectorises, and so does a search for any hit, unlike a maximum.
            product, tilt, lift = products[i, low:high], slope[low:high], shift[low:high]
            hit = np.int32(0)
            for j in range(high - low):
                hit |= np.int32(product[j] + (reach[i] * tilt[j] + lift[j]) > second[i])
            if hit == 0:
                continue
            for j in range(high - low):
                upper = product[j] + (reach[i] * tilt[j] + lift[j])
                if upper > best[i]:
                    second[i] = best[i]
                    best[i] = upper
                    leader[i] = start + low + j
                elif upper > second[i]:
                    second[i] = upper
