"""What a record is: everything in a run that depends on the kind of data, behind one interface.

A modality reads private records, says what the ledger knows them by, stores samples in Arrow, publishes them, brings
the parts that write and compare them by default, measures them, and names them. The rest of the package asks the
modality of a run and never which one it is. `docs/modalities.md` writes one from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator
from gape.core.types import Points, Samples
from gape.metrics.measure import Measure, Scoring
from gape.modalities.arrow import samples_from_arrow, samples_to_arrow
from gape.modalities.records import Records

Groups = dict[str, tuple[Measure, ...]]  # the measures of an evaluation, under their headings

_SHOWN_NUMBERS = 6  # of a vector


@dataclass(frozen=True)
class Columns:
    """Which columns of the private data hold what; None where a column is not named."""

    text: str | None = None
    label: str | None = None
    user: str | None = None


class Modality:
    """One kind of data. Subclasses set the class variables, and override what differs.

    `schema` is a TOML file that describes the records, for modalities that need one. An instance without its schema can
    still store, publish and show samples, which is all that is needed to look at a run that somebody else made.

    Samples are an array with one entry per record on its first axis: texts, (m,), of dtype object, or vectors, (m, d),
    of float32. Whatever else a record is, it is written as one of the two.
    """

    name: ClassVar[str]  # as `Settings.modality` and run folders have it
    noun: ClassVar[str]  # one record
    nouns: ClassVar[str]  # several; noun with an s unless it is set

    # Settings whose defaults differ from the usual ones. A generator or embedder of the modality's own has its name.
    defaults: ClassVar[Mapping[str, Any]] = {}
    unused: ClassVar[tuple[str, ...]] = ()  # settings that mean nothing here, and are rejected
    generators: ClassVar[tuple[str, ...]] = ()  # what may write, besides the modality itself: see `Settings.generator`
    embedders: ClassVar[tuple[str, ...]] = ()  # what may compare, besides the modality itself
    scales: ClassVar[tuple[float, ...]] = (1.0,)  # of the variations, where the modality itself writes

    has_words: ClassVar[bool] = False  # whether near copies are told by the words that records share
    on_workers: ClassVar[bool] = False  # whether the workers of a cluster can read it
    on_disk: ClassVar[bool] = False  # whether `gape embed` can read it
    per_second: ClassVar[float | None] = None  # samples written, compared and selected; None where models set the pace

    written_by: ClassVar[str] = ""  # its own generator, in words
    compared_by: ClassVar[str] = ""  # its own embedder, in words
    copied: ClassVar[str] = "exactly"  # how a sample equals a record

    def __init__(self, schema: str | Path | None = None) -> None:
        """Read the schema, if there is one."""
        if schema is not None:
            raise InputError(f"the modality {self.name} takes no schema, got {str(schema)!r}; leave it out")

    def __init_subclass__(cls) -> None:
        """Form the plural."""
        cls.nouns = cls.__dict__.get("nouns", f"{cls.noun}s")

    def describe(self) -> dict[str, str]:
        """Return what of the schema must agree for two runs to be comparable, by name."""
        return {}

    @classmethod
    def writers(cls) -> tuple[str, ...]:
        """Return all that may write: what `generators` lists, and the modality itself if it does by default."""
        return cls.generators + ((cls.name,) if cls.defaults.get("generator") == cls.name else ())

    @classmethod
    def comparers(cls) -> tuple[str, ...]:
        """Return all that may compare: what `embedders` lists, and the modality itself if it does by default."""
        return cls.embedders + ((cls.name,) if cls.defaults.get("embedder") == cls.name else ())

    @classmethod
    def refuse(cls, scales: Sequence[float] | None) -> None:
        """Reject scales that do not suit."""

    # Reading

    def read(self, source: object, columns: Columns) -> Records:
        """Read private records. No message may contain any part of one."""
        raise InputError(f"no reader of {self.nouns} is built in; put the run together in Python")

    def read_corpus(self, path: str, column: str | None) -> Samples:
        """Read public records to choose from, for the generator corpus:FILE."""
        raise InputError(f"{self.nouns} are not chosen from a corpus, got {path}; leave the generator out")

    def check_corpus(self, path: str, column: str | None) -> None:
        """Reject a corpus that cannot be read."""
        self.read_corpus(path, column)

    # The parts of a run

    def generator(self) -> Generator:
        """Return what writes candidates where the generator is the modality itself."""
        raise InputError(f"no generator of {self.nouns} is built in; put the run together in Python")

    def embedder(self) -> Embedder:
        """Return what compares records where the embedder is the modality itself."""
        raise InputError(f"no embedder of {self.nouns} is built in; put the run together in Python")

    def public_embedder(self) -> Embedder:
        """Return what the report compares samples by, where a run does not say: on this machine, without a service."""
        return self.embedder()

    # Samples

    def to_arrow(self, samples: Samples) -> pa.Array:
        """Write samples as one column."""
        return samples_to_arrow(samples)

    def from_arrow(self, column: pa.ChunkedArray) -> Samples:
        """Read what `to_arrow` has written. The file may come from anyone: raise RunError for anything else."""
        return samples_from_arrow(column)

    def publish(self, samples: Samples) -> dict[str, pa.Array]:
        """Return the columns under which samples are published."""
        if samples.dtype.names:
            return {name: self.to_arrow(samples[name]) for name in samples.dtype.names}
        return {"sample" if samples.ndim == 2 else "text": self.to_arrow(samples)}

    def restore(self, table: pa.Table) -> Samples:
        """Read what `publish` has written, without labels."""
        return self.from_arrow(table["text" if "text" in table.column_names else "sample"])

    def lines(self, samples: Samples) -> list[str]:
        """Write every sample as a text for people to read, without its label."""
        content = contents_of(samples)
        if content.ndim == 1:
            texts: list[str] = content.tolist()
            return texts
        more = f", … ({content.shape[1]} numbers)" if content.shape[1] > _SHOWN_NUMBERS else ""
        return [f"({', '.join(f'{x:.4g}' for x in row)}{more})" for row in content[:, :_SHOWN_NUMBERS].tolist()]

    # Measures, all of them by private records, and therefore not private

    def labels(self, samples: Samples, label: str | None) -> Samples | None:
        """Return the label of every sample, if there are labels; `label` names the column."""
        return samples["label"] if samples.dtype.names else None

    def features(self, samples: Samples, points: Points, label: str | None) -> Points:
        """Return what a classifier sees of samples: their points, (m, d), or those of all but the label."""
        return points

    def measures(self, real: Samples, made: Samples, scoring: Scoring) -> Groups:
        """Compare the content of samples with that of real records."""
        return {}

    def usefulness(
        self, tested: Samples, made: Samples, start: Samples, records: Samples, scoring: Scoring
    ) -> tuple[Measure, ...]:
        """Measure what samples teach about records, beside what the start and as many `records` teach."""
        return ()

    def shared(self, private: Samples, made: Samples) -> tuple[Measure, ...]:
        """Measure what samples share with private records beyond being equal."""
        return ()

    def shared_by_chance(self, private: Samples, held_out: Samples) -> tuple[Measure, ...]:
        """Measure the same for records that did not vote."""
        both = len(set(keys(private)) & set(keys(held_out)))
        equal = f"of {len(set(keys(held_out))):,}, by chance"
        return (Measure(f"held-out {self.nouns} that are records", float(both), equal),)


def contents_of(samples: Samples) -> Samples:
    """Return samples without their labels."""
    return np.asarray(samples["text"], dtype=object) if samples.dtype.names else samples


def keys(samples: Samples) -> list[str] | list[bytes]:
    """Return something for every sample by which equal ones are equal."""
    return samples.tolist() if samples.ndim == 1 else [row.tobytes() for row in np.ascontiguousarray(samples)]
