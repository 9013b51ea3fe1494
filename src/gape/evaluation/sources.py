"""Read the synthetic data to evaluate, from a run or a file, and the records that score it; embed all of them once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gape.core.errors import InputError, RunError
from gape.core.types import Indices, Points, Samples
from gape.embedders.cached import Cached
from gape.embedders.privacy import require_private_embedding
from gape.modalities import Columns, Modality, Records, contents_of, modality
from gape.runs.embedder import make_embedder
from gape.runs.folder.layout import Layout
from gape.runs.folder.stored import SettingsFolder
from gape.runs.settings import Settings


@dataclass(frozen=True, eq=False)
class Synthetic:
    """The synthetic records to evaluate, with their labels if they have any, and those of all rounds of a run."""

    modality: Modality
    content: Samples
    labels: Samples | None
    rounds: tuple[Samples, ...]  # S(0), ..., S(T); empty for a file, and for a run that has only S(0)
    run: SettingsFolder | None
    source: str
    families: tuple[Indices, ...] = ()  # per round: the sizes of the lineages, largest first

    @property
    def settings(self) -> Settings | None:
        """The settings of the run."""
        return None if self.run is None else self.run.settings()


@dataclass(frozen=True, eq=False)
class Embedded:
    """The embeddings of synthetic, private and held-out records: (m, d), (n, d), (h, d)."""

    synthetic: Points
    private: Points
    held_out: Points | None
    rounds: tuple[Points, ...]
    embedder: str

    @property
    def scoring(self) -> Points:
        """The records to score by: the held-out ones if there are any, otherwise the private ones."""
        return self.private if self.held_out is None else self.held_out


def read_synthetic(source: object, columns: Columns, kind: str, schema: str | None) -> Synthetic:
    """Read the samples of a run folder, or records of the modality `kind` from any source that it reads.

    A file has either the named columns, like the private one, or those of an export.
    """
    if isinstance(source, str | Path) and Layout(Path(source)).is_run:
        return _from_run(Path(source), columns.label)
    kind_of_data = modality(kind, schema)
    records = _from_file(kind_of_data, source, columns)
    return Synthetic(kind_of_data, records.content, records.labels, (), None, records.source)


def read_real(source: object, synthetic: Synthetic, columns: Columns) -> Records:
    """Read private or held-out records of the modality of the synthetic ones; columns default to those of the run."""
    if (settings := synthetic.settings) is not None:
        columns = Columns(columns.text or settings.text, columns.label or settings.label)
    return synthetic.modality.read(source, columns)


def embed_all(
    synthetic: Synthetic,
    private: Records,
    held_out: Records | None,
    settings: Settings,
    tell: Callable[[str], None],
) -> Embedded:
    """Embed all records, if the embedder may see the private ones; samples that recur in rounds are embedded once."""
    embedder = make_embedder(settings)
    require_private_embedding(embedder)
    cached = Cached(embedder)  # only for public texts
    nouns = synthetic.modality.nouns
    tell(f"embedding {len(synthetic.content):,} synthetic {nouns}")
    points = cached.embed(synthetic.content)
    rounds = []
    for turn, samples in enumerate(synthetic.rounds):
        tell(f"embedding the {nouns} of round {turn}")
        rounds.append(cached.embed(samples))
    tell(f"embedding {len(private):,} private {nouns}")
    voters = embedder.embed(private.content)
    if held_out is None:
        return Embedded(points, voters, None, tuple(rounds), repr(embedder))
    tell(f"embedding {len(held_out):,} held-out {nouns}")
    return Embedded(points, voters, embedder.embed(held_out.content), tuple(rounds), repr(embedder))


def _from_run(path: Path, label: str | None) -> Synthetic:
    folder = SettingsFolder(path)
    record = folder.record()
    if record.settings is None:
        raise RunError(f"{path} is not the folder of a run; name a folder that `gape run` wrote")
    rounds = tuple(record.samples(turn) for turn in range(record.last + 1))
    done = "" if record.finished else f", which is not finished: after round {record.last}"
    compared = record.last > 0  # otherwise there is only the start, which is scored anyway
    return Synthetic(
        record.modality,
        contents_of(rounds[-1]),
        record.modality.labels(rounds[-1], label),
        tuple(map(contents_of, rounds)) if compared else (),
        folder,
        f"the run {path}{done}",
        families=record.families if compared else (),
    )


def _from_file(kind: Modality, source: object, columns: Columns) -> Records:
    try:
        return kind.read(source, columns)
    except InputError:
        if columns.text in {None, "text"} and columns.label in {None, "label"}:
            raise
    return kind.read(source, Columns("text", None if columns.label is None else "label"))
