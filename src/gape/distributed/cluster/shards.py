"""Shards: public descriptions of where private records are stored, which a worker uses to read and embed them."""

import glob
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder
from gape.core.types import Indices, Points
from gape.embedders.privacy import require_private_embedding
from gape.generators.labels import embed_with_labels
from gape.modalities import Columns, Modality, Records, modality, usual_modality
from gape.voting.store import record_contents, record_digest

_Divisible = TypeVar("_Divisible", "TextShard", "PointShard")


@dataclass(frozen=True, eq=False)
class Block:
    """The private records of one worker, in its memory. A block cannot be pickled, so it cannot leave the worker."""

    points: Points = field(repr=False)  # (n, d)
    units: Sequence[str] | None = field(repr=False)  # (n,): the owner of each record
    contents: Callable[[], Iterator[bytes]] = field(repr=False)  # n items: what identifies each record in the ledger
    files: tuple[bytes, ...] = field(repr=False)  # digests of the whole files, including records of other workers
    salted: bool  # whether the ledger's salt goes into the digest of each record, or only into that of all records
    texts: Sequence[str] = field(default=(), repr=False)  # all that tell who a record is about; empty for vectors

    def __reduce__(self) -> Any:
        raise PrivacyError("private records stay with the worker that read them; send counts instead")


class Shard(Protocol):
    """A public description of the private records of one worker, which can be sent to it."""

    @property
    def node(self) -> str | None:
        """IP address of the machine with access to the records; None if every machine has access."""
        ...

    @property
    def part(self) -> tuple[int, int]:
        """The part of its files that it takes, and the number of parts: (0, 1) for all records."""
        ...

    def read(self) -> Block:
        """Read and embed the records. Called on the worker."""
        ...


@dataclass(frozen=True)
class TextShard:
    """Private texts in files, or records of another modality, embedded by the worker that reads them.

    With `part` (k, w) it takes every w-th record of each file from the k-th on. With users, it takes all records of
    about every w-th user, chosen by a digest, so that no user is divided. `in_parts` makes all w parts.
    """

    files: str | tuple[str, ...]  # paths and globs on the worker
    embedder: Callable[[], Embedder] = field(repr=False)  # makes the embedder, on the worker
    text: str | None = None  # columns, as in `Columns`
    label: str | None = None
    user: str | None = None
    labels: tuple[str, ...] | None = None  # all possible labels; for records with a label
    node: str | None = None
    part: tuple[int, int] = (0, 1)
    modality: Modality = field(default_factory=lambda: modality(usual_modality(None)))  # reads the files

    def __post_init__(self) -> None:
        _check_part(self.part)
        if (self.label is None) != (self.labels is None):
            raise InputError("a label column and the list of possible labels belong together; give both or neither")

    def read(self) -> Block:
        """Read the texts and embed them, if the embedder may see them."""
        embedder = self.embedder()
        require_private_embedding(embedder)
        columns = Columns(self.text, self.label, self.user)
        files = [self.modality.read(path, columns) for path in _paths(self.files)]
        kept = [_rows_of_part(len(records), records.users, self.part) for records in files]
        content, labels, users = (_concatenated(files, kept, column) for column in ("content", "labels", "users"))
        if content is None or not len(content):
            raise InputError(f"part {self.part[0]} of {self.part[1]} has no records; use fewer workers")
        points = embed_with_labels(embedder, content, labels, self.labels, self.modality.longest)
        units = None if users is None else users.tolist()
        owned = [_contents(records) for records in files]

        def contents() -> Iterator[bytes]:
            return (of[row] for of, rows in zip(owned, kept, strict=True) for row in rows)

        digests = tuple(map(_file_digest, owned))
        return Block(points, units, contents, digests, salted=False, texts=self.modality.telling(content))


@dataclass(frozen=True)
class PointShard:
    """Private vectors in a .npy file, (n, d), and their users, if any, in another, (n,).

    `part` is as in `TextShard`.
    """

    file: str
    users: str | None = None
    node: str | None = None
    part: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        _check_part(self.part)

    def read(self) -> Block:
        """Read the vectors."""
        points = _array(self.file)
        names = None if self.users is None else _array(self.users).astype(str)
        if points.ndim != 2 or (names is not None and names.shape != points.shape[:1]):
            raise InputError(f"{self.file} must hold vectors (n, d) and its users (n,), got shape {points.shape}")
        digest = hashlib.blake2b(np.ascontiguousarray(points).data, digest_size=32)
        digest.update(b"" if names is None else "\0".join(names.tolist()).encode())
        rows = _rows_of_part(len(points), names, self.part)
        if not rows.size:
            raise InputError(f"part {self.part[0]} of {self.part[1]} has no records; use fewer workers")
        kept = np.ascontiguousarray(points[rows], dtype=np.float32)
        units = None if names is None else names[rows].tolist()

        def contents() -> Iterator[bytes]:
            return (row.tobytes() + name.encode() for row, name in zip(kept, units or [""] * len(kept), strict=True))

        return Block(kept, units, contents, (digest.digest(),), salted=True)


def in_parts(shard: _Divisible, workers: int) -> list[_Divisible]:
    """Divide files that all workers can read: each takes a part of the records, and all or none of a user's."""
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    return [replace(shard, part=(index, workers)) for index in range(workers)]


def _check_part(part: tuple[int, int]) -> None:
    if not 0 <= part[0] < part[1]:
        raise InputError(f"a part must be an index below the number of parts, got {part}; use in_parts to make parts")


def _paths(files: str | tuple[str, ...]) -> list[str]:
    matches: list[str] = []
    for name in (files,) if isinstance(files, str) else files:
        paths = sorted(glob.glob(name)) if glob.has_magic(name) else [name]  # noqa: PTH207  (whole paths, any root)
        if not paths:
            raise InputError(f"no file matches {name!r} on the worker; check the path there")
        matches += paths
    return matches


def _rows_of_part(count: int, users: Any, part: tuple[int, int]) -> Indices:
    """Return the rows of a file that belong to a part; each row belongs to one part, whatever other files there are."""
    index, parts = part
    if users is None:
        return np.arange(index, count, parts)
    chosen = {name: _user_hash(name) % parts == index for name in set(users.tolist())}
    return np.array([row for row, name in enumerate(users.tolist()) if chosen[name]], dtype=np.int64)


def _user_hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(errors="replace"), digest_size=8).digest())


def _concatenated(files: Sequence[Records], kept: Sequence[Indices], column: str) -> Any:
    columns = [getattr(records, column) for records in files]
    if any(values is None for values in columns):
        return None
    return np.concatenate([values[rows] for values, rows in zip(columns, kept, strict=True)])


def _contents(records: Records) -> Sequence[bytes]:
    """Return what identifies each record in the ledger."""
    return records.contents or tuple(record_contents(records.content, records.users))


def _file_digest(contents: Sequence[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for content in contents:
        digest.update(record_digest(content))
    return digest.digest()


def _array(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} cannot be read as a .npy file ({type(error).__name__}); check it on the worker"
        ) from None
