"""What is evaluated, and by which records: read from a run or from files, embedded once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gape.core.errors import InputError, RunError
from gape.core.types import Indices, Points, Samples, as_samples
from gape.embedders.cached import Cached
from gape.embedders.privacy import require_private_embedding
from gape.modalities import Records, Schema, load_rows, load_texts
from gape.modalities.rows.embedder import RowEmbedder
from gape.runs.embedder import make_embedder
from gape.runs.record import read_run
from gape.runs.settings import Settings
from gape.runs.text_folder import TextFolder


@dataclass(frozen=True, eq=False)
class Synthetic:
    """The texts to be evaluated, with their labels where they have some, and those of every round before."""

    texts: Samples
    labels: Samples | None
    rounds: tuple[Samples, ...]  # S(0), ..., S(T); empty for a file
    run: TextFolder | None
    source: str
    schema: Schema | None = None  # the columns of the table, where the texts are its rows
    target: str | None = None  # the column of these that the labels are of
    families: tuple[Indices, ...] = ()  # of every round: how many texts each lineage has, largest first

    @property
    def settings(self) -> Settings | None:
        """The settings of the run."""
        return None if self.run is None else self.run.settings()


@dataclass(frozen=True, eq=False)
class Embedded:
    """Everything as points: (m, d), (n, d), (h, d)."""

    synthetic: Points
    private: Points
    held_out: Points | None
    rounds: tuple[Points, ...]
    embedder: str

    @property
    def scoring(self) -> Points:
        """The records that score: those held out, or else the private ones."""
        return self.private if self.held_out is None else self.held_out


def read_synthetic(source: object, text: str | None, label: str | None, schema: str | None) -> Synthetic:
    """Read the texts of a run folder, of a file or of what else `load_texts` takes, or by a schema rows.

    In a file they stand in the columns named, as in the private one, or else in `text` and `label`, as exported.
    """
    if isinstance(source, str | Path) and (Path(source) / "internal" / "settings.json").exists():
        made = _of_run(Path(source))
    elif schema is not None:
        rows = load_rows(source, Schema.read(schema))
        made = Synthetic(rows.texts, None, (), None, rows.source, Schema.read(schema))
    else:
        records = _of_file(source, text, label)
        return Synthetic(records.texts, records.labels, (), None, records.source)
    if made.schema is None or label is None:
        return made
    return replace(made, labels=_column(made.texts, made.schema, label), target=label)


def read_private(source: object, made: Synthetic, text: str | None, label: str | None) -> Records:
    """Read private records as the synthetic ones are; the columns are those of the run where they are not named."""
    if made.schema is not None:
        rows = load_rows(source, made.schema)
        return rows if label is None else replace(rows, labels=_column(rows.texts, made.schema, label))
    if (settings := made.settings) is not None:
        text, label = text or settings.text, label or settings.label
    return load_texts(source, text, label)


def features(texts: Samples, points: Points, made: Synthetic) -> Points:
    """Return what a classifier sees of texts: their points, and of rows those of all columns but what it is to tell."""
    if made.schema is None or made.target is None:
        return points
    others = made.schema.without(made.target)
    codes = np.delete(made.schema.codes(texts), list(made.schema.columns).index(made.target), axis=1)
    return RowEmbedder(others).embed(others.lines(codes))


def embed_all(
    synthetic: Synthetic,
    private: Records,
    held_out: Records | None,
    settings: Settings,
    tell: Callable[[str], None],
) -> Embedded:
    """Embed every text once, if the embedder may see the private ones; those of the rounds through a cache."""
    embedder = make_embedder(settings)
    require_private_embedding(embedder)
    cached = Cached(embedder)  # of public texts alone
    tell(f"embedding {len(synthetic.texts):,} synthetic texts")
    points = cached.embed(synthetic.texts)
    rounds = []
    for turn, texts in enumerate(synthetic.rounds):
        tell(f"embedding the texts of round {turn}")
        rounds.append(cached.embed(texts))
    tell(f"embedding {len(private):,} private texts")
    voters = embedder.embed(private.texts)
    if held_out is None:
        return Embedded(points, voters, None, tuple(rounds), repr(embedder))
    tell(f"embedding {len(held_out):,} texts that were held out")
    return Embedded(points, voters, embedder.embed(held_out.texts), tuple(rounds), repr(embedder))


def _of_run(path: Path) -> Synthetic:
    record = read_run(path)
    if record.settings is None or not record.is_text:
        raise RunError(f"{path} holds no text run; name the folder of one")
    columns, last = record.settings.schema, record.samples(record.last)
    labels = last["label"] if last.dtype.names else None
    texts = tuple(_texts(record.samples(turn)) for turn in range(record.last + 1))
    done = "" if record.finished else f", which is not finished: after round {record.last}"
    schema = None if columns is None else Schema.read(columns)
    source = f"the run {path}{done}"
    return Synthetic(texts[-1], labels, texts, TextFolder(path), source, schema, families=record.families)


def _column(rows: Samples, schema: Schema, name: str) -> Samples:
    """Return the cells of one column as labels."""
    schema.without(name)  # which refuses one that is not there
    return as_samples([str(json.loads(row)[name]) for row in rows])


def _of_file(source: object, text: str | None, label: str | None) -> Records:
    try:
        return load_texts(source, text, label)
    except InputError:
        if text in {None, "text"} and label in {None, "label"}:
            raise
    return load_texts(source, "text", None if label is None else "label")


def _texts(samples: Samples) -> Samples:
    return np.asarray(samples["text"], dtype=object) if samples.dtype.names else samples
