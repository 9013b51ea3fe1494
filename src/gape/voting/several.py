"""The k nearest candidates of each private record, exactly, on all cores.

As in `nearest.py`, a float32 matrix product bounds every score from above and below. The k-th greatest lower bound of a
row is a floor that k candidates certainly reach. Only candidates whose upper bound reaches it, k and rarely more, are
compared in float64. So the answer is that of `reference_several_nearest`, at the price of two float32 products.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape._support.compiled import compiled
from gape._support.parallel import blocks, cores, one_blas_thread, tile_side
from gape.core.errors import InputError
from gape.core.types import Floats, Indices, Points
from gape.voting.field import CHUNK, Field, distinct_rows, field_of, norms_of, settle, tiles
from gape.voting.nearest import Voters, check_points, check_widths, nearest


def several_nearest(
    private: NDArray[Any] | Voters, candidates: NDArray[Any], count: int, rows: Indices | None = None
) -> Indices:
    """Find the `count` candidates at the least Euclidean distances from each private record, nearest first.

    Of candidates at equal distance the first counts as nearer. Of equal candidates only the first is returned, so if
    there are fewer than `count` different ones, all of them are. Distances are those of `nearest`. The result is
    private. As for `nearest`, a GPU is used if there is one and it is worth it.

    private: (n, d), candidates: (v, d), result: (n, min(count, different candidates)). With `rows`, only those records
    vote, in that order.
    """
    if count < 1:
        raise InputError(f"a record must vote for at least 1 candidate, got {count}; use 1 or more")
    if count == 1:
        return nearest(private, candidates, rows)[:, None]
    voters = private if isinstance(private, Voters) else Voters(private)
    Y = check_points(candidates, "candidate embeddings")
    check_widths(voters.points, Y)
    by_device = voters.by_device(Y, count, rows)
    if by_device is not None:
        return by_device
    X = voters.points if rows is None else voters.points[rows]
    threads = cores()
    side = tile_side(X.shape[1], threads)
    field = field_of(Y, side)
    winners = np.empty((len(X), min(count, len(field.distinct))), dtype=np.int64)

    def find(block: slice) -> None:
        winners[block] = _several(X[block], field, winners.shape[1], side)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(find, blocks(len(X), threads, side)))
    return field.distinct[winners]


def reference_several_nearest(private: NDArray[Any], candidates: NDArray[Any], count: int) -> Indices:
    """Return the same as `several_nearest`, slowly, by the definition: all distances in float64, sorted."""
    X = check_points(private, "private embeddings").astype(np.float64)
    distinct = distinct_rows(check_points(candidates, "candidate embeddings"))
    Y = check_points(candidates, "candidate embeddings")[distinct].astype(np.float64)
    # cumsum adds in order; sum does not.
    order = [np.cumsum((Y - x) ** 2, axis=1)[:, -1].argsort(kind="stable")[:count] for x in X]
    return distinct[np.array(order)]


def _several(X: Points, field: Field, count: int, side: int) -> Indices:
    """Find the nearest candidates of a block of rows, (r, d), as positions in field.distinct, (r, count).

    The products are computed twice instead of being kept, so that memory does not grow with the candidates.
    """
    A = X - field.centre
    norms = norms_of(A)
    reach = norms.astype(np.float32)
    lowest = np.full((len(X), count), -np.inf)
    for tile, products in tiles(A, field, side):
        _raise_floors(products, reach, field.slope[tile], field.shift[tile], field.blur[tile], lowest)
    # Minus the error of float64 itself for points far from all candidates.
    floor = lowest[:, -1] - 4 * (A.shape[1] + 16) * 2.0**-53 * norms**2
    least = np.full((len(X), count), np.inf)
    winners = np.zeros((len(X), count), dtype=np.int64)
    rows = np.arange(len(X))
    for tile, products in tiles(A, field, side):
        bounds = (products, reach, field.slope[tile], field.shift[tile], floor)
        settle(*bounds, X, rows, field.points, field.distinct[tile], tile.start, least, winners)
    return winners


@compiled
def _raise_floors(products: Points, reach: Points, slope: Points, shift: Points, blur: Points, lowest: Floats) -> None:
    """Update each row's greatest lower bounds, greatest first, with one more tile."""
    r, c = products.shape
    last = lowest.shape[1] - 1
    for i in range(r):
        for low in range(0, c, CHUNK):
            high = min(low + CHUNK, c)
            # A loop from zero over slices vectorises; a lower bound is no greater than an upper one.
            product, tilt, lift = products[i, low:high], slope[low:high], shift[low:high]
            floor = np.float32(lowest[i, last])
            hit = np.int32(0)
            for j in range(high - low):
                hit |= np.int32(product[j] + (reach[i] * tilt[j] + lift[j]) >= floor)
            if hit == 0:
                continue
            for j in range(high - low):
                upper = product[j] + (reach[i] * tilt[j] + lift[j])
                lower = np.float64(upper) - 2 * (np.float64(reach[i]) * slope[low + j] + blur[low + j])
                if lower <= lowest[i, last]:
                    continue
                rank = last
                while rank > 0 and lowest[i, rank - 1] < lower:
                    lowest[i, rank] = lowest[i, rank - 1]
                    rank -= 1
                lowest[i, rank] = lower
