"""Exact k-th neighbour distances, and the points inside the balls they define, on all cores and in bounded memory.

As in voting, a float32 matrix product bounds every squared distance from below and above, and only distances that the
bounds do not decide are summed in float64. With c a common centre, a = x - c and b = y - c, a squared distance lies in

    (1 -+ kappa) (|a|^2 + |b|^2) - 2 a.b,   kappa = k / (1 - k),   k = (d + 16) 2^-24.

The error of the product is twice d roundings of |a| |b| <= (|a|^2 + |b|^2) / 2 (Higham, Accuracy and Stability of
Numerical Algorithms, sect. 3.1); a and b, their squares and the sums add at most 11 more of |a|^2 + |b|^2.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from gape._support.compiled import compiled, compiled_part
from gape._support.parallel import blocks, cores, one_blas_thread, tile_side
from gape.core.types import Floats, Indices, Points
from gape.metrics.arrays import Array, dense_distances, is_tensor, like, row_blocks

_SPARE = 12  # near points kept beyond the k wanted, so that the bounds almost always decide the k-th
_CHUNK = 64  # points tested together; one vectorised test rejects nearly all chunks
_UNIT = 2.0**-24  # unit roundoff of float32
_TINY = 2.0**-126  # most that an underflow can lose in one operation


def neighbour_squares(points: Array, k: int) -> Floats:
    """Return the squared distances of each point to its k nearest OTHER points, ascending, (n, k), for 1 <= k < n.

    Other points are those with another index: a duplicate is a neighbour at distance zero.
    """
    if is_tensor(points):
        return _device_neighbours(points, k)
    field = _field(points, _centre(points))
    squares = np.empty((len(points), k))
    _in_parallel(lambda rows, side: _neighbours(field, rows, side, squares), points.shape)
    return squares


def members(centres: Array, squares: Floats, points: Array) -> tuple[Indices, Indices]:
    """Count the points in each closed ball, (n,), and the balls that hold each point, (m,).

    The balls have centres (n, d) and squared radii (n,); the points are (m, d).
    """
    if is_tensor(centres):
        return _device_members(centres, squares, points)
    centre = _centre(centres)
    balls, field = _field(centres, centre), _field(points, centre)
    in_ball = np.zeros(len(centres), dtype=np.int64)
    pieces: list[Indices] = []

    def work(rows: slice, side: int) -> None:
        around = np.zeros(len(points), dtype=np.int64)
        for tile, products in _tiles(centres[rows] - centre, field, side):
            bounds = balls.low[rows], balls.high[rows], field.low[tile], field.high[tile]
            _count_members(products, *bounds, squares[rows], centres[rows], points[tile], in_ball[rows], around[tile])
        pieces.append(around)

    _in_parallel(work, centres.shape)
    return in_ball, np.sum(pieces, axis=0)


@dataclass(frozen=True)
class _Field:
    """Points relative to a centre, and the two terms that they add to bounds on squared distances."""

    points: Points  # (n, d)
    centre: Points  # (d,)
    low: Points  # (n,), (1 - kappa) |a|^2, minus the most that underflow can lose
    high: Points  # (n,), (1 + kappa) |a|^2, plus as much


def _field(points: Points, centre: Points) -> _Field:
    norms = np.empty(len(points))
    for start in range(0, len(points), 1024):
        a = points[start : start + 1024] - centre
        norms[start : start + 1024] = np.einsum("ij,ij->i", a, a, dtype=np.float64)
    k = (points.shape[1] + 16) * _UNIT
    error = k / (1 - k) * norms + 4 * (points.shape[1] + 16) * _TINY
    return _Field(points, centre, (norms - error).astype(np.float32), (norms + error).astype(np.float32))


def _centre(points: Points) -> Points:
    mean: Floats = points.mean(axis=0, dtype=np.float64)
    return mean.astype(np.float32)


def _in_parallel(work: Callable[[slice, int], None], shape: tuple[int, ...]) -> None:
    """Call `work` with each block of the rows of an array of that shape, and with the side of a tile."""
    threads = cores()
    side = tile_side(shape[1], threads)
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda rows: work(rows, side), blocks(shape[0], threads, side)))


def _tiles(A: Points, field: _Field, side: int) -> Iterator[tuple[slice, Points]]:
    """Yield the products of the rows of A (r, d) with each tile of centred points: (r, c), overwritten by the next."""
    n, d = field.points.shape
    centred = np.empty((min(side, n), d), dtype=np.float32)
    products = np.empty(len(A) * len(centred), dtype=np.float32)
    for start in range(0, n, side):
        tile = slice(start, min(start + side, n))
        B = np.subtract(field.points[tile], field.centre, out=centred[: tile.stop - start])
        yield tile, np.matmul(A, B.T, out=products[: len(A) * len(B)].reshape(len(A), len(B)))


def _neighbours(field: _Field, rows: slice, side: int, squares: Floats) -> None:
    """Fill in rows of `squares`, (n, k), from the points with the least lower bounds, or from all if undecided."""
    X, (n, k) = field.points, squares.shape
    width = min(k + _SPARE, n - 1)
    bounds = np.full((rows.stop - rows.start, width), np.inf, dtype=np.float32)
    nearest = np.zeros(bounds.shape, dtype=np.int64)
    for tile, products in _tiles(X[rows] - field.centre, field, side):
        _keep_nearest(products, field.low[rows], field.low[tile], rows.start, tile.start, bounds, nearest)
    _sum_nearest(X, rows.start, nearest, squares[rows])
    if width == n - 1:
        return
    # The lower bound of a point that was not kept is at least that of all kept points. Zero cannot be undercut.
    reached = squares[rows, -1]
    undecided = rows.start + np.flatnonzero((reached > bounds[:, -1]) & (reached > 0))
    limits = squares[undecided, -1]
    least = np.full((len(undecided), k), np.inf)
    for tile, products in _tiles(X[undecided] - field.centre, field, side):
        _keep_exact(products, field.low[undecided], field.low[tile], undecided, tile.start, X, limits, least)
    squares[undecided] = least


@compiled
def _square(x: Points, y: Points) -> float:
    """Return the squared distance in float64, summed in the order of the coordinates, so that it is symmetric."""
    total = 0.0
    for k in range(x.shape[0]):
        difference = np.float64(x[k]) - np.float64(y[k])
        total += difference * difference
    return total


@compiled_part
def _insert(least: Floats, square: float) -> None:
    """Insert a value into the least ones, ascending, in place of the last if it is less."""
    slot = least.shape[0] - 1
    if square >= least[slot]:
        return
    while slot > 0 and least[slot - 1] > square:
        least[slot] = least[slot - 1]
        slot -= 1
    least[slot] = square


@compiled
def _keep_nearest(
    products: Points,
    row_low: Points,
    tile_low: Points,
    first_row: int,
    first_column: int,
    bounds: Points,
    nearest: Indices,
) -> None:
    """Update each row's least lower bounds, ascending, and their points with one more tile; a row skips itself."""
    r, c = products.shape
    last = bounds.shape[1] - 1
    for i in range(r):
        own = first_row + i - first_column
        for start in range(0, c, _CHUNK):
            stop = min(start + _CHUNK, c)
            # A loop from zero over slices vectorises, and so does a search for any hit, unlike a minimum.
            product, low = products[i, start:stop], tile_low[start:stop]
            limit = bounds[i, last] - row_low[i]
            hit = np.int32(0)
            for j in range(stop - start):
                hit |= np.int32(low[j] - np.float32(2.0) * product[j] < limit)
            if hit == 0:
                continue
            for j in range(stop - start):
                bound = row_low[i] + (low[j] - np.float32(2.0) * product[j])
                if bound >= bounds[i, last] or start + j == own:
                    continue
                slot = last
                while slot > 0 and bounds[i, slot - 1] > bound:
                    bounds[i, slot] = bounds[i, slot - 1]
                    nearest[i, slot] = nearest[i, slot - 1]
                    slot -= 1
                bounds[i, slot] = bound
                nearest[i, slot] = first_column + start + j


@compiled
def _sum_nearest(X: Points, first_row: int, nearest: Indices, squares: Floats) -> None:
    """Store for each row the k least squared distances to the points kept for it."""
    for i in range(nearest.shape[0]):
        for j in range(squares.shape[1]):
            squares[i, j] = np.inf
        for j in range(nearest.shape[1]):
            _insert(squares[i], _square(X[first_row + i], X[nearest[i, j]]))


@compiled
def _keep_exact(
    products: Points,
    row_low: Points,
    tile_low: Points,
    rows: Indices,
    first_column: int,
    X: Points,
    limits: Floats,
    least: Floats,
) -> None:
    """Update the least squared distances of undecided rows, ascending, with one more tile, skipping far points."""
    r, c = products.shape
    last = least.shape[1] - 1
    for i in range(r):
        for j in range(c):
            bound = row_low[i] + (tile_low[j] - np.float32(2.0) * products[i, j])
            if bound > limits[i] or bound > least[i, last] or first_column + j == rows[i]:
                continue
            _insert(least[i], _square(X[rows[i]], X[first_column + j]))


@compiled
def _count_members(
    products: Points,
    ball_low: Points,
    ball_high: Points,
    tile_low: Points,
    tile_high: Points,
    squares: Floats,
    centres: Points,
    points: Points,
    in_ball: Indices,
    around: Indices,
) -> None:
    """Count the points of one more tile in each ball, and the balls that hold each point."""
    r, c = products.shape
    for i in range(r):
        limit = np.float32(squares[i] - ball_low[i])
        for start in range(0, c, _CHUNK):
            stop = min(start + _CHUNK, c)
            product, low = products[i, start:stop], tile_low[start:stop]
            hit = np.int32(0)
            for j in range(stop - start):
                hit |= np.int32(low[j] - np.float32(2.0) * product[j] <= limit)
            if hit == 0:
                continue
            for j in range(start, stop):
                if tile_low[j] - np.float32(2.0) * products[i, j] > limit:
                    continue
                upper = ball_high[i] + (tile_high[j] - np.float32(2.0) * products[i, j])
                if upper < squares[i] or _square(centres[i], points[j]) <= squares[i]:
                    in_ball[i] += 1
                    around[j] += 1


def _device_neighbours(points: Array, k: int) -> Floats:
    squares = np.empty((len(points), k))
    for rows in row_blocks(len(points), len(points)):
        gaps = dense_distances(points[rows], points)
        gaps[:, rows].fill_diagonal_(np.inf)
        squares[rows] = gaps.topk(k, dim=1, largest=False, sorted=True).values.square().cpu().numpy()
    return squares


def _device_members(centres: Array, squares: Floats, points: Array) -> tuple[Indices, Indices]:
    in_ball = np.empty(len(centres), dtype=np.int64)
    around = np.zeros(len(points), dtype=np.int64)
    for rows in row_blocks(len(centres), len(points)):
        inside = dense_distances(centres[rows], points).square() <= like(squares[rows], centres)[:, None]
        in_ball[rows] = inside.sum(dim=1).cpu().numpy()
        around += inside.sum(dim=0).cpu().numpy()
    return in_ball, around
