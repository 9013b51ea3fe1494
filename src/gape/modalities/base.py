"""The interface of a modality, which holds everything in a run that depends on the kind of data.

A modality reads private records, identifies them for the ledger, stores samples in Arrow, publishes them, provides the
default generator and embedder, measures samples, and names them. The rest of the package calls the modality of a run
and never asks which one it is. `docs/modalities.md` writes one from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, SurveyGenerator
from gape.core.types import Points, Samples, texts_of
from gape.generators.prompted import PromptedText
from gape.generators.resampled import ResampledText
from gape.language.request import LanguageModel
from gape.metrics.measure import Measure, Scoring
from gape.modalities.arrow import samples_from_arrow, samples_to_arrow
from gape.modalities.records import Columns, Records, contents_of, keys
from gape.privacy.accounting import Neighbours

TextWriter: TypeAlias = ResampledText | PromptedText
Groups = dict[str, tuple[Measure, ...]]  # the measures of an evaluation, under their headings

_SHOWN_NUMBERS = 6  # most numbers of a vector that are shown


@dataclass(frozen=True)
class Rehearsal:
    """A survey of made-up records. `one` and `other` are records, (1,), that differ in everything that is asked."""

    survey: SurveyGenerator
    answers: tuple[int, ...]  # of a record, to each release
    embedder: Embedder
    records: Samples
    one: Samples
    other: Samples


class Baseline(Protocol):
    """A method of another library, which comparisons run beside those of this package. It must be picklable."""

    def __call__(
        self, records: Samples, count: int, epsilon: float, delta: float, neighbours: Neighbours, seed: int
    ) -> Samples:
        """Make `count` samples that are (epsilon, delta)-DP for the records."""
        ...


class Modality:
    """One kind of data. Subclasses set the class variables, and override what differs.

    `schema` is a TOML file that describes the records, for modalities that need one. An instance without its schema can
    still store, publish and show samples, which is enough to view a run made by someone else.

    Samples are an array with one entry per record on its first axis: texts, (m,), of dtype object, or vectors, (m, d),
    of float32. Every other kind of record is written as one of the two.
    """

    name: ClassVar[str]  # as in `Settings.modality` and run folders
    noun: ClassVar[str]  # for one record
    nouns: ClassVar[str]  # for several records; noun with an s unless it is set

    # Settings whose defaults differ from the usual ones. The modality's own generator or embedder has its name.
    defaults: ClassVar[Mapping[str, Any]] = {}
    unused: ClassVar[tuple[str, ...]] = ()  # settings that do not apply here, and are rejected
    generators: ClassVar[tuple[str, ...]] = ()  # allowed generators besides its own, as in `Settings.generator`
    embedders: ClassVar[tuple[str, ...]] = ()  # allowed embedders besides its own
    # Further parts that the modality makes itself, as in `Settings.generator` and `Settings.embedder`, by their forms,
    # each with the name of its class.
    own_generators: ClassVar[Mapping[str, str]] = {}
    own_embedders: ClassVar[Mapping[str, str]] = {}
    services: ClassVar[tuple[str, ...]] = ()  # which of these generators ask a hosted model, paid for each record
    scales: ClassVar[tuple[float, ...]] = (1.0,)  # of the variations, for the modality's own generators
    # For records that are pictures: what draws them from captions, as in `Settings.painter`; what writes the captions,
    # as in `Settings.generator`; and settings whose defaults differ then.
    painters: ClassVar[tuple[str, ...]] = ()
    captioners: ClassVar[tuple[str, ...]] = ()
    captioned: ClassVar[Mapping[str, Any]] = {}

    surveyed: ClassVar[bool] = False  # whether its own generator can fit records to a survey, which replaces the rounds
    has_words: ClassVar[bool] = False  # whether near copies are recognised by the words that records share
    plain_texts: ClassVar[bool] = False  # whether a record is a text and nothing else
    on_workers: ClassVar[bool] = False  # whether the workers of a cluster can read it
    on_disk: ClassVar[bool] = False  # whether `gape embed` can read it
    per_second: ClassVar[float | None] = None  # samples that a round processes per second; None if models set the pace

    exported: ClassVar[str] = "csv"  # the format of `gape export` that is suggested
    written_by: ClassVar[str] = ""  # its own generator, in words
    compared_by: ClassVar[str] = ""  # its own embedder, in words
    caution: ClassVar[str] = ""  # how a measure can mislead
    copied: ClassVar[str] = "exactly"  # in which sense a copied sample equals a record
    beside_real: ClassVar[bool] = False  # whether evaluations score as many real records unless told not to
    scored: ClassVar[Mapping[str, str]] = {}  # the names of its `scores`, each with its heading in tables
    baselines: ClassVar[Mapping[str, str]] = {}  # methods of other libraries for comparisons, each with its label

    def __init__(self, schema: str | Path | None = None) -> None:
        """Read the schema, if there is one."""
        if schema is not None:
            raise InputError(f"the modality {self.name} does not use a schema, got {str(schema)!r}; leave it out")

    def __init_subclass__(cls) -> None:
        """Derive the plural of the noun unless it is set."""
        cls.nouns = cls.__dict__.get("nouns", f"{cls.noun}s")

    def describe(self) -> dict[str, str]:
        """Return the properties of the schema, by name, that must agree for two runs to be comparable."""
        return {}

    @classmethod
    def writers(cls) -> tuple[str, ...]:
        """Return all allowed generators: the modality's own, and those in `generators`."""
        by_name = (cls.name,) if cls.defaults.get("generator") == cls.name else ()
        return (*cls.own_generators, *cls.generators, *by_name)

    @classmethod
    def comparers(cls) -> tuple[str, ...]:
        """Return all allowed embedders: the modality's own, and those in `embedders`."""
        by_name = (cls.name,) if cls.defaults.get("embedder") == cls.name else ()
        return (*cls.own_embedders, *cls.embedders, *by_name)

    @classmethod
    def owns(cls, spec: str) -> bool:
        """Whether the modality itself makes this generator or embedder."""
        heads = {form.partition(":")[0] for form in (*cls.own_generators, *cls.own_embedders)}
        return spec.partition(":")[0] in {*heads, cls.name}

    @classmethod
    def refuse(cls, scales: Sequence[float] | None) -> None:
        """Reject scales that do not suit the modality."""

    # Reading

    def read(self, source: object, columns: Columns) -> Records:
        """Read private records. No message may contain any part of one."""
        raise InputError(f"there is no built-in reader of {self.nouns}; set up the run in Python")

    def read_surveyed(
        self,
        source: object,
        columns: Columns,
        listener: Callable[[int], None] = lambda _: None,
    ) -> Records:
        """Read private records that only answer the survey of the modality's own generator, and never vote.

        Their content may be whatever its questions encode. `listener` is told how many are read so far.
        """
        return self.read(source, columns)

    def blocks(self, source: object, columns: Columns, most: int) -> Iterator[Records]:
        """Read private records for `gape embed`, at most `most` at a time, in the order and with the names of `read`.

        Here all of them are in memory before the first block.
        """
        records = self.read(source, columns)
        for start in range(0, len(records) or 1, most):
            some = slice(start, start + most)
            yield replace(
                records,
                content=records.content[some],
                labels=None if records.labels is None else records.labels[some],
                users=None if records.users is None else records.users[some],
                dropped=0 if start else records.dropped,
                contents=None if records.contents is None else records.contents[some],
            )

    def read_corpus(self, path: str, columns: Columns) -> Samples:
        """Read public records for the generator corpus:FILE, which chooses from them."""
        raise InputError(f"{self.nouns} cannot be chosen from a corpus, got {path}; leave the generator out")

    def check_corpus(self, path: str, columns: Columns) -> None:
        """Reject a corpus that cannot be read."""
        self.read_corpus(path, columns)

    def telling(self, samples: Samples) -> list[str]:
        """Return the texts that tell who a record is about: none may be both in the private data and in a corpus."""
        return [str(sample) for sample in samples]

    # The parts of a run

    def having(self, column: str, value: str) -> Modality:
        """Return the modality of the records of one label: those with this value in the column of labels.

        It makes the generator of the label. Where the label is not a part of the record, it is this one.
        """
        return self

    def of_label(self, corpus: Sequence[str]) -> Sequence[str]:
        """Return the records of a corpus that can have the label of this modality (`having`): by default all."""
        return corpus

    @property
    def longest(self) -> float:
        """The largest norm of an embedding of a record, which decides how far apart labels are."""
        return 1.0

    def generator(self) -> Generator:
        """Return the modality's own generator."""
        raise InputError(f"there is no built-in generator of {self.nouns}; set up the run in Python")

    def survey_generator(self) -> SurveyGenerator:
        """Return the generator that asks the records public questions before it writes."""
        raise InputError(f"{self.nouns} answer no survey; leave it out")

    def survey_answers(self) -> tuple[int, ...]:
        """Return the largest number of answers that a record gives to each release of that survey."""
        raise InputError(f"{self.nouns} answer no survey; leave it out")

    def survey_seconds(self, records: int, samples: int) -> float | None:
        """Return about how long a survey without rounds takes; None if that is not known."""
        return None

    @classmethod
    def rehearsal(cls) -> Rehearsal | None:
        """Return a survey of made-up records, which audits try; None if records of this kind answer none."""
        return None

    def embedder(self) -> Embedder:
        """Return the modality's own embedder."""
        raise InputError(f"there is no built-in embedder of {self.nouns}; set up the run in Python")

    def make_generator(self, spec: str, label: str | None = None, model: LanguageModel | None = None) -> Generator:
        """Return one of the modality's own generators, for the records of one label if there are labels.

        `model` is what `make_service` returned, with its answers stored.
        """
        return self.generator()

    def remarks(self, spec: str, labels: Sequence[str] | None) -> list[str]:
        """Return what `gape plan` should say of one of the modality's own generators, in sentences."""
        return []

    def make_service(self, model: str, **reached: Any) -> LanguageModel:
        """Return a hosted model that makes records; `reached` says how a service is reached and paid."""
        raise InputError(f"no service makes {self.nouns}, got the model {model!r:.60}; use another generator")

    def make_embedder(self, spec: str) -> Embedder:
        """Return one of the modality's own embedders."""
        return self.embedder()

    def identity(self, embedder: Embedder) -> str:
        """Describe an embedder with all that its vectors depend on: a run votes only with vectors of its own kind."""
        return repr(embedder)

    @property
    def domain(self) -> str | None:
        """What the texts of a record are, if the schema tells."""
        return None

    @property
    def words(self) -> int | None:
        """About how many words a record has, if the schema tells."""
        return None

    def written(self, writer: TextWriter, painter: object = None) -> Generator:
        """Return the generator for a language model; `writer` writes single texts with the prompts of the run.

        `painter` draws them, if records are pictures.
        """
        return writer

    def compared(self, embedder: Embedder) -> Embedder:
        """Return the embedder of records for an embedder of texts."""
        return embedder

    def text_part(self, embedder: Embedder | None) -> Embedder | None:
        """Return the embedder of texts inside an embedder of records, with or without a cache around that."""
        return embedder

    def public_embedder(self) -> Embedder:
        """Return the embedder of the report if a run does not name one; it runs on this machine, without a service."""
        return self.embedder()

    # Samples

    def to_arrow(self, samples: Samples) -> pa.Array:
        """Convert samples to one column."""
        return samples_to_arrow(samples)

    def from_arrow(self, column: pa.ChunkedArray) -> Samples:
        """Restore samples from `to_arrow`. The file may come from anyone: raise RunError for anything else."""
        return samples_from_arrow(column)

    def publish(self, samples: Samples) -> dict[str, pa.Array]:
        """Return the columns that samples are published as."""
        if samples.dtype.names:
            return {name: self.to_arrow(samples[name]) for name in samples.dtype.names}
        return {"sample" if samples.ndim == 2 else "text": self.to_arrow(samples)}

    def restore(self, table: pa.Table) -> Samples:
        """Restore samples from `publish`, without labels."""
        return self.from_arrow(table["text" if "text" in table.column_names else "sample"])

    def lines(self, samples: Samples) -> list[str]:
        """Format each sample as readable text, without its label."""
        content = contents_of(samples)
        if content.ndim == 1:
            texts: list[str] = content.tolist()
            return texts
        more = f", … ({content.shape[1]} numbers)" if content.shape[1] > _SHOWN_NUMBERS else ""
        return [f"({', '.join(f'{x:.4g}' for x in row)}{more})" for row in content[:, :_SHOWN_NUMBERS].tolist()]

    def paragraphs(self, samples: Samples) -> list[str]:
        """Format each sample as `lines` does, in several lines if that reads better, for the report."""
        return self.lines(samples)

    def pictures(self, samples: Samples) -> list[str] | None:
        """Return each sample as the `data:` URL of a picture for the report; None if samples are not pictures."""
        return None

    def sheet(self, rows: Sequence[Samples]) -> bytes | None:
        """Return rows of samples as one picture, a PNG file; None if samples are not pictures."""
        return None

    def keys(self, samples: Samples) -> list[str] | list[bytes]:
        """Return a key for each sample, such that equal records have equal keys."""
        return keys(samples)

    def files(self, table: pa.Table) -> Mapping[str, bytes]:
        """Return the published samples as one file each, by their paths, for `gape export --format folder`."""
        raise InputError(f"{self.nouns} are not exported as a folder of files; use csv, jsonl, parquet or hf")

    def wording(self, samples: Samples) -> list[str]:
        """Return the words of each sample, by which near copies are recognised; empty if it has none."""
        return texts_of(samples)

    def choices(self) -> dict[str, tuple[str, ...]]:
        """Return the possible values of each column that has a list of them."""
        return {}

    def possible_labels(self, column: str) -> tuple[str, ...] | None:
        """Return the possible labels in a column; None if there is no schema that says so."""
        return None

    # Measures, which use private records and are therefore not private

    def labels(self, samples: Samples, label: str | None) -> Samples | None:
        """Return the labels of samples, if they have any; `label` names the column."""
        return samples["label"] if samples.dtype.names else None

    def features(self, samples: Samples, points: Points, label: str | None) -> Points:
        """Return the features of samples for a classifier: their points, (m, d), without the label."""
        return points

    def measures(self, real: Samples, synthetic: Samples, scoring: Scoring) -> Groups:
        """Compare the content of samples with that of real records."""
        return {}

    def scores(self, real: Samples, synthetic: Samples, target: str | None) -> dict[str, float]:
        """Score the content of samples by real records, for comparisons of methods.

        `target` is a column that a classifier is trained to predict by the others.
        """
        return {}

    def baseline(self, name: str) -> Baseline:
        """Return one of `baselines`. If its library is missing, say how to install it."""
        raise InputError(f"there is no method {name!r} for {self.nouns}; leave it out")

    def check_target(self, target: str) -> None:
        """Reject a column that a classifier cannot be trained to predict."""
        raise InputError(f"{self.nouns} have no columns to predict, got target {target!r}; leave it out")

    def agreement(
        self, real: tuple[Samples, Points], synthetic: tuple[Samples, Points], scoring: Scoring
    ) -> tuple[Measure, ...]:
        """Measure how well the parts of synthetic records go together, compared with those of real ones."""
        return ()

    def usefulness(
        self, tested: Samples, synthetic: Samples, start: Samples, records: Samples, scoring: Scoring
    ) -> tuple[Measure, ...]:
        """Measure what samples teach about real records, compared with the start and with as many `records`."""
        return ()

    def shared(self, private: Samples, synthetic: Samples) -> tuple[Measure, ...]:
        """Measure what samples share with private records, besides exact copies."""
        return ()

    def shared_by_chance(self, private: Samples, held_out: Samples) -> tuple[Measure, ...]:
        """Measure the same for records that did not vote."""
        others = set(self.keys(held_out))
        equal, total = len(set(self.keys(private)) & others), f"of {len(others):,}, by chance"
        return (Measure(f"held-out {self.nouns} that are records", float(equal), total),)
