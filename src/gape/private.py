"""The private side of a run: what its records are, how they are opened, known to the ledger, and vote."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gape.cluster import RayElectorate
from gape.clustering import assign, k_means
from gape.data import Records, Schema, load_rows, load_texts
from gape.errors import InputError
from gape.fingerprint import text_digest
from gape.protocols import Embedder
from gape.settings import Settings
from gape.types import Points, as_samples
from gape.voting.electorate import LocalElectorate
from gape.voting.store import VectorFolder, dataset_digest, is_vector_folder, record_contents, record_digest, salted

Here: TypeAlias = Records | VectorFolder  # read by this process: texts in memory, or their vectors on disk
Private: TypeAlias = Here | RayElectorate  # or read by workers, where it votes


class TextElectorate(LocalElectorate):
    """Private texts that vote by their embeddings, known to the ledger by what they say.

    So the budget of a dataset is one, whichever embedder or labels a run uses.
    """

    def __init__(self, records: Records, points: Points, votes_per_unit: int = 1, votes_per_record: int = 1) -> None:
        """Hold `points`, (n, d), of the records."""
        units = None if records.users is None else records.users.tolist()
        super().__init__(points, units=units, votes_per_unit=votes_per_unit, votes_per_record=votes_per_record)
        self._of = records

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset: its texts and users, in any order."""
        return text_fingerprint(self._of, salt)

    def unpaid_separation(self, samples: int, seed: int) -> float:
        """Return the paper's R: 10 times the largest distance of a record to the nearest of m k-means centres.

        NOT PRIVATE: that distance belongs to one record. Whoever uses it marks the run as such (`unpaid` of `run`).
        """
        _, gaps = assign(self._private, k_means(self._private, samples, np.random.default_rng(seed)))
        return 10 * float(gaps.max())


def text_fingerprint(private: Private, salt: bytes) -> str:
    """Identify records by their texts and users, in any order; the same in memory, on disk and with workers."""
    if not isinstance(private, Records):
        return private.fingerprint(salt)
    contents = private.contents or record_contents(private.texts, private.users)
    return salted(dataset_digest(map(record_digest, contents)), salt)


def shares_texts(private: Private, public: Sequence[str], embedder: Callable[[], Embedder]) -> bool:
    """Whether a private record is among public texts: by case-blind content, or of vectors on disk by the embedding."""
    if isinstance(private, VectorFolder):
        return private.holds_any(embedder().embed(as_samples(list(public))))
    digests = frozenset(map(text_digest, public))
    if isinstance(private, RayElectorate):
        return private.holds_any(digests)
    return any(text_digest(text) in digests for text in private.texts)


def unit_of(private: Private) -> str:
    """What is protected: a record, or a user."""
    if not isinstance(private, Records):
        return private.unit
    return "record" if private.users is None else "user"


def units_of(private: Private) -> int:
    """Count what is protected; the number is taken as public."""
    if not isinstance(private, Records):
        return private.units
    return len(private) if private.users is None else len(set(private.users.tolist()))


def read_records(settings: Settings, source: object = None) -> Records:
    """Read the private texts, from `source` or from the file that the settings name."""
    if source is None and not settings.data:
        raise InputError("there is no data; name a file of private texts")
    if source is None and is_vector_folder(settings.data):
        raise InputError(f"{settings.data} holds vectors, and here the texts are needed; name the file they came from")
    found = settings.data if source is None else source
    if settings.schema is not None:
        return load_rows(found, Schema.read(settings.schema), settings.user)
    return load_texts(found, settings.text, settings.label, settings.user)


def open_private(settings: Settings, source: object = None) -> Here:
    """Read the private texts, or open the folder of their vectors if that is what the settings name."""
    if source is None and settings.data and is_vector_folder(settings.data) and settings.schema is None:
        return VectorFolder(settings.data)
    return read_records(settings, source)
