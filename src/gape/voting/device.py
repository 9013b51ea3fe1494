"""The nearest candidates of each private record, exactly, on a GPU and at the speed of its matrix units.

Candidates are cut into groups of similar norm. One product of vectors rounded to float16 (11 bits, summed in float32)
gives, for each record and group, the largest score and a bound on its error. Groups that cannot contain a winner are
dropped. Of hundreds of groups this leaves one or two if there is one winner, and hardly more than one per winner if
there are several. A product in float64 then excludes candidates of the remaining groups in the same way. Candidates
that it cannot tell apart or put in order are compared by the definition. So the answer is that of
`reference_several_nearest`.

The rounding error of each vector is measured, not assumed. About the sums it is assumed that a matrix unit multiplies
float16 numbers exactly and adds at least four products at a time to its float32 sum, each of the terms and the result
truncated at the 24th bit of the largest (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores,
2021, found at least that for every generation).
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gape._support.memory import free_bytes
from gape.core.types import Indices, Points
from gape.voting.tops import DEPTH, GROUP, ROWS, Engine, engine, padded, pieces

_UNIT = 2.0**-24  # unit roundoff of float32
_TINY = 2.0**-126  # the most that an underflow, or flushing to zero, can lose in one operation
_SPARE = 1.001  # for the rounding of the bounds themselves
_LARGEST_EXPONENT = 60  # of a scale; still smaller numbers are left to float64
_SCRATCH = 2**30  # bytes of one step's temporaries
_BLOCK = 2**34  # bytes of the records that vote together: enough to keep a device busy, and leaves room for others
_PAIRS = 2**24  # pairs of a record and a candidate that are held before they are compared


@dataclass(frozen=True)
class Winners:
    """The nearest candidates of each record, nearest first, and the work that this took."""

    indices: Indices  # (n, count)
    groups: int  # groups of candidates
    looked_at: int  # groups that the float16 product could not exclude, over all records
    compared: int  # pairs of a record and a candidate that were compared by the definition


@dataclass(frozen=True)
class _Field:
    """The candidates on the device, sorted by norm, relative to their mean c.

    As on the CPU, the score of y for x is a.b - |b|²/2, where a = x - c and b = y - c. Computed from a' and b', rounded
    to float16, it is off by at most |a - a'| |b| + |a'| |b - b'| + γ |a'| |b'| + δ |b|² + η. The first two terms are
    exact, γ = 3d/2 2^-23 bounds the sums (see above; with four products at a time, six truncations for four terms), and
    a few float32 roundings are added to each.
    """

    points: Any  # (u, d), float32
    origin: Any  # (u,), int64: their indices among all candidates
    centre: Any  # (d,), float32
    norms: Any  # (u,), float64: |b|
    exact: Any  # (u, d + 2), float64: b and two more columns, so that [a, |a|, 1] yields upper bounds of the scores
    rounded: Any  # (groups * GROUP, k), float16: b' in its group's scale
    inverse: Any  # (groups,), float32, like all that follow: the inverse of the scale
    lift: Any  # (groups * GROUP,): -|b|²/2
    by_residual: Any  # (groups,): a bound on the error is |a - a'| by_residual + |a'| by_rounded + base
    by_rounded: Any
    base: Any


@dataclass(frozen=True)
class _Rows:
    """A block of private records on the device, relative to the candidates' mean. All but `points` end in zero rows."""

    points: Any  # (r, d), float32
    rounded: Any  # (rows, k), float16: a' in each row's scale
    inverse: Any  # (rows,), float32, like all that follow: the inverse of the scale
    residual: Any  # |a - a'|
    norms: Any  # |a'|
    slack: Any  # the error of float64 itself for points far from all candidates


class DeviceVoters:
    """Private records that vote on a torch device. They stay on it if they take at most half of its free memory.

    Otherwise they are sent again for each vote, in blocks. The device memory is freed with this object.
    """

    def __init__(self, points: Points | Any, device: str, *, memory: int | None = None) -> None:
        """Keep `points`, (n, d), an array or a tensor. `memory` replaces the device's free memory, in bytes."""
        self._torch: Any = importlib.import_module("torch")
        self._device = device
        self._memory = memory
        self._engine: Engine = engine(self._torch, device)
        self._points = self._tensor(points)
        if self._points.nbytes <= self._free() // 2:
            self._points = self._points.to(device)

    def nearest(self, candidates: Points, distinct: Indices, rows: Indices | None = None, *, count: int = 1) -> Winners:
        """Find the `count` nearest of the candidates, (v, d), for each record, or only for those at `rows`, in order.

        `distinct` contains the index of the first of each set of equal candidates, at least `count` of them.
        """
        field = self._field(candidates, distinct)
        n = len(self._points) if rows is None else len(rows)
        indices = np.empty((n, count), dtype=np.int64)
        looked_at = compared = 0
        # Bytes per row: the row itself, its rounded copy, its tops, and a few numbers while it is decided.
        bytes_per_row = 8 * field.points.shape[1] + 4 * len(field.inverse) + 256 * count
        for block in pieces(n, max(min(self._free() // 4, _BLOCK), _SCRATCH) // bytes_per_row):
            points = self._load(block, rows)
            decided, groups, pairs = self._decide(self._round(points, field), field, count)
            indices[block] = decided.cpu().numpy()
            looked_at += groups
            compared += pairs
        return Winners(indices, len(field.inverse), looked_at, compared)

    def _tensor(self, array: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about read-only arrays, which are not written to
            return self._torch.as_tensor(array)

    def _free(self) -> int:
        return free_bytes(self._device) if self._memory is None else self._memory

    def _load(self, block: slice, rows: Indices | None) -> Any:
        if rows is None:
            return self._points[block].to(self._device)
        wanted = self._torch.from_numpy(rows[block]).to(self._points.device)
        return self._points[wanted].to(self._device)

    def _power(self, exponents: Any) -> Any:
        """Return 2 to the power of these exponents, exactly."""
        return ((exponents.to(self._torch.int32) + 127) << 23).view(self._torch.float32)

    def _scale_exponent(self, peaks: Any) -> Any:
        """Return the exponent of the scale that brings the largest numbers to half of the float16 range."""
        return (15 - self._torch.frexp(peaks).exponent).clamp(max=_LARGEST_EXPONENT)

    def _field(self, candidates: Points, distinct: Indices) -> _Field:
        torch, double = self._torch, self._torch.float64
        chosen = candidates if len(distinct) == len(candidates) else candidates[distinct]
        points = self._tensor(chosen).to(self._device)
        (u, d), groups = points.shape, -(-len(points) // GROUP)
        centre = points.mean(0, dtype=double).float()
        parts = [torch.linalg.vector_norm(points[c].double() - centre, dim=1) for c in pieces(u, _SCRATCH // (16 * d))]
        norms, order = torch.cat(parts).sort(stable=True)
        points = points[order]

        k = 2 * (d + 16) * 2.0**-53
        k /= 1 - k
        exact = torch.empty(u, d + 2, dtype=double, device=self._device)
        exact[:, :d] = points
        exact[:, :d] -= centre
        exact[:, d] = k * norms
        exact[:, d + 1] = (k - 1) * norms**2 / 2

        padding = groups * GROUP - u
        rounded = torch.zeros(groups * GROUP, padded(d, DEPTH), dtype=torch.float16, device=self._device)
        residual, size = torch.zeros(2, groups * GROUP, dtype=double, device=self._device)
        inverse = torch.empty(groups, device=self._device)
        for chunk in pieces(groups, max(1, _SCRATCH // (GROUP * 32 * d))):
            here = slice(chunk.start * GROUP, min(chunk.stop * GROUP, u))
            b = exact[here, :d]
            peaks = torch.nn.functional.pad(b.abs().amax(1), (0, (chunk.stop - chunk.start) * GROUP - len(b)))
            exponent = self._scale_exponent(peaks.view(-1, GROUP).amax(1))
            scale, inverse[chunk] = self._power(exponent), self._power(-exponent)
            scaled = b * scale.double().repeat_interleave(GROUP)[: len(b), None]
            rounded[here, :d] = scaled.half()
            back = inverse[chunk].double().repeat_interleave(GROUP)[: len(b)]
            residual[here] = back * torch.linalg.vector_norm(scaled - rounded[here, :d], dim=1)
            size[here] = back * torch.linalg.vector_norm(rounded[here, :d], dim=1, dtype=double)
        lift = torch.nn.functional.pad(norms**2 / -2, (0, padding), value=-torch.inf).float()
        largest = torch.nn.functional.pad(norms, (0, padding)).view(-1, GROUP).amax(1)
        gamma = 1.5 * d * 2 * _UNIT
        gamma /= 1 - gamma
        by_rounded = (residual + (gamma + 16 * _UNIT) * size).view(-1, GROUP).amax(1)
        base = 16 * _UNIT * largest**2 + 4 * (d + 16) * _TINY
        bounds = ((_SPARE * bound).float() for bound in (largest, by_rounded, base))
        origin = torch.from_numpy(distinct).to(self._device)[order]
        return _Field(points, origin, centre, norms, exact, rounded, inverse, lift, *bounds)

    def _round(self, points: Any, field: _Field) -> _Rows:
        torch = self._torch
        r, d = points.shape
        rows = padded(r, ROWS)
        rounded = torch.zeros(rows, padded(d, DEPTH), dtype=torch.float16, device=self._device)
        inverse, residual, norms, slack = torch.zeros(4, rows, device=self._device)
        for chunk in pieces(r, _SCRATCH // (24 * d)):
            a = points[chunk] - field.centre
            exponent = self._scale_exponent(a.abs().amax(1))
            back = self._power(-exponent)
            a *= self._power(exponent)[:, None]
            rounded[chunk, :d] = a
            length = torch.linalg.vector_norm(a, dim=1, dtype=torch.float64) * back
            a -= rounded[chunk, :d]
            inverse[chunk] = back
            # The error of rounding to float16, plus that of `a` itself.
            residual[chunk] = (
                torch.linalg.vector_norm(a, dim=1, dtype=torch.float64) * back + 4 * _UNIT * length
            ) * _SPARE
            norms[chunk] = torch.linalg.vector_norm(rounded[chunk, :d], dim=1, dtype=torch.float64) * back * _SPARE
            slack[chunk] = 8 * (d + 16) * 2.0**-53 * length**2
        return _Rows(points, rounded, inverse, residual, norms, slack)

    def _tops(self, rows: _Rows, field: _Field) -> Any:
        """Return the largest float16 score of each row in each group, (groups, rows)."""
        tops = self._torch.empty(len(field.inverse), len(rows.rounded), device=self._device)
        self._engine(rows.rounded, rows.inverse, field.rounded, field.inverse, field.lift, tops)
        return tops

    def _decide(self, rows: _Rows, field: _Field, count: int) -> tuple[Any, int, int]:
        """Return the winners of each row, the number of groups looked at, and the number of pairs compared."""
        ballot = _Ballot(self._torch, rows.points, field, count)
        looked_at = 0
        for group, open_rows in self._open_groups(self._tops(rows, field), rows, field, count):
            looked_at += len(open_rows)
            for chunk in pieces(len(open_rows), _SCRATCH // (16 * (rows.points.shape[1] + GROUP))):
                ballot.consider(open_rows[chunk], slice(group * GROUP, (group + 1) * GROUP))
        ballot.close()
        return ballot.winners, looked_at, ballot.compared

    def _open_groups(self, tops: Any, rows: _Rows, field: _Field, count: int) -> Iterator[tuple[int, Any]]:
        """Yield each group with the rows that may have a winner in it.

        A group is open if the upper bound of its best score reaches the lower bounds of the `count` best groups.
        """
        torch, r = self._torch, len(rows.points)
        residual, norms = rows.residual[:r], rows.norms[:r]

        def error(groups: slice) -> Any:
            by_residual, by_rounded, base = (
                bound[groups, None] for bound in (field.by_residual, field.by_rounded, field.base)
            )
            return torch.addcmul(torch.addcmul(base, norms, by_rounded), residual, by_residual)

        lowest = torch.full((count, r), -torch.inf, device=self._device)
        chunks = pieces(len(tops), max(1, _SCRATCH // (16 * r)))
        for chunk in chunks:
            lowest = _greatest(torch, lowest, tops[chunk, :r] - error(chunk), dim=0)
        floor = lowest[-1] - rows.slack[:r]
        for chunk in chunks:
            is_open = tops[chunk, :r] + error(chunk) >= floor
            open_rows = is_open.nonzero(as_tuple=True)[1].split(is_open.sum(1).tolist())
            yield from ((group, members) for group, members in enumerate(open_rows, chunk.start) if len(members))


class _Ballot:
    """The winners of a block of rows, updated as each group of candidates is compared in float64."""

    def __init__(self, torch: Any, points: Any, field: _Field, count: int) -> None:
        self._torch, self._points, self._field, self._count = torch, points, field, count
        shape, device = (len(points), count), points.device
        self.winners = torch.full(shape, torch.iinfo(torch.int64).max, device=device)
        self.compared = 0
        self._least = torch.full(shape, torch.inf, dtype=torch.float64, device=device)
        self._lowest = torch.full(shape, -torch.inf, dtype=torch.float64, device=device)
        self._pairs: list[tuple[Any, Any, Any]] = []
        self._held = 0

    def consider(self, rows: Any, columns: slice) -> None:
        """Keep the pairs of these rows and candidates that the float64 bounds do not exclude."""
        torch, field = self._torch, self._field
        a = self._points.new_empty(len(rows), field.exact.shape[1], dtype=torch.float64)
        a[:, :-2] = self._points[rows]
        a[:, :-2] -= field.centre
        reach = torch.linalg.vector_norm(a[:, :-2], dim=1)
        a[:, -2] = reach
        a[:, -1] = 1.0
        upper = a @ field.exact[columns].T
        # Twice the error of the score, and the error of the definition itself.
        k = 4 * 2 * (len(field.centre) + 16) * 2.0**-53
        lower = upper - k * (reach[:, None] + field.norms[columns]) ** 2
        lowest = _greatest(torch, self._lowest[rows], lower, dim=1)
        self._lowest[rows] = lowest
        i, j = (upper >= lowest[:, -1:]).nonzero(as_tuple=True)
        self._pairs.append((rows[i], j + columns.start, upper[i, j]))
        self._held += len(i)
        if self._held > _PAIRS + self._lowest.numel():
            self._compare(*self._gather())

    def close(self) -> None:
        """Decide the remaining pairs. With one winner and one candidate left, no comparison is needed."""
        rows, columns = self._gather()
        alone = self._torch.bincount(rows, minlength=len(self._least))[rows] == 1
        alone &= self._least[rows, -1].isinf() & (self._count == 1)
        self.winners[rows[alone], 0] = self._field.origin[columns[alone]]
        self._compare(rows[~alone], columns[~alone])

    def _gather(self) -> tuple[Any, Any]:
        """Return the held pairs that reach the current floor, and forget all."""
        rows, columns, upper = (self._torch.cat(parts) for parts in zip(*self._pairs, strict=True))
        self._pairs, self._held = [(rows[:0], columns[:0], upper[:0])], 0
        kept = upper >= self._lowest[rows, -1]
        return rows[kept], columns[kept]

    def _compare(self, rows: Any, columns: Any) -> None:
        """Compare pairs by the definition: the nearest candidate wins, and of equally near ones the first."""
        self.compared += len(rows)
        for chunk in pieces(len(rows), max(1, _SCRATCH // (24 * self._points.shape[1]))):
            chunk_rows = rows[chunk]
            self._rank(chunk_rows, self._field.origin[columns[chunk]], self._squares(chunk_rows, columns[chunk]))

    def _rank(self, rows: Any, origin: Any, squares: Any) -> None:
        """Keep the best of the earlier winners and these candidates, in order."""
        torch = self._torch
        known = rows.unique()
        own, rank = self._least[known].isfinite().nonzero(as_tuple=True)
        own = known[own]
        rows, origin = torch.cat([own, rows]), torch.cat([self.winners[own, rank], origin])
        squares = torch.cat([self._least[own, rank], squares])
        order = origin.argsort()
        for key in (squares, rows):
            order = order[key[order].argsort(stable=True)]
        rows, origin, squares = rows[order], origin[order], squares[order]
        first = torch.searchsorted(rows, rows)  # where each row begins
        rank = torch.arange(len(rows), device=rows.device) - first
        ahead = rank < self._count
        self.winners[rows[ahead], rank[ahead]] = origin[ahead]
        self._least[rows[ahead], rank[ahead]] = squares[ahead]

    def _squares(self, rows: Any, columns: Any) -> Any:
        """Add up the squared differences in the order of the coordinates, as the definition does."""
        terms = self._points[rows].T.contiguous().double()
        terms -= self._field.points[columns].T
        terms *= terms
        total = self._torch.zeros_like(terms[0])
        for term in terms:
            total += term
        return total


def _greatest(torch: Any, before: Any, values: Any, *, dim: int) -> Any:
    """Update the greatest values along `dim`, greatest first, with further values."""
    count = before.shape[dim]
    if count == 1:  # faster than sorting
        return torch.maximum(before, values.amax(dim, keepdim=True))
    top = values.topk(min(count, values.shape[dim]), dim=dim).values
    return torch.cat([before, top], dim=dim).topk(count, dim=dim).values
