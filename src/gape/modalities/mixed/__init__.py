"""Rows of a table with texts beside other cells: reviews with stars, tickets with a priority."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gape._support.values import brief
from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator
from gape.core.types import Points, Samples, as_samples
from gape.embedders.cached import Cached
from gape.metrics.measure import Measure, Scoring
from gape.modalities.base import Groups, Modality, TextWriter
from gape.modalities.mixed.columns import Prose
from gape.modalities.mixed.embedder import MixedEmbedder, largest_norm
from gape.modalities.mixed.generator import MixedGenerator
from gape.modalities.mixed.measures import agreement_measures
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.mixed.turns import Turns
from gape.modalities.records import Columns, Records, contents_of, open_table
from gape.modalities.rows.columns import Choices, Column, Dates, Numbers
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.load import load_rows, require_rows, row_blocks
from gape.modalities.rows.measures import row_measures
from gape.modalities.text import Text
from gape.modalities.text.measures import (
    next_word_measures,
    repetition_measures,
    runs_by_chance,
    shared_runs,
    text_measures,
)

__all__ = ["Mixed", "MixedEmbedder", "MixedGenerator", "MixedSchema"]

_FEWEST = 2  # different rows of a corpus with a label, so that each can be varied


class Mixed(Modality):
    """Rows whose texts a language model writes to agree with their other cells."""

    name = "mixed"
    noun = "row"
    unused = ("text", "words", "corpus_text")
    generators = Text.generators
    embedders = Text.embedders
    has_words = True
    on_disk = True
    on_workers = True
    copied = "cell for cell"

    def __init__(
        self, schema: str | Path | MixedSchema | None = None, *, fixed: Mapping[str, Any] | None = None
    ) -> None:
        """Read the schema of the columns. All rows have the cells `fixed`."""
        self._schema = schema if isinstance(schema, MixedSchema) or schema is None else MixedSchema.read(schema)
        self._fixed = dict(fixed or {})

    @property
    def schema(self) -> MixedSchema:
        """The columns, their possible values and what their texts are."""
        if self._schema is None:
            raise InputError("rows with texts need a schema of their columns, got none; name the file as schema")
        return self._schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mixed) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(repr(self._schema))

    def describe(self) -> dict[str, str]:
        """Return the schema, by its content."""
        return {"schema": repr(self.schema)}

    @property
    def domain(self) -> str:
        """What the texts of the first column of texts are."""
        return next(iter(self.schema.texts.values())).about

    @property
    def words(self) -> int:
        """About how many words the texts of a row have together."""
        columns = self.schema.texts.values()
        return sum(text.words * (text.most if isinstance(text, Turns) else 1) for text in columns)

    def read(self, source: object, columns: Columns) -> Records:
        """Read the rows of a table."""
        return next(self._blocks(source, columns, None))

    def blocks(self, source: object, columns: Columns, most: int) -> Iterator[Records]:
        """Read the rows of a table block by block."""
        return self._blocks(source, columns, most)

    def _blocks(self, source: object, columns: Columns, most: int | None) -> Iterator[Records]:
        for rows in row_blocks(source, self.schema, columns.user, most):
            yield replace(rows, labels=self.labels(rows.content, columns.label))

    def read_corpus(self, path: str, columns: Columns) -> Samples:
        """Read public rows. Without the column of labels, each is there once with every label."""
        label = columns.label
        if label is None or label in open_table(path).names:
            return load_rows(path, self.schema).content
        rows = [json.loads(line) for line in load_rows(path, self.schema.without(label)).content]
        values = [self.schema.cell(label, value) for value in self.possible_labels(label)]
        return as_samples([self.schema.line({**row, label: value}) for value in values for row in rows])

    def having(self, column: str, value: str) -> Mixed:
        """Return the modality of the rows with this value in a column of choices."""
        return Mixed(self.schema, fixed={column: self.schema.cell(column, value)})

    def of_label(self, corpus: Sequence[str]) -> Sequence[str]:
        """Return the rows of a corpus that have the label."""
        known = ((line, json.loads(line)) for line in corpus)
        rows = [line for line, row in known if all(row[name] == cell for name, cell in self._fixed.items())]
        if len(set(rows)) < _FEWEST:
            label = " and ".join(f"{name} {brief(value)}" for name, value in self._fixed.items())
            raise InputError(
                f"the corpus has {len(set(rows))} different rows with {label}, and each label needs {_FEWEST}; add "
                "some, or leave the column out of the corpus, so that every row is offered with each label"
            )
        return rows

    @property
    def longest(self) -> float:
        """The largest norm of an embedding of a row."""
        return largest_norm(self.schema)

    def telling(self, samples: Samples) -> list[str]:
        """Return all texts of rows: a text tells who wrote it, whatever the other cells are."""
        return self._texts(samples)

    def written(self, writer: TextWriter, painter: object = None) -> Generator:  # noqa: ARG002  (no pictures)
        """Return the generator that draws cells and lets `writer` write the texts."""
        return MixedGenerator(self.schema, writer, writer.prompts.given, fixed=self._fixed)

    def compared(self, embedder: Embedder) -> Embedder:
        """Return the embedder of rows that compares their texts by `embedder`."""
        return MixedEmbedder(self.schema, embedder)

    def text_part(self, embedder: Embedder | None) -> Embedder | None:
        """Return the embedder of texts inside that of rows."""
        inner = embedder.embedder if isinstance(embedder, Cached) else embedder
        return inner.texts if isinstance(inner, MixedEmbedder) else None

    def public_embedder(self) -> Embedder:
        """Return the embedder of rows with all-MiniLM-L6-v2, or that of texts if the schema is not known."""
        from gape.embedders.minilm import MiniLM  # noqa: PLC0415  (heavy)

        return MiniLM() if self._schema is None else self.compared(MiniLM())

    def from_arrow(self, column: pa.ChunkedArray) -> Samples:
        """Restore rows."""
        return require_rows(super().from_arrow(column))

    def publish(self, samples: Samples) -> dict[str, pa.Array]:
        """Return the columns of the table."""
        rows = [json.loads(line) for line in contents_of(samples)]
        kinds = {} if self._schema is None else {name: _type(column) for name, column in self._schema.columns.items()}
        return {name: pa.array([row[name] for row in rows], kinds.get(name)) for name in (rows[0] if rows else ())}

    def restore(self, table: pa.Table) -> Samples:
        """Return the rows of a published table as lines of JSON."""
        return as_samples([json.dumps(row, ensure_ascii=False) for row in table.to_pylist()])

    def lines(self, samples: Samples) -> list[str]:
        """Format each row as its cells and texts with the names of their columns."""
        rows = map(json.loads, contents_of(samples))
        return [" · ".join(f"{name}: {_shown(cell)}" for name, cell in row.items()) for row in rows]

    def paragraphs(self, samples: Samples) -> list[str]:
        """Format each row as a line of cells, and a line for each text and for each turn of a conversation."""
        texts = () if self._schema is None else tuple(self._schema.texts)
        return [_paragraphs(json.loads(line), texts) for line in contents_of(samples)]

    def wording(self, samples: Samples) -> list[str]:
        """Return the texts of each row: those of the schema, or if it is not known all cells that are texts."""
        named = None if self._schema is None else set(self._schema.texts)
        return [_words(json.loads(line), named) for line in contents_of(samples)]

    def choices(self) -> dict[str, tuple[str, ...]]:
        """Return the choices of the schema."""
        columns = {} if self.schema.cells is None else self.schema.cells.columns
        return {name: tuple(map(str, column.values)) for name, column in columns.items() if isinstance(column, Choices)}

    def possible_labels(self, column: str) -> tuple[str, ...]:
        """Return the choices of the column, which must have one in every row."""
        known = self.choices()
        if column not in known:
            raise InputError(
                f"label must name a column of choices of the schema, got {brief(column)}; name one of "
                f"{', '.join(map(brief, known)) or 'them after adding it'}"
            )
        if self.schema.columns[column].missing:
            raise InputError(
                f"column {brief(column)} may be empty, and a label never is; set missing = false there, or add a "
                "choice for what is empty"
            )
        return known[column]

    def labels(self, samples: Samples, label: str | None) -> Samples | None:
        """Return the cells of the column `label`, which must hold no texts."""
        if label is None:
            return None
        if self.schema.cells is None or label not in self.schema.cells.columns:
            raise InputError(
                f"{brief(label)} is not a column without texts of the schema; name one of "
                f"{', '.join(brief(name) for name in self.schema.names if name not in self.schema.texts)}"
            )
        return as_samples([str(json.loads(row)[label]) for row in contents_of(samples)])

    def features(self, samples: Samples, points: Points, label: str | None) -> Points:  # noqa: ARG002  (in the points)
        """Return the points of all other columns."""
        if label is None or self.schema.cells is None:
            return points
        widths = RowEmbedder(self.schema.cells).widths
        start = sum(list(widths.values())[: list(widths).index(label)])
        return np.delete(points, np.s_[start : start + widths[label]], axis=1)

    def measures(self, real: Samples, synthetic: Samples, scoring: Scoring) -> Groups:
        """Compare the cells column by column, and the texts of each column as words."""
        groups: Groups = {}
        (real_cells, real_texts), (cells, texts) = self.schema.split(real), self.schema.split(synthetic)
        if self.schema.cells is not None:
            real_lines, lines = (self.schema.cell_lines(side).tolist() for side in (real_cells, cells))
            compared = row_measures(real_lines, lines, self.schema.cells)
            groups["Columns"] = tuple(measure for measure in compared if measure.name != "repeated rows")
        for name in self.schema.texts:
            usual, own = ([text for text in side[name] if text is not None] for side in (real_texts, texts))
            if usual and own:
                more = f" in {name}" if len(texts) > 1 else ""
                groups[f"Texts{more}"] = text_measures(usual, own, scoring)
                groups[f"Repetition{more}"] = repetition_measures(usual, own, scoring)
        return groups

    def agreement(
        self, real: tuple[Samples, Points], synthetic: tuple[Samples, Points], scoring: Scoring
    ) -> tuple[Measure, ...]:
        """Measure what texts tell about the choices beside them."""
        return agreement_measures(self.schema, real, synthetic, scoring)

    def usefulness(
        self, tested: Samples, synthetic: Samples, start: Samples, records: Samples, scoring: Scoring
    ) -> tuple[Measure, ...]:
        """Train a small model on the texts of each set, and test how well it predicts the next words of real ones."""
        real, texts = self._texts(tested), self._texts(synthetic)
        if not real or not texts:
            return ()
        return next_word_measures(real, texts, self._texts(start), self._texts(records), scoring)

    def shared(self, private: Samples, synthetic: Samples) -> tuple[Measure, ...]:
        """Measure the longest runs of words that texts share with texts of records."""
        return tuple(_runs(shared_runs, self._texts(private), self._texts(synthetic)))

    def shared_by_chance(self, private: Samples, held_out: Samples) -> tuple[Measure, ...]:
        """Measure the same for records that did not vote."""
        return tuple(_runs(runs_by_chance, self._texts(private), self._texts(held_out)))

    def _texts(self, samples: Samples) -> list[str]:
        """Return all texts of rows, column by column."""
        columns = self.schema.split(samples)[1].values()
        return [text for column in columns for text in column if text is not None]


_Runs = Callable[[Sequence[str], Sequence[str]], list[Measure]]


def _runs(measure: _Runs, private: list[str], texts: list[str]) -> list[Measure]:
    return measure(private, texts) if private and texts else []


def _shown(cell: object) -> str:
    if isinstance(cell, list):
        return " / ".join(f"{turn['role']}: {turn['content']}" for turn in cell)
    return "" if cell is None else str(cell)


def _paragraphs(row: Mapping[str, Any], texts: Container[str]) -> str:
    cells, others = list[str](), list[str]()
    for name, cell in row.items():
        if isinstance(cell, list):
            others += [f"{turn['role']}: {turn['content']}" for turn in cell]
        else:
            (others if name in texts else cells).append(f"{name}: {_shown(cell)}")
    return "\n".join([*([" · ".join(cells)] if cells else []), *others])


def _words(row: Mapping[str, Any], named: set[str] | None) -> str:
    """Return the texts of a row, the longest first: conversations begin alike, and are not copies for that."""
    texts: list[str] = []
    for name, cell in row.items():
        if isinstance(cell, list):
            texts += [turn["content"] for turn in cell]
        elif isinstance(cell, str) and (named is None or name in named):
            texts.append(cell)
    return "\n".join(sorted(texts, key=len, reverse=True))


def _type(column: Column | Prose) -> pa.DataType:
    """Return the type that the cells of a column are published as, even if all of them are missing."""
    if isinstance(column, Turns):
        return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
    if isinstance(column, Choices):
        return pa.int64() if isinstance(column.values[0], int) else pa.string()
    if isinstance(column, Numbers) and not isinstance(column, Dates):
        return pa.float64() if column.decimals else pa.int64()
    return pa.string()  # texts, and dates in ISO 8601
