"""Digests that recognise a dataset, or a set of candidates, without storing it."""

import hashlib
from collections.abc import Iterable

import numpy as np

from gape.core.types import Points, Samples


def dataset_fingerprint(records: Iterable[bytes], salt: bytes) -> str:
    """Identify a multiset of records. Fingerprints are equal if and only if the records are, in any order.

    Each record is hashed with the salt, so two ledgers of one dataset cannot be linked by their fingerprints.
    """
    digests = sorted(hashlib.blake2b(record, key=salt, digest_size=32).digest() for record in records)
    return hashlib.blake2b(b"".join(digests), key=salt, digest_size=32).hexdigest()


def text_digest(text: str) -> bytes:
    """Identify a text, ignoring case and whitespace."""
    return hashlib.blake2b(" ".join(text.casefold().split()).encode(errors="surrogatepass"), digest_size=16).digest()


def points_digest(points: Points) -> str:
    """Identify candidates by their embeddings, in this order."""
    shape = np.array(points.shape, dtype="<i8").tobytes()
    return hashlib.blake2b(shape + np.ascontiguousarray(points).tobytes(), digest_size=32).hexdigest()


def samples_digest(samples: Samples) -> str:
    """Identify candidates by their content, in this order: vectors, texts, or texts with labels.

    Embeddings would not do, because they may differ in the last bits when computed again in other batches.
    """
    digest = hashlib.blake2b(digest_size=32)
    for column in [samples[name] for name in samples.dtype.names] if samples.dtype.names else [samples]:
        if column.dtype == object:
            contents = [str(text).encode(errors="surrogatepass") for text in column]
            digest.update(np.array([len(contents), *map(len, contents)], dtype="<i8").tobytes() + b"".join(contents))
        else:
            digest.update(points_digest(np.asarray(column, dtype=np.float32)).encode())  # as they are stored on disk
    return digest.hexdigest()
