"""Recognising a dataset, or a set of candidates, without keeping it."""

import hashlib
from collections.abc import Iterable

import numpy as np

from gape.types import Points


def dataset_fingerprint(records: Iterable[bytes], salt: bytes) -> str:
    """Identify a multiset of records: equal for any order of the same records, and only for those.

    Every record is hashed under the salt, so two ledgers of one dataset cannot be linked by their fingerprints.
    """
    digests = sorted(hashlib.blake2b(record, key=salt, digest_size=32).digest() for record in records)
    return hashlib.blake2b(b"".join(digests), key=salt, digest_size=32).hexdigest()


def points_digest(points: Points) -> str:
    """Identify candidates by their embeddings, order included."""
    shape = np.array(points.shape, dtype="<i8").tobytes()
    return hashlib.blake2b(shape + np.ascontiguousarray(points).tobytes(), digest_size=32).hexdigest()
