"""The rows of a table, each held as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from gape._support.values import brief
from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, SurveyGenerator
from gape.core.types import Points, Samples, as_samples
from gape.metrics.measure import Scoring
from gape.metrics.usefulness import classify
from gape.modalities.base import Groups, Modality, Rehearsal
from gape.modalities.records import Columns, Records
from gape.modalities.rows.coded import load_cells
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.generator import RowGenerator
from gape.modalities.rows.load import load_rows, require_rows
from gape.modalities.rows.marginals import ALGORITHMS, Marginals
from gape.modalities.rows.measures import row_measures, table_scores
from gape.modalities.rows.rehearsal import made_up_survey
from gape.modalities.rows.schema import Schema
from gape.modalities.rows.survey import MOST_PAIRS
from gape.modalities.rows.surveyed import SurveyedRows

__all__ = ["Rows", "Schema", "load_rows"]

MOST_HELD = 5_000_000  # rows in memory at once: about a kilobyte each, for ten columns


class Rows(Modality):
    """Rows, drawn from the schema of the columns and compared column by column."""

    name = "rows"
    noun = "row"
    # A survey alone is nearer to the records than rounds of votes, in a tenth of the time (experiments/tables). Without
    # it, rounds are cheap without a language model, and rows start far from the data, so many rounds pay off.
    defaults: ClassVar[Mapping[str, Any]] = {"generator": name, "embedder": name, "rounds": 20}
    surveyed = True
    unused = ("text", "label", "labels", "variation", "prompts", "domain", "topics", "words", "corpus_text")
    generators = ("corpus:FILE",)
    scales = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)  # shares of the cells
    per_second = 3_000.0  # for 14 columns, on one core
    written_by = "none: rows drawn from the schema"
    compared_by = "the number of matching columns"
    copied = "cell for cell"
    caution = (
        "W1 rewards rows near the middle of the data, and can be lower than that of real records for it: judge rows by "
        "TV1, TV2, the spread of numbers and the AUC of a column that matters, beside those of as many real rows."
    )
    beside_real = True
    scored: ClassVar[Mapping[str, str]] = {
        "TV1": "TV1: total variation distance of columns to records that did not vote (less is better)",
        "TV2": "TV2: total variation distance of pairs of columns to records that did not vote (less is better)",
        "spread": "Spread: standard deviation of numbers over that of records that did not vote (1 is right)",
        "AUC": "AUC on records that did not vote, of a classifier trained on the rows (more is better)",
    }

    baselines: ClassVar[Mapping[str, str]] = ALGORITHMS

    def __init__(self, schema: str | Path | Schema | None = None) -> None:
        """Read the schema of the columns."""
        self._schema = schema if isinstance(schema, Schema) or schema is None else Schema.read(schema)

    @property
    def schema(self) -> Schema:
        """The columns and their possible values."""
        if self._schema is None:
            raise InputError("rows of a table need a schema of its columns, got none; name the file as schema")
        return self._schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(repr(self._schema))

    def describe(self) -> dict[str, str]:
        """Return the schema, by its content."""
        return {"schema": repr(self.schema)}

    @classmethod
    def refuse(cls, scales: Sequence[float] | None) -> None:
        """Reject scales that are not shares."""
        if scales is not None and not all(0 < scale <= 1 for scale in scales):
            raise InputError(
                f"scales of a table must be shares of its cells, got {brief(scales)}; use numbers above 0 and up to 1"
            )

    def read(self, source: object, columns: Columns) -> Records:
        """Read the rows of a table."""
        rows = load_rows(source, self.schema, columns.user, MOST_HELD)
        return rows if columns.label is None else replace(rows, labels=self.labels(rows.content, columns.label))

    def read_surveyed(
        self, source: object, columns: Columns, listener: Callable[[int], None] = lambda _: None
    ) -> Records:
        """Read the rows of a table as the cells that a survey asks about, by blocks."""
        return load_cells(source, self.schema, columns.user, listener)

    def read_corpus(self, path: str, columns: Columns) -> Samples:  # noqa: ARG002  (all columns count)
        """Read public rows."""
        return load_rows(path, self.schema).content

    def generator(self) -> Generator:
        """Return the generator that draws rows from the schema."""
        return RowGenerator(self.schema)

    def survey_generator(self) -> SurveyGenerator:
        """Return the generator that fits rows to noisy counts of columns and pairs of columns."""
        return SurveyedRows(self.schema)

    def survey_answers(self) -> tuple[int, ...]:
        """Return the number of answers of a row to each release of the survey."""
        return SurveyedRows(self.schema).per_record

    def survey_seconds(self, records: int, samples: int) -> float:
        """Return about how long a survey takes, by the CPU seconds in docs/tables.md."""
        width = len(self.schema.columns)
        pairs = width * (width - 1) // 2
        return 2 + 1.5e-6 * records * width + 2.3e-3 * pairs + 7.7e-6 * samples * min(pairs, MOST_PAIRS)

    @classmethod
    def rehearsal(cls) -> Rehearsal:
        """Return the survey of a made-up table with choices, numbers and empty cells."""
        return made_up_survey()

    def embedder(self) -> Embedder:
        """Return the embedder that compares rows column by column."""
        return RowEmbedder(self.schema)

    def public_embedder(self) -> Embedder:
        """Return the embedder of rows, or an embedder of texts if the schema is not known."""
        if self._schema is not None:
            return RowEmbedder(self._schema)
        from gape.embedders.minilm import MiniLM  # noqa: PLC0415  (heavy)

        return MiniLM()

    def from_arrow(self, column: pa.ChunkedArray) -> Samples:
        """Restore rows."""
        return require_rows(super().from_arrow(column))

    def publish(self, samples: Samples) -> dict[str, pa.Array]:
        """Return the columns of the table."""
        rows = [json.loads(line) for line in samples]
        return {name: pa.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}

    def restore(self, table: pa.Table) -> Samples:
        """Return the rows of a published table as lines of JSON."""
        return as_samples([json.dumps(row, ensure_ascii=False) for row in table.to_pylist()])

    def paragraphs(self, samples: Samples) -> list[str]:
        """Format each row as its cells with the names of their columns."""
        rows = [json.loads(line) for line in samples]
        return [" · ".join(f"{name}: {'' if cell is None else cell}" for name, cell in row.items()) for row in rows]

    def labels(self, samples: Samples, label: str | None) -> Samples | None:
        """Return the cells of the column `label`."""
        if label is None:
            return None
        self.schema.without(label)  # rejects an unknown column
        return as_samples([str(json.loads(row)[label]) for row in samples])

    def features(self, samples: Samples, points: Points, label: str | None) -> Points:
        """Return the points of all other columns."""
        if label is None:
            return points
        others = self.schema.without(label)
        codes = np.delete(self.schema.codes(samples), list(self.schema.columns).index(label), axis=1)
        return RowEmbedder(others).embed(others.lines(codes))

    def measures(self, real: Samples, synthetic: Samples, scoring: Scoring) -> Groups:  # noqa: ARG002  (all rows count)
        """Compare rows column by column."""
        return {"Columns": row_measures(real.tolist(), synthetic.tolist(), self.schema)}

    def baseline(self, name: str) -> Marginals:
        """Return AIM or MST."""
        return Marginals(self.schema, name)

    def check_target(self, target: str) -> None:
        """Reject a column that the schema does not have."""
        self.schema.without(target)

    def scores(self, real: Samples, synthetic: Samples, target: str | None) -> dict[str, float]:
        """Return TV1, TV2 and the spread of numbers and, with a target, the AUC."""
        schema = self.schema
        codes = schema.codes(real), schema.codes(synthetic)
        scores = table_scores(*codes, schema)
        if target is None:
            return scores
        others, index = schema.without(target), list(schema.columns).index(target)
        points = [RowEmbedder(others).embed(others.lines(np.delete(side, index, axis=1))) for side in codes]
        labels = [side[:, index].astype(str).tolist() for side in codes]
        return scores | {"AUC": classify(points[1], labels[1], points[0], labels[0]).auc}
