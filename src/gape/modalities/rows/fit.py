"""Rows that fit the noisy answers of a survey: a Markov random field over the columns, fitted while it is sampled.

The model is p(x) ~ exp(sum_i a_i[x_i] + sum_ij b_ij[x_i, x_j]), over the parts of columns and the pairs that were
measured. Rows are sampled from it by Gibbs sampling. After each sweep the parameters are moved by how far the rows are
from the answers (persistent contrastive divergence, Tieleman 2008, with the steps of iterative scaling). So the rows
themselves come to have the measured columns and pairs, and everything else is as random as these allow. The last sweep
draws each column so that it has exactly the measured shares.
"""

import math
from collections.abc import Sequence

import numpy as np

from gape._support.compiled import compiled
from gape._support.parallel import one_blas_thread
from gape.core.types import Floats, Indices
from gape.modalities.rows.estimates import ColumnEstimate, projected
from gape.modalities.rows.smoothing import FEWEST, smoothed_counts
from gape.modalities.rows.survey import Measured, Together
from gape.modalities.rows.together import told_together

SWEEPS = 150
_CONSISTENT = 20  # alternations between the shares of columns and tables without negative counts
_SMOOTH = 0.3  # rows added to each cell, so that a cell without rows has a finite logarithm
_LARGEST = 12.0  # of a parameter
_STEP, _SINGLE = 0.05, 0.5  # shares of the way that parameters of pairs and of columns move after a sweep


class Fitted:
    """Rows of parts, (n, columns), that fit what a survey measured."""

    def __init__(
        self, columns: Sequence[ColumnEstimate], measured: Sequence[Measured], together: Sequence[Together] = ()
    ) -> None:
        """Make the measured columns and pairs consistent with each other."""
        self._together, self._total = together, columns[0].total
        # The class, if there is one, is drawn last, when all other columns are known.
        self._order = sorted(range(len(columns)), key=lambda index: bool(together) and index == together[0].columns[-1])
        self._parts = [column.parts for column in columns]
        with one_blas_thread():  # small steps, and the same on any number of cores
            self._cells = [_cell_shares(column, *_about_parts(i, column, measured)) for i, column in enumerate(columns)]
        self._shares = [_sums(parts, own) for parts, own in zip(self._parts, self._cells, strict=True)]  # of the parts
        pairs = [table for table in measured if len(table.columns) == 2]
        self._pairs = [table.columns for table in pairs]
        self._tables = [_consistent(table, self._shares) for table in pairs]

    def rows(self, count: int, rng: np.random.Generator, sweeps: int = SWEEPS) -> Indices:
        """Return rows of cells, (count, columns)."""
        parts = np.stack([_evenly(shares, count, rng) for shares in self._shares], axis=1)
        chances = np.tile(self._shares[self._order[-1]], (count, 1))
        if self._pairs:
            chances = self._fit(parts, rng, sweeps)
        rows = np.stack([self._drawn(index, parts[:, index], rng) for index in range(len(self._shares))], axis=1)
        if self._together:
            self._classify(rows, chances, rng)
        return rows

    def _classify(self, rows: Indices, chances: Floats, rng: np.random.Generator) -> None:
        """Draw the class of rows of cells, in place, by its chances in each row, (n, parts), and the fourth release."""
        column = self._order[-1]
        parts, shares = self._parts[column], self._cells[column]
        inside = shares / np.maximum(self._shares[column], 1e-12)[parts]
        chances = told_together(chances[:, parts] * inside, rows, self._together, self._total)
        counts, order = _counts(shares, len(rows), rng), rng.permutation(len(rows))
        _settle(rows, column, chances, counts, order, rng.random(len(rows)))

    def _fit(self, rows: Indices, rng: np.random.Generator, sweeps: int) -> Floats:
        """Sample rows, (n, columns), in place, while the parameters follow them.

        Returns the chances of the last column to be drawn, (n, parts), given the others.
        """
        width = max(len(shares) for shares in self._shares)
        sizes = np.array([len(shares) for shares in self._shares])
        single = np.zeros((len(sizes), width))
        wanted = [shares * len(rows) + _SMOOTH for shares in self._shares]
        for index, want in enumerate(wanted):
            single[index, : sizes[index]] = np.log(want)
        tables = [table * len(rows) + _SMOOTH for table in self._tables]
        links = [np.zeros(table.shape) for table in tables]
        edges = sorted(
            (a, b, n, turned) for n, (i, j) in enumerate(self._pairs) for a, b, turned in ((i, j, 0), (j, i, 1))
        )
        first = np.searchsorted([edge[0] for edge in edges], np.arange(len(sizes) + 1))
        source = np.array([edge[1] for edge in edges])
        weights = np.zeros((len(edges), width, width))
        for sweep in range(sweeps):
            for number, (_, _, pair, turned) in enumerate(edges):
                link = links[pair] if turned else links[pair].T  # (parts of the source, parts of the column)
                weights[number, : len(link), : len(link.T)] = link
            _sweep(rows, single, sizes, first, source, weights, rng.random(rows.shape))
            step = _STEP if sweep < 0.8 * sweeps else _STEP / 2
            seen = [np.bincount(rows[:, i], minlength=size) + _SMOOTH for i, size in enumerate(sizes)]
            away = [np.log(want / have) for want, have in zip(wanted, seen, strict=True)]
            for index, change in enumerate(away):
                single[index, : sizes[index]] += _SINGLE * change
            for (i, j), want, link in zip(self._pairs, tables, links, strict=True):
                have = (
                    np.bincount(rows[:, i] * sizes[j] + rows[:, j], minlength=want.size).reshape(want.shape) + _SMOOTH
                )
                change = np.log(want / have) - away[i][:, None] - away[j]
                np.clip(link + step * change, -_LARGEST, _LARGEST, out=link)
        for index in self._order:
            chances = _chances(rows, index, single, sizes, first, source, weights)
            counts, order = _counts(self._shares[index], len(rows), rng), rng.permutation(len(rows))
            _settle(rows, index, chances, counts, order, rng.random(len(rows)))
        return chances

    def _drawn(self, index: int, parts: Indices, rng: np.random.Generator) -> Indices:
        """Draw a cell within each part, (n,), by the shares of the column."""
        cells = np.zeros(len(parts), dtype=np.int64)
        for part in range(len(self._shares[index])):
            members, inside = np.flatnonzero(self._parts[index] == part), np.flatnonzero(parts == part)
            cells[inside] = members[_evenly(_normalised(self._cells[index][members]), len(inside), rng)]
        return cells


def _evenly(shares: Floats, count: int, rng: np.random.Generator) -> Indices:
    """Draw indices by their shares, (count,), as evenly as possible and in random order."""
    levels = (np.arange(count) + rng.random()) / max(count, 1)
    return rng.permutation(np.minimum(np.searchsorted(np.cumsum(shares), levels, side="right"), len(shares) - 1))


def _about_parts(index: int, column: ColumnEstimate, measured: Sequence[Measured]) -> tuple[Floats, Floats]:
    """Return what the third release says of the parts of a column: mean counts, (parts,), and their precision."""
    total = precision = np.zeros(int(column.parts.max()) + 1)
    for table in measured:
        if index in table.columns:
            others = tuple(axis for axis, column in enumerate(table.columns) if column != index)
            own = 1 / (max(table.noise, 1e-9) ** 2 * math.prod(table.counts.shape[axis] for axis in others))
            total, precision = total + own * table.counts.sum(axis=others), precision + own
    return total / np.maximum(precision, 1e-300), precision


def _cell_shares(column: ColumnEstimate, counts: Floats, precision: Floats) -> Floats:
    """Return the shares of the cells of a column, by all answers about it.

    Cells in order are smoothed. The shares of choices are those of their parts, shared out as in the first release.
    """
    if np.count_nonzero(column.widths) >= FEWEST:
        return _smoothed_shares(column, counts, precision)
    first = 1 / column.counts.variances(column.parts)
    held = column.total * _sums(column.parts, column.shares)
    shares = projected((first * held + precision * counts) / (first + precision), column.total, 1 / (first + precision))
    inside = np.zeros(len(column.shares))
    for part, share in enumerate(shares / column.total):
        members = column.parts == part
        inside[members] = share * _normalised(column.shares[members])
    return inside


def _smoothed_shares(column: ColumnEstimate, counts: Floats, precision: Floats) -> Floats:
    own = column.counts.precision()
    both = own + np.where(column.parts[:, None] == column.parts, precision[column.parts], 0.0)
    noisy = np.linalg.solve(both, own @ column.counts.noisy + (precision * counts)[column.parts]).astype(np.float64)
    return _normalised(smoothed_counts(noisy, both, column.widths, column.shares * column.total))


def _sums(parts: Indices, shares: Floats) -> Floats:
    """Return the shares of parts, (parts,), given those of their cells."""
    return np.bincount(parts, weights=shares).astype(np.float64)


def _normalised(shares: Floats) -> Floats:
    """Return shares with the sum 1, equal ones if all are 0."""
    total = shares.sum()
    return shares / total if total > 0 else np.full(len(shares), 1 / len(shares))


def _consistent(table: Measured, shares: Sequence[Floats]) -> Floats:
    """Return the shares of a table, at least 0, whose sums are those of its columns, near the noisy ones."""
    rows, columns = (shares[index] for index in table.columns)
    total = max(float(table.counts.sum()), 1.0)
    noisy, independent = table.counts / total, np.outer(rows, columns)
    for _ in range(_CONSISTENT):
        noisy = noisy + ((rows - noisy.sum(axis=1)) / len(columns))[:, None]
        noisy = noisy + (columns - noisy.sum(axis=0)) / len(rows)
        noisy = projected(noisy, 1.0)
    noisy = noisy + 1e-9 * independent
    for _ in range(_CONSISTENT):
        noisy = noisy * (rows / np.maximum(noisy.sum(axis=1), 1e-12))[:, None]
        noisy = noisy * (columns / np.maximum(noisy.sum(axis=0), 1e-12))
    return noisy


def _counts(shares: Floats, count: int, rng: np.random.Generator) -> Indices:
    """Return whole numbers of rows by shares, (parts,), with sum `count`."""
    return np.bincount(_evenly(shares, count, rng), minlength=len(shares))


@compiled
def _chances(
    rows: Indices, column: int, single: Floats, sizes: Indices, first: Indices, source: Indices, weights: Floats
) -> Floats:
    """Return the chance of each part of a column in each row, given its others, (n, parts)."""
    size = sizes[column]
    chances = np.empty((rows.shape[0], size))
    for row in range(rows.shape[0]):
        scores = single[column, :size].copy()
        for edge in range(first[column], first[column + 1]):
            scores += weights[edge, rows[row, source[edge]], :size]
        scores = np.exp(scores - scores.max())
        chances[row] = scores / scores.sum()
    return chances


@compiled
def _settle(rows: Indices, column: int, chances: Floats, wanted: Indices, order: Indices, uniform: Floats) -> None:
    """Draw a column of all rows by their chances, in place, so that each part has as many rows as wanted."""
    left = wanted.copy()
    expected = chances.sum(axis=0)
    for row in order:
        own = chances[row]
        scores = np.where(left > 0, own * left / np.maximum(expected, 1e-9) + 1e-12, 0.0)
        level, part, total = uniform[row] * scores.sum(), 0, scores[0]
        while part < len(left) - 1 and (total <= level or left[part] == 0):
            part += 1
            total += scores[part]
        while left[part] == 0:
            part -= 1
        rows[row, column] = part
        left[part] -= 1
        expected -= own


@compiled
def _sweep(
    rows: Indices, single: Floats, sizes: Indices, first: Indices, source: Indices, weights: Floats, uniform: Floats
) -> None:
    """Draw each part of each row given its others, in place."""
    scores = np.empty(single.shape[1])
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            size = sizes[column]
            scores[:size] = single[column, :size]
            for edge in range(first[column], first[column + 1]):
                link = weights[edge, rows[row, source[edge]]]
                for part in range(size):
                    scores[part] += link[part]
            most = scores[:size].max()
            total = 0.0
            for part in range(size):
                total += np.exp(scores[part] - most)
                scores[part] = total
            level, part = uniform[row, column] * total, 0
            while part < size - 1 and scores[part] <= level:
                part += 1
            rows[row, column] = part
