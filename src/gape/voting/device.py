"""Which candidates each private record is nearest to, exactly, on a GPU and at the speed of its matrix units.

Candidates are cut into groups of similar norm. One product of halves (float16, 11 bits, summed in float32) gives, for
every record and group, the largest score and how far off it can be; groups that cannot hold a winner are dropped, which
leaves one or two of hundreds where there is one winner, and hardly more than one for each where there are several. A
product in float64 does the same for the candidates of those groups, and those that it cannot tell apart, or put in
order, are compared by the definition. So the answer is that of `reference_several_nearest`.

Nothing is assumed of the halves but what is measured: how far each vector is from its own. Of the sums it is assumed
that a matrix unit multiplies halves exactly and adds at least four products at a time to its float32 sum, each of the
terms and the result cut off, not rounded, at the 24th bit of the largest (Fasi, Higham, Mikaitis and Pranesh, Numerical
behavior of NVIDIA tensor cores, 2021, found at least that for every generation).
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
_TINY = 2.0**-126  # what an underflow, or a unit that flushes them to zero, can lose in one operation
_SPARE = 1.001  # for the rounding of the bounds themselves
_LOUDEST = 60  # exponent of the largest scale: what is smaller still is left to float64
_SCRATCH = 2**30  # bytes of one step's temporaries
_BLOCK = 2**34  # bytes of the records that vote together: enough to keep a device busy, and others have room beside it
_PAIRS = 2**24  # of a record and a candidate, that are held before they are compared


@dataclass(frozen=True)
class Winners:
    """The nearest candidates of each record, nearest first, with what it took to know."""

    indices: Indices  # (n, count)
    groups: int  # of candidates
    looked_at: int  # groups that halves could not exclude, over all records
    compared: int  # pairs of a record and a candidate that were compared by the definition


@dataclass(frozen=True)
class _Field:
    """The candidates on the device, by norm, seen from their mean c.

    As on the processor, the score of y for x is a.b - |b|²/2, where a = x - c and b = y - c. By halves a' and b' it is
    off by at most |a - a'| |b| + |a'| |b - b'| + γ |a'| |b'| + δ |b|² + η: the first two are exact, γ = 3d/2 2^-23 is
    for the sums (see above; with four products at a time, six cuts for four terms), and a few roundings of float32 are
    added to each.
    """

    points: Any  # (u, d), float32
    origin: Any  # (u,), int64: where they are among all candidates
    centre: Any  # (d,), float32
    norms: Any  # (u,), float64: |b|
    exact: Any  # (u, d + 2), float64: b and, for [a, |a|, 1] to yield upper bounds of the scores, two more columns
    halves: Any  # (groups * GROUP, k), float16: b' in its group's scale
    inverse: Any  # (groups,), float32, as all that follow: what undoes the scale
    lift: Any  # (groups * GROUP,): -|b|²/2
    by_residual: Any  # (groups,): a bound on the error is |a - a'| by_residual + |a'| by_half + base
    by_half: Any
    base: Any


@dataclass(frozen=True)
class _Rows:
    """Some private records on the device, seen from the candidates' mean; all but `points` end in rows of zeros."""

    points: Any  # (r, d), float32
    halves: Any  # (rows, k), float16: a' in each row's scale
    inverse: Any  # (rows,), float32, as all that follow
    residual: Any  # |a - a'|
    norms: Any  # |a'|
    slack: Any  # what float64 itself may get wrong about points far from all candidates


class DeviceVoters:
    """Private records that vote by a device of torch; they stay on it if they take at most half of its memory.

    Else they are sent again for every vote, in blocks. What is on the device goes when this object does.
    """

    def __init__(self, points: Points | Any, device: str, *, memory: int | None = None) -> None:
        """Hold `points`, (n, d), an array or a tensor; `memory` bounds the bytes taken, if it is not for the device."""
        self._torch: Any = importlib.import_module("torch")
        self._device = device
        self._memory = memory
        self._engine: Engine = engine(self._torch, device)
        self._points = self._tensor(points)
        if self._points.nbytes <= self._free() // 2:
            self._points = self._points.to(device)

    def nearest(self, candidates: Points, distinct: Indices, rows: Indices | None = None, *, count: int = 1) -> Winners:
        """Find the `count` nearest of the candidates, (v, d), for each record, or for those at `rows`, in their order.

        `distinct` has the first of each set of equal candidates, at least `count`.
        """
        field = self._field(candidates, distinct)
        n = len(self._points) if rows is None else len(rows)
        indices = np.empty((n, count), dtype=np.int64)
        looked_at = compared = 0
        # Of a row: itself, its halves, its tops, and a few numbers while it is decided.
        each = 8 * field.points.shape[1] + 4 * len(field.inverse) + 256 * count
        for block in pieces(n, max(min(self._free() // 4, _BLOCK), _SCRATCH) // each):
            points = self._some(block, rows)
            decided, groups, pairs = self._decide(self._halve(points, field), field, count)
            indices[block] = decided.cpu().numpy()
            looked_at += groups
            compared += pairs
        return Winners(indices, len(field.inverse), looked_at, compared)

    def _tensor(self, array: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that an array must not be written to; it is not
            return self._torch.as_tensor(array)

    def _free(self) -> int:
        return free_bytes(self._device) if self._memory is None else self._memory

    def _some(self, block: slice, rows: Indices | None) -> Any:
        if rows is None:
            return self._points[block].to(self._device)
        wanted = self._torch.from_numpy(rows[block]).to(self._points.device)
        return self._points[wanted].to(self._device)

    def _power(self, exponents: Any) -> Any:
        """Return two to the power of these exponents, exactly."""
        return ((exponents.to(self._torch.int32) + 127) << 23).view(self._torch.float32)

    def _loudness(self, peaks: Any) -> Any:
        """Return the exponent of the scale that brings the largest numbers to half of what a half can hold."""
        return (15 - self._torch.frexp(peaks).exponent).clamp(max=_LOUDEST)

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
        halves = torch.zeros(groups * GROUP, padded(d, DEPTH), dtype=torch.float16, device=self._device)
        residual, size = torch.zeros(2, groups * GROUP, dtype=double, device=self._device)
        inverse = torch.empty(groups, device=self._device)
        for chunk in pieces(groups, max(1, _SCRATCH // (GROUP * 32 * d))):
            here = slice(chunk.start * GROUP, min(chunk.stop * GROUP, u))
            b = exact[here, :d]
            peaks = torch.nn.functional.pad(b.abs().amax(1), (0, (chunk.stop - chunk.start) * GROUP - len(b)))
            loudness = self._loudness(peaks.view(-1, GROUP).amax(1))
            scale, inverse[chunk] = self._power(loudness), self._power(-loudness)
            scaled = b * scale.double().repeat_interleave(GROUP)[: len(b), None]
            halves[here, :d] = scaled.half()
            back = inverse[chunk].double().repeat_interleave(GROUP)[: len(b)]
            residual[here] = back * torch.linalg.vector_norm(scaled - halves[here, :d], dim=1)
            size[here] = back * torch.linalg.vector_norm(halves[here, :d], dim=1, dtype=double)
        lift = torch.nn.functional.pad(norms**2 / -2, (0, padding), value=-torch.inf).float()
        largest = torch.nn.functional.pad(norms, (0, padding)).view(-1, GROUP).amax(1)
        gamma = 1.5 * d * 2 * _UNIT
        gamma /= 1 - gamma
        by_half = (residual + (gamma + 16 * _UNIT) * size).view(-1, GROUP).amax(1)
        base = 16 * _UNIT * largest**2 + 4 * (d + 16) * _TINY
        bounds = ((_SPARE * bound).float() for bound in (largest, by_half, base))
        origin = torch.from_numpy(distinct).to(self._device)[order]
        return _Field(points, origin, centre, norms, exact, halves, inverse, lift, *bounds)

    def _halve(self, points: Any, field: _Field) -> _Rows:
        torch = self._torch
        r, d = points.shape
        rows = padded(r, ROWS)
        halves = torch.zeros(rows, padded(d, DEPTH), dtype=torch.float16, device=self._device)
        inverse, residual, norms, slack = torch.zeros(4, rows, device=self._device)
        for chunk in pieces(r, _SCRATCH // (24 * d)):
            a = points[chunk] - field.centre
            loudness = self._loudness(a.abs().amax(1))
            back = self._power(-loudness)
            a *= self._power(loudness)[:, None]
            halves[chunk, :d] = a
            length = torch.linalg.vector_norm(a, dim=1, dtype=torch.float64) * back
            a -= halves[chunk, :d]
            inverse[chunk] = back
            # Beside what halving loses, the rounding of a itself.
            residual[chunk] = (
                torch.linalg.vector_norm(a, dim=1, dtype=torch.float64) * back + 4 * _UNIT * length
            ) * _SPARE
            norms[chunk] = torch.linalg.vector_norm(halves[chunk, :d], dim=1, dtype=torch.float64) * back * _SPARE
            slack[chunk] = 8 * (d + 16) * 2.0**-53 * length**2
        return _Rows(points, halves, inverse, residual, norms, slack)

    def _tops(self, rows: _Rows, field: _Field) -> Any:
        """Return the largest score by halves of each row in each group, (groups, rows)."""
        tops = self._torch.empty(len(field.inverse), len(rows.halves), device=self._device)
        self._engine(rows.halves, rows.inverse, field.halves, field.inverse, field.lift, tops)
        return tops

    def _decide(self, rows: _Rows, field: _Field, count: int) -> tuple[Any, int, int]:
        """Return the winners of each row, how many groups were looked at, and how many pairs were compared."""
        ballot = _Ballot(self._torch, rows.points, field, count)
        looked_at = 0
        for group, some in self._in_question(self._tops(rows, field), rows, field, count):
            looked_at += len(some)
            for chunk in pieces(len(some), _SCRATCH // (16 * (rows.points.shape[1] + GROUP))):
                ballot.look(some[chunk], slice(group * GROUP, (group + 1) * GROUP))
        ballot.close()
        return ballot.winners, looked_at, ballot.compared

    def _in_question(self, tops: Any, rows: _Rows, field: _Field, count: int) -> Iterator[tuple[int, Any]]:
        """Yield each group with the rows that may have a winner in it.

        A group is in question if its best score may exceed what the `count` best groups' best scores are at least.
        """
        torch, r = self._torch, len(rows.points)
        residual, norms = rows.residual[:r], rows.norms[:r]

        def error(groups: slice) -> Any:
            by_residual, by_half, base = (
                bound[groups, None] for bound in (field.by_residual, field.by_half, field.base)
            )
            return torch.addcmul(torch.addcmul(base, norms, by_half), residual, by_residual)

        lowest = torch.full((count, r), -torch.inf, device=self._device)
        chunks = pieces(len(tops), max(1, _SCRATCH // (16 * r)))
        for chunk in chunks:
            lowest = _greatest(torch, lowest, tops[chunk, :r] - error(chunk), dim=0)
        floor = lowest[-1] - rows.slack[:r]
        for chunk in chunks:
            asked = tops[chunk, :r] + error(chunk) >= floor
            found = asked.nonzero(as_tuple=True)[1].split(asked.sum(1).tolist())
            yield from ((group, some) for group, some in enumerate(found, chunk.start) if len(some))


class _Ballot:
    """The winners of some rows, as one group of candidates after another is looked at in float64."""

    def __init__(self, torch: Any, points: Any, field: _Field, count: int) -> None:
        self._torch, self._points, self._field, self._count = torch, points, field, count
        shape, device = (len(points), count), points.device
        self.winners = torch.full(shape, torch.iinfo(torch.int64).max, device=device)
        self.compared = 0
        self._least = torch.full(shape, torch.inf, dtype=torch.float64, device=device)
        self._lowest = torch.full(shape, -torch.inf, dtype=torch.float64, device=device)
        self._pairs: list[tuple[Any, Any, Any]] = []
        self._held = 0

    def look(self, rows: Any, columns: slice) -> None:
        """Take note of these candidates where they are not excluded, for these rows."""
        torch, field = self._torch, self._field
        a = self._points.new_empty(len(rows), field.exact.shape[1], dtype=torch.float64)
        a[:, :-2] = self._points[rows]
        a[:, :-2] -= field.centre
        reach = torch.linalg.vector_norm(a[:, :-2], dim=1)
        a[:, -2] = reach
        a[:, -1] = 1.0
        upper = a @ field.exact[columns].T
        # Down to the lower bounds of as many as win, and by what the definition itself may get wrong.
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
        """Decide what is left: a single winner with a single candidate is known, all else is compared."""
        rows, columns = self._gather()
        alone = self._torch.bincount(rows, minlength=len(self._least))[rows] == 1
        alone &= self._least[rows, -1].isinf() & (self._count == 1)
        self.winners[rows[alone], 0] = self._field.origin[columns[alone]]
        self._compare(rows[~alone], columns[~alone])

    def _gather(self) -> tuple[Any, Any]:
        """Hand over the pairs held that reach the floor as it is by now."""
        rows, columns, upper = (self._torch.cat(parts) for parts in zip(*self._pairs, strict=True))
        self._pairs, self._held = [(rows[:0], columns[:0], upper[:0])], 0
        kept = upper >= self._lowest[rows, -1]
        return rows[kept], columns[kept]

    def _compare(self, rows: Any, columns: Any) -> None:
        """Let the nearest by the definition win, the first of those that are equally near."""
        self.compared += len(rows)
        for chunk in pieces(len(rows), max(1, _SCRATCH // (24 * self._points.shape[1]))):
            some = rows[chunk]
            self._rank(some, self._field.origin[columns[chunk]], self._squares(some, columns[chunk]))

    def _rank(self, rows: Any, origin: Any, squares: Any) -> None:
        """Keep the best of those that were ahead and of these, in order."""
        torch = self._torch
        known = rows.unique()
        own, place = self._least[known].isfinite().nonzero(as_tuple=True)
        own = known[own]
        rows, origin = torch.cat([own, rows]), torch.cat([self.winners[own, place], origin])
        squares = torch.cat([self._least[own, place], squares])
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
    """Carry the greatest values along `dim`, the greatest first, over some more."""
    count = before.shape[dim]
    if count == 1:  # sooner than by sorting
        return torch.maximum(before, values.amax(dim, keepdim=True))
    some = values.topk(min(count, values.shape[dim]), dim=dim).values
    return torch.cat([before, some], dim=dim).topk(count, dim=dim).values
