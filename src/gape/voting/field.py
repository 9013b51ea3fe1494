"""Candidates relative to their mean, with bounds on the float32 errors of the scores that compare them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gape._support.compiled import compiled
from gape.core.types import Floats, Indices, Points

_UNIT = 2.0**-24  # unit roundoff of float32
_TINY = 2.0**-126  # the most that an underflow, or flushing to zero, can lose in one operation
CHUNK = 64  # items tested together; one vectorised test rejects nearly all chunks


@dataclass(frozen=True)
class Field:
    """The candidates relative to their mean c, and bounds on the error of a float32 score.  All public.

    The score of y for x is a.b - |b|²/2, where a = x - c and b = y - c: the larger, the nearer.  Evaluated in
    float32 it is off by at most slope |a| + blur, where slope = κ|b| and blur = κ|b|²/2 + η:

    - κ = k / (1 - k), k = (d + 16) 2^-24.  Of these, d roundings bound a product of length d in any order of
      summation (Higham, Accuracy and Stability of Numerical Algorithms, sect. 3.1), 2 are those of a and b,
      at most 8 those of |b|²/2 and of adding the bounds up, the rest is spare;
    - η covers underflow.
    """

    points: Points  # (v, d), all of them
    distinct: Indices  # (u,), the first of each set of equal rows, ascending
    centre: Points  # (d,)
    slope: Points  # (u,)
    blur: Points  # (u,)
    shift: Points  # (u,), blur - |b|²/2: with it a product becomes an upper bound


def field_of(Y: Points, side: int) -> Field:
    """Centre the candidates, (v, d), on their mean, `side` of them at a time."""
    distinct = distinct_rows(Y)
    centre = Y.mean(axis=0, dtype=np.float64).astype(np.float32)
    norms = np.empty(len(distinct))
    for start in range(0, len(distinct), side):
        B = Y[distinct[start : start + side]] - centre
        norms[start : start + side] = norms_of(B)
    d = Y.shape[1]
    k = (d + 16) * _UNIT
    slope = k / (1 - k) * norms
    blur = slope * norms / 2 + 4 * (d + 16) * _TINY
    shift = blur - norms**2 / 2
    return Field(Y, distinct, centre, *(bound.astype(np.float32) for bound in (slope, blur, shift)))


def distinct_rows(Y: Points) -> Indices:
    """Find the first of each set of equal rows. Candidates drawn with replacement would otherwise all be ties."""
    _, first, key = np.unique(_keys(Y), return_index=True, return_inverse=True)
    twin = first[key]
    repeated = np.flatnonzero(twin != np.arange(len(Y)))
    kept = np.ones(len(Y), dtype=np.bool_)
    kept[repeated] = [not np.array_equal(Y[j], Y[twin[j]]) for j in repeated]
    return np.flatnonzero(kept)


def _keys(Y: Points) -> NDArray[np.uint64]:
    """Hash each row. Equal rows have equal keys, and -0.0 equals 0.0."""
    factors = np.random.default_rng(0).integers(2**64, size=Y.shape[1:], dtype=np.uint64)
    factors |= np.uint64(1)  # odd, so that a difference in one coordinate is never lost
    keys = np.empty(len(Y), dtype=np.uint64)
    _hash(Y.view(np.uint32), factors, keys)
    return keys


@compiled
def _hash(bits: NDArray[np.uint32], factors: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Sum the products of each row's bits with the factors, modulo 2^64."""
    n, d = bits.shape
    for i in range(n):
        key = np.uint64(0)
        for k in range(d):
            word = bits[i, k]
            key += np.uint64(0 if word == 0x80000000 else word) * factors[k]  # -0.0
        keys[i] = key


def norms_of(points: Points) -> Floats:
    """Return the Euclidean norm of each row."""
    squares: Floats = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    return np.sqrt(squares)


def tiles(A: Points, field: Field, side: int) -> Iterator[tuple[slice, Points]]:
    """Multiply the rows of A (r, d) with each tile of centred candidates. The (r, c) result is reused by the next."""
    u, d = len(field.distinct), A.shape[1]
    candidates = np.empty((min(side, u), d), dtype=np.float32)
    products = np.empty(len(A) * len(candidates), dtype=np.float32)
    for start in range(0, u, side):
        tile = slice(start, min(start + side, u))
        B = candidates[: tile.stop - start]
        np.take(field.points, field.distinct[tile], axis=0, out=B, mode="clip")  # the default mode buffers
        B -= field.centre
        yield tile, np.matmul(A, B.T, out=products[: len(A) * len(B)].reshape(len(A), len(B)))


@compiled
def settle(
    products: Points,
    reach: Points,
    slope: Points,
    shift: Points,
    floor: Floats,
    X: Points,
    rows: Indices,
    Y: Points,
    distinct: Indices,
    start: int,
    least: Floats,
    winners: Indices,
) -> None:
    """Update the least float64 distances of some rows of X, least first, and their candidates, with one more tile.

    Only candidates whose upper bound reaches a row's floor are compared. least, winners: (r, count), products: (r, c).
    """
    r, c = products.shape
    d = X.shape[1]
    last = least.shape[1] - 1
    for i in range(r):
        x = X[rows[i]]
        for j in range(c):
            if products[i, j] + (reach[i] * slope[j] + shift[j]) < floor[i]:
                continue
            y = Y[distinct[j]]
            square = 0.0
            for low in range(0, d, CHUNK):
                for k in range(low, min(low + CHUNK, d)):
                    difference = np.float64(x[k]) - np.float64(y[k])
                    square += difference * difference
                if square > least[i, last]:  # it can only grow
                    break
            if square >= least[i, last]:  # of equal distances the first stays
                continue
            rank = last
            while rank > 0 and least[i, rank - 1] > square:
                least[i, rank] = least[i, rank - 1]
                winners[i, rank] = winners[i, rank - 1]
                rank -= 1
            least[i, rank] = square
            winners[i, rank] = start + j
