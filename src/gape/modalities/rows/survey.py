"""The survey of a table: noisy counts of its columns, then of the pairs of columns that depend on each other.

Three or four releases, each of which may depend on the noisy answers before it:

1. Every column, by its cells (`cells`), and by stretches of cells if there are many.
2. Every pair of columns, by at most `COARSE` parts of each, to see which pairs depend on each other.
3. The columns again, and the pairs for which it pays off, by at most 20 parts of each column; the stronger the
   dependence of a pair, the more often it is asked.
4. If one column says what kind of thing the numbers of the others describe (`class_column`): pairs of these numbers
   together with it, because often only several numbers together tell the kinds apart.

A record gives one answer to each question. A question asked r times is answered with independent noise each time, so
that the mean has the noise sigma / sqrt(r): all questions share one sigma, and the number of answers of a record, which
is public, says all that the accounting needs. What follows from the noisy answers is post-processing.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape.core.errors import InputError
from gape.core.types import Counts, Floats, Indices, NoisyVotes, Points, Samples
from gape.modalities.rows.cells import Cells
from gape.modalities.rows.columns import Choices
from gape.modalities.rows.estimates import ColumnEstimate, Level, merged, projected
from gape.modalities.rows.schema import Schema

COARSE = 4  # parts of a column in the second release
ASKED_AGAIN = 4  # answers to the third release, for each pair of columns
MOST_ANSWERS = 4_000  # about pairs, to the third release and to the fourth
MOST_PAIRS = 600  # in the third release; the time to fit rows grows with their number
MOST_TIMES = 60  # that a column is asked about
FEWEST_NUMBERS = 3  # in a table with a fourth release
FEWEST_KINDS, MOST_KINDS = 3, 100  # values of its class; of two, pairs tell enough
_AT_ONCE = 100_000  # rows that are coded or counted at a time, so that memory stays bounded
_COLUMNS = 4.0  # answers to the first release, for each pair of columns
_COARSELY = 0.6  # share of them that are about stretches, if a column has many cells
_COLUMNS_AGAIN = 0.3  # answers about columns to the third release, for each pair of columns
_NEXT = 2  # each number is counted together with so many of the next ones, and with the class
_TOGETHER, _MOST_TOGETHER = 0.025, 0.25  # answers to the fourth release for each other answer: per kind, and at most
_LEFT = 0.5  # share of the noise that remains in a table after fitting; measured on Adult


@dataclass(frozen=True)
class Question:
    """Which part of a column, or which combination of parts of two columns, a record has; asked `times` times."""

    columns: tuple[int, ...]
    parts: tuple[Indices, ...]  # of each column: the part that each of its cells belongs to
    times: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of parts of each column."""
        return tuple(int(parts.max()) + 1 for parts in self.parts)

    def answers(self, cells: NDArray[Any]) -> Indices:
        """Return the answer of each row, (n,), from its cells, (n, columns)."""
        chosen = [parts[cells[:, column]] for column, parts in zip(self.columns, self.parts, strict=True)]
        found: Indices = np.ravel_multi_index(chosen, self.shape)
        return found


@dataclass(frozen=True)
class Questions:
    """The questions of one release."""

    schema: Schema
    asked: tuple[Question, ...]

    @property
    def per_record(self) -> int:
        """The number of answers that a record gives, each counted in a different bin."""
        return sum(question.times for question in self.asked)

    @property
    def bins(self) -> int:
        """The number of counts."""
        return sum(question.times * math.prod(question.shape) for question in self.asked)

    @property
    def digest(self) -> str:
        """Identify the questions."""
        digest = hashlib.sha256(repr(self.schema).encode())
        for question in self.asked:
            digest.update(repr((question.columns, question.times)).encode())
            for parts in question.parts:
                digest.update(parts.astype("<i8").tobytes())
        return digest.hexdigest()

    def encode(self, content: Samples | None, points: Points) -> NDArray[Any]:  # noqa: ARG002  (cells are asked for)
        """Return what the questions ask about: the cells of rows, (n, columns), unless the rows are held as these."""
        if content is None:
            raise InputError("these records have no cells that a survey could ask about; leave the survey out")
        return _cells_of(self.schema, content) if content.dtype == object else content

    def tally(self, encoded: NDArray[Any]) -> Counts:
        """Count the answers of encoded rows, (bins,). Private: for `release_answers` only."""
        counts = []
        for question in self.asked:
            once = np.zeros(math.prod(question.shape), dtype=np.int64)
            for start in range(0, len(encoded), _AT_ONCE):
                once += np.bincount(question.answers(encoded[start : start + _AT_ONCE]), minlength=len(once))
            counts.append(np.tile(once, question.times))
        return np.concatenate(counts).astype(np.int64)

    def means(self, noisy: NoisyVotes) -> list[Floats]:
        """Return the mean noisy answers to each question, in its shape."""
        tables, start = [], 0
        for question in self.asked:
            size = math.prod(question.shape)
            own = noisy[start : start + question.times * size].reshape(question.times, size)
            tables.append(own.mean(axis=0).reshape(question.shape))
            start += question.times * size
        return tables


@dataclass(frozen=True)
class Measured:
    """A table of noisy counts, and the standard deviation of their noise."""

    columns: tuple[int, ...]
    counts: Floats
    noise: float


@dataclass(frozen=True)
class Together:
    """Noisy counts of two numbers, by coarse parts of their cells, together with the class, and their noise."""

    columns: tuple[int, ...]  # the class last
    parts: tuple[Indices, ...]
    counts: Floats
    noise: float


def class_column(schema: Schema) -> int | None:
    """Return the column that says what kind of thing a row of numbers describes, if a table has one.

    It is the only column of choices, with `FEWEST_KINDS` to `MOST_KINDS` values, beside at least `FEWEST_NUMBERS`
    columns of numbers or dates. Only the schema decides.
    """
    chosen = [(index, column) for index, column in enumerate(schema.columns.values()) if isinstance(column, Choices)]
    if len(chosen) != 1 or len(schema.columns) - 1 < FEWEST_NUMBERS:
        return None
    index, column = chosen[0]
    return index if FEWEST_KINDS <= len(column.values) <= MOST_KINDS else None


def _with_the_class(schema: Schema) -> list[tuple[int, int, int]]:
    """Return pairs of numbers with the class: each number with the next `_NEXT`, in a circle. Empty without a class."""
    kind = class_column(schema)
    if kind is None:
        return []
    numbers = [index for index in range(len(schema.columns)) if index != kind]
    ahead = [numbers[step:] + numbers[:step] for step in range(1, _NEXT + 1)]
    pairs = {(min(pair), max(pair)) for later in ahead for pair in zip(numbers, later, strict=True)}
    return [(*pair, kind) for pair in sorted(pairs)]


class TableSurvey:
    """The questions about a table, and what their noisy answers say."""

    def __init__(self, schema: Schema) -> None:
        """Ask about the columns of a schema."""
        self.schema = schema
        self._cells = Cells(schema).columns
        self._pairs = list(itertools.combinations(range(len(self._cells)), 2))
        self._together = _with_the_class(schema)

    def __repr__(self) -> str:
        return f"TableSurvey({self.schema!r})"

    @cached_property
    def per_record(self) -> tuple[int, ...]:
        """The largest number of answers that a record gives to each release."""
        columns, pairs = len(self._cells), len(self._pairs)
        first = columns * self._times
        last = columns * self._again + min(ASKED_AGAIN * pairs, MOST_ANSWERS)
        answers = (first, pairs, last) if pairs else (first,)
        return (*answers, len(self._together) * self._times_together(sum(answers))) if self._together else answers

    def _times_together(self, others: int) -> int:
        """Return how often each pair of numbers is asked about with the class. Of more kinds, each is rarer."""
        share = min(_TOGETHER * self._cells[self._together[0][-1]].count, _MOST_TOGETHER)
        return max(1, round(min(share * others, MOST_ANSWERS) / len(self._together)))

    @property
    def _times(self) -> int:
        times = round(_COLUMNS * len(self._pairs) / len(self._cells))
        return min(max(times, 3), MOST_TIMES)  # 3: both levels are asked about

    @property
    def _again(self) -> int:
        times = round(_COLUMNS_AGAIN * len(self._pairs) / len(self._cells))
        return min(max(times, 1), MOST_TIMES)

    def questions(self, answers: Sequence[NoisyVotes], sigma: float) -> Questions:
        """Return the questions of the next release, given the noisy answers to those before."""
        if not answers:
            return self._asking(self._about_columns())
        columns = self.columns(answers[0], sigma)
        if len(answers) == 1:
            coarse = [self._coarse(column) for column in columns]
            return self._asking(Question(pair, tuple(coarse[index] for index in pair)) for pair in self._pairs)
        if len(answers) > len(self.per_record) - 1:
            raise InputError(f"a survey has {len(self.per_record)} releases, got the answers of {len(answers)}")
        if len(answers) == 3:
            return self._asking(self._about_the_class(columns))
        times = self._times_of(columns, self.questions(answers[:1], sigma).means(answers[1]), sigma)
        fine = [column.parts for column in columns]
        again = self._again if times.any() else self.per_record[2] // len(fine)  # nothing else pays off
        single = (Question((index,), (parts,), again) for index, parts in enumerate(fine))
        double = (
            Question(pair, tuple(fine[index] for index in pair), int(count))
            for pair, count in zip(self._pairs, times, strict=True)
            if count
        )
        return self._asking((*single, *double))

    def columns(self, answers: NoisyVotes, sigma: float) -> list[ColumnEstimate]:
        """Return what the answers to the first release say about each column."""
        questions = self.questions((), sigma)
        noisy = questions.means(answers)
        total = max(1.0, float(np.mean([counts.sum() for counts in noisy])))
        levels: list[list[Level]] = [[] for _ in self._cells]
        variance = max(sigma, 1e-6) ** 2  # without noise, too, all variances are above 0
        for question, counts in zip(questions.asked, noisy, strict=True):
            levels[question.columns[0]].append(Level(question.parts[0], counts, variance / question.times))
        return [ColumnEstimate.of(own, total, cells.widths) for own, cells in zip(levels, self._cells, strict=True)]

    def measured(self, answers: Sequence[NoisyVotes], sigma: float) -> list[Measured]:
        """Return what the third release measured, by the parts of each column."""
        if len(answers) < 3:
            return []
        last = self.questions(answers[:2], sigma)
        return [
            Measured(question.columns, counts, sigma / math.sqrt(question.times))
            for question, counts in zip(last.asked, last.means(answers[2]), strict=True)
        ]

    def together(self, answers: Sequence[NoisyVotes], sigma: float) -> list[Together]:
        """Return what the fourth release, if there is one, says about pairs of numbers with the class."""
        if len(answers) < 4:
            return []
        last = self.questions(answers[:3], sigma)
        return [
            Together(question.columns, question.parts, counts, sigma / math.sqrt(question.times))
            for question, counts in zip(last.asked, last.means(answers[3]), strict=True)
        ]

    def _about_the_class(self, columns: Sequence[ColumnEstimate]) -> Iterator[Question]:
        """Ask about the coarse parts of two numbers, together with the class."""
        times = self._times_together(sum(self.per_record[:3]))
        for a, b, kind in self._together:
            parts = self._coarse(columns[a]), self._coarse(columns[b]), np.arange(self._cells[kind].count)
            yield Question((a, b, kind), parts, times)

    def _about_columns(self) -> Iterator[Question]:
        """Ask about the cells of each column, and about stretches of cells where there are many."""
        for index, cells in enumerate(self._cells):
            times = self._times
            if cells.stretches is not None:
                coarse = round(_COARSELY * times)
                yield Question((index,), (cells.stretches,), coarse)
                times -= coarse
            yield Question((index,), (np.arange(cells.count),), times)

    def _asking(self, asked: object) -> Questions:
        return Questions(self.schema, tuple(asked))  # type: ignore[arg-type]

    def _coarse(self, column: ColumnEstimate) -> Indices:
        return merged(column.shares, COARSE, column.ordered, 0.0)

    def _times_of(self, columns: Sequence[ColumnEstimate], coarse: Sequence[Floats], sigma: float) -> Indices:
        """Return how often to ask about each pair: an answer goes where it lowers the expected error most."""
        total = columns[0].total
        strength, noise = np.zeros(len(coarse)), np.zeros(len(coarse))
        for index, ((a, b), noisy) in enumerate(zip(self._pairs, coarse, strict=True)):
            strength[index] = dependence(noisy, sigma) / total
            cells = math.prod(int(columns[column].parts.max()) + 1 for column in (a, b))
            noise[index] = _LEFT * 0.4 * cells * sigma / total  # half the mean absolute value of a Gaussian is .4
        strength[np.argsort(-(strength - noise), kind="stable")[MOST_PAIRS:]] = 0.0
        return _shared_out(strength, noise, self.per_record[2] - self._again * len(columns))


def dependence(noisy: Floats, noise: float) -> float:
    """Return about how many records would have to change for the two columns of a table to be independent."""
    total = max(float(noisy.sum()), 1.0)
    rows, columns = (projected(noisy.sum(axis=axis), total) for axis in (1, 0))
    away = noisy - np.outer(rows, columns) / total
    signal = max(0.0, float((away**2).sum()) - noise**2 * (noisy.shape[0] - 1) * (noisy.shape[1] - 1))
    return 0.5 * math.sqrt(signal * noisy.size * 2 / math.pi)


def _shared_out(strength: Floats, noise: Floats, answers: int) -> Indices:
    """Share out answers: a pair asked r times has the error noise / sqrt(r), and never asked that of independence."""
    times = np.zeros(len(strength), dtype=np.int64)
    ahead = np.arange(1, 65)
    error = strength.copy()
    left = answers
    while left > 0:
        steps = ahead[ahead <= left]
        later = noise[:, None] / np.sqrt(times[:, None] + steps)
        gains = (error[:, None] - later) / steps
        best = int(gains.argmax())
        pair, step = best // len(steps), int(steps[best % len(steps)])
        if gains.flat[best] <= 0:
            break
        times[pair] += step
        error[pair] = noise[pair] / math.sqrt(times[pair])
        left -= step
    return times


def _cells_of(schema: Schema, samples: Samples) -> NDArray[Any]:
    cells = Cells(schema)
    found = np.empty((len(samples), len(cells.columns)), dtype=cells.dtype)
    for start in range(0, len(samples), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        found[some] = cells.of(schema.codes(samples[some]))
    return found
