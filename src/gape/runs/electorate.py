"""The private side of a run: how its records are opened, identified by the ledger, and vote."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from gape._support.fingerprint import text_digest
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder
from gape.core.types import Points, Samples, as_samples
from gape.distributed.cluster import RayElectorate
from gape.embedders.privacy import require_private_embedding
from gape.modalities import Columns, Records
from gape.runs.generator import generator_kind, public_texts
from gape.runs.labels import embed_private
from gape.runs.settings import Settings
from gape.voting.electorate import LocalElectorate
from gape.voting.store import VectorFolder, dataset_digest, is_vector_folder, record_contents, record_digest, salted
from gape.voting.streamed import StreamedElectorate

Here: TypeAlias = Records | VectorFolder  # opened by this process: records in memory, or vectors on disk
Private: TypeAlias = Here | RayElectorate  # or by workers of a cluster

_INTERVAL = 10.0  # seconds between two reports of how far reading is


class TextElectorate(LocalElectorate):
    """Private texts that vote by their embeddings. The ledger identifies them by their content.

    A dataset therefore has one budget, whatever embedder or labels a run uses.
    """

    def __init__(self, records: Records, points: Points, votes_per_unit: int = 1, votes_per_record: int = 1) -> None:
        """Hold `points`, (n, d), of the records."""
        super().__init__(
            points,
            units=records.users,
            votes_per_unit=votes_per_unit,
            votes_per_record=votes_per_record,
            content=records.content,
        )
        self._of = records

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset: its texts and users, in any order."""
        return text_fingerprint(self._of, salt)


def text_fingerprint(private: Private, salt: bytes) -> str:
    """Identify records by their texts and users, in any order: the same in memory, on disk and on workers."""
    if not isinstance(private, Records):
        return private.fingerprint(salt)
    if private.dataset is not None:
        return salted(private.dataset, salt)
    contents = private.contents or record_contents(private.content, private.users)
    return salted(dataset_digest(map(record_digest, contents)), salt)


def shares_texts(private: Private, public: Sequence[str], embedder: Callable[[], Embedder]) -> bool:
    """Whether a private record is among public texts, by its content without case, or for vectors by the embedding."""
    if isinstance(private, VectorFolder):
        return private.holds_any(embedder().embed(as_samples(list(public))))
    digests = frozenset(map(text_digest, public))
    if isinstance(private, RayElectorate):
        return private.holds_any(digests)
    return any(text_digest(text) in digests for text in private.content)


def unit_of(private: Private) -> str:
    """Return the protected unit: record or user."""
    if not isinstance(private, Records):
        return private.unit
    return "record" if private.users is None else "user"


def units_of(private: Private) -> int:
    """Return the number of protected units, which is treated as public."""
    return private.units


def read_records(settings: Settings, source: object = None) -> Records:
    """Read the private records from `source`, or from the file that the settings name."""
    return settings.records.read(*_data(settings, source))


def open_private(settings: Settings, source: object = None, report: Callable[[str], None] = lambda _: None) -> Here:
    """Read the private records, or open the folder of vectors if the settings name one.

    `report` is told every ten seconds what is being done.
    """
    if source is None and settings.data and is_vector_folder(settings.data) and settings.records.on_disk:
        return VectorFolder(settings.data)
    by_survey = settings.survey and not settings.rounds
    if not by_survey:
        return settings.records.read(*_data(settings, source))
    return settings.records.read_surveyed(*_data(settings, source), _reading(settings, report))


def _reading(settings: Settings, report: Callable[[str], None]) -> Callable[[int], None]:
    """Return a listener that reports how many records are read, if their number is public."""
    doing = f"reading the private {settings.records.nouns}"
    public = settings.neighbours == "replace" and settings.user is None
    last = time.monotonic()

    def listen(count: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _INTERVAL:
            last = time.monotonic()
            report(f"{doing}, {count:,} so far" if public else doing)

    return listen


def _data(settings: Settings, source: object) -> tuple[object, Columns]:
    """Return where the private records are, and the columns to read."""
    if source is None and not settings.data:
        raise InputError("there is no data; name a file of private texts")
    if source is None and is_vector_folder(settings.data):
        raise InputError(
            f"{settings.data} holds vectors, and here the {settings.records.nouns} are needed; name the data they came "
            "from"
        )
    return (
        settings.data if source is None else source,
        Columns(settings.text, settings.label, settings.user),
    )


def require_embedder(settings: Settings, private: Private, embedder: Embedder) -> None:
    """Refuse an embedder that may not see the records, or that did not make the vectors."""
    if not isinstance(private, VectorFolder):
        require_private_embedding(embedder)  # each worker checks its own as well
        return
    origin = private.manifest.origin
    if (identity := settings.records.identity(embedder)) != origin.identity:
        raise InputError(
            f"{private.path} was embedded by {origin.embedder}, {origin.identity}, not by {identity}; run with that "
            f"embedder, or embed the {settings.records.nouns} again"
        )


def refuse_shared_corpus(settings: Settings, private: Private, embedder: Callable[[], Embedder]) -> None:
    """Refuse a corpus that contains a private record, because the record would be published unchanged.

    Removing such texts would make the corpus depend on the private data, which no noise covers. The remedy is another
    corpus.
    """
    if settings.corpus_may_share or generator_kind(settings) != "corpus":
        return
    public, own = public_texts(settings), private
    if not isinstance(private, VectorFolder):  # workers compare the same texts of their records
        public = settings.records.telling(as_samples(list(public)))
    if isinstance(private, Records):
        own = replace(private, content=as_samples(settings.records.telling(private.content)))
    if shares_texts(own, public, embedder):
        raise PrivacyError(
            f"the corpus {settings.generator.partition(':')[2]} contains at least one private record, and its texts "
            "are published unchanged; name a corpus made without the private data, or give corpus_may_share if the "
            "owner of the data agrees, for example because records are so short that others have written the same"
        )


def make_electorate(
    settings: Settings, private: Private, embedder: Embedder
) -> TextElectorate | StreamedElectorate | RayElectorate:
    """Embed the private records once, in memory, if the embedder may see them, or let them vote where they are."""
    require_embedder(settings, private, embedder)
    per_record = settings.votes_per_record or 1
    votes = settings.votes_per_unit or per_record, per_record
    if isinstance(private, RayElectorate):
        private.cast(*votes)
        return private
    if isinstance(private, VectorFolder):
        return StreamedElectorate(
            private, votes_per_unit=votes[0], votes_per_record=per_record, marks=_marks(settings, private)
        )
    if not settings.rounds:  # rows answer a survey by their cells and never vote
        points = np.zeros((len(private), 1), dtype=np.float32)
    else:
        points = embed_private(settings, embedder, private.content, private.labels)
    return TextElectorate(private, points, *votes)


def _marks(settings: Settings, folder: VectorFolder) -> Points | None:
    """Return the columns that `LabelledEmbedder` appends to texts, (labels of the folder, k)."""
    occurring = folder.manifest.labels
    if settings.labels is None or occurring is None:
        return None
    largest = _ConstantNorm(folder.manifest.largest_norm)
    return embed_private(settings, largest, as_samples(occurring), occurring)[:, 1:]


class _ConstantNorm:
    """Stands for vectors on disk: one column with the largest of their norms."""

    def __init__(self, norm: float) -> None:
        self._norm = norm

    def embed(self, samples: Samples) -> Points:
        return np.full((len(samples), 1), self._norm, dtype=np.float32)
