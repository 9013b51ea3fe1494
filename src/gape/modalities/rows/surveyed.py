"""Rows that fit a survey of a table, as a generator."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gape.core.protocols import Generator
from gape.core.types import Floats, NoisyVotes, Samples
from gape.modalities.rows.cells import Cells
from gape.modalities.rows.fit import Fitted
from gape.modalities.rows.generator import RowGenerator
from gape.modalities.rows.schema import Schema
from gape.modalities.rows.survey import Questions, TableSurvey


@dataclass(frozen=True)
class SurveyedRows:
    """Asks about columns and pairs of columns first (`survey`), and then writes rows that fit the answers (`fit`)."""

    schema: Schema

    @cached_property
    def _survey(self) -> TableSurvey:
        return TableSurvey(self.schema)

    @property
    def per_record(self) -> tuple[int, ...]:
        """The largest number of answers that a record gives to each release."""
        return self._survey.per_record

    def questions(self, answers: Sequence[NoisyVotes], sigma: float, most: int) -> Questions:  # noqa: ARG002  (per_record)
        """Return the questions of the next release."""
        return self._survey.questions(answers, sigma)

    def informed(self, answers: Sequence[NoisyVotes], sigma: float) -> Generator:
        """Return the generator of rows that fit the noisy answers."""
        columns = self._survey.columns(answers[0], sigma)
        measured, together = self._survey.measured(answers, sigma), self._survey.together(answers, sigma)
        return _FittedRows(self.schema, Fitted(columns, measured, together))

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw rows with uniform cells, because nothing was asked yet."""
        return RowGenerator(self.schema).random(count, rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Return one variation of each row."""
        return RowGenerator(self.schema).vary(samples, scales, rng)


@dataclass(frozen=True)
class _FittedRows:
    """Draws rows from what a survey measured. All of it is public."""

    schema: Schema
    fitted: Fitted
    progress: float | None = None

    def annealed_at(self, progress: float) -> "_FittedRows":
        """Return the generator of a round before which a share `progress` of the rounds is done."""
        return replace(self, progress=progress)

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Return rows that together fit the survey."""
        cells = self.fitted.rows(count, rng)
        drawn = (own.draw(cells[:, index], rng) for index, own in enumerate(Cells(self.schema).columns))
        return self.schema.lines(np.stack(list(drawn), axis=1))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Return one variation of each row."""
        return RowGenerator(self.schema, progress=self.progress).vary(samples, scales, rng)
