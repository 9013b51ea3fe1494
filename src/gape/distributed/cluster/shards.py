"""Where private records lie, and what is made of them by the worker that reads them there."""

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
from gape.generators.labels import LabelledEmbedder, labelled
from gape.modalities import Records, load_texts
from gape.voting.store import record_contents, record_digest

_Divisible = TypeVar("_Divisible", "TextShard", "PointShard")


@dataclass(frozen=True, eq=False)
class Block:
    """The private records of one worker, in its memory; it cannot be pickled, so it goes nowhere else."""

    points: Points = field(repr=False)  # (n, d)
    units: Sequence[str] | None = field(repr=False)  # (n,): whose each is
    contents: Callable[[], Iterator[bytes]] = field(repr=False)  # n: what the ledger knows each by
    files: tuple[bytes, ...] = field(repr=False)  # digests of the files, with the records that other workers take
    salted: bool  # whether the ledger's salt goes into the digest of each record, or into that of all of them
    texts: Sequence[str] = field(default=(), repr=False)  # (n,): none of vectors

    def __reduce__(self) -> Any:
        raise PrivacyError("private records stay with the worker that read them; send what was counted instead")


class Shard(Protocol):
    """The private records of one worker, as a public description that can be sent to it."""

    @property
    def node(self) -> str | None:
        """IP address of the machine that sees the records; None where every machine does."""
        ...

    @property
    def part(self) -> tuple[int, int]:
        """Which part of its files it takes, of how many: (0, 1) for all of them."""
        ...

    def read(self) -> Block:
        """Read and embed the records; called on the worker."""
        ...


@dataclass(frozen=True)
class TextShard:
    """Private texts in files, embedded by the worker that reads them.

    With `part` (k, w) it takes every w-th record of each file from the k-th on; where there are users, all records of
    every w-th user or so, chosen by a digest, so that nobody is divided. `in_parts` makes all w of them.
    """

    files: str | tuple[str, ...]  # paths and globs, as the worker sees them
    embedder: Callable[[], Embedder] = field(repr=False)  # makes the embedder, on the worker
    text: str | None = None  # columns, as in `load_texts`
    label: str | None = None
    user: str | None = None
    labels: tuple[str, ...] | None = None  # all that can occur; for records with a label
    node: str | None = None
    part: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        _check_part(self.part)
        if (self.label is None) != (self.labels is None):
            raise InputError("a label column and the labels that can occur belong together; give both or neither")

    def read(self) -> Block:
        """Read the texts, embed them if the embedder may see them, and keep both in memory."""
        embedder = self.embedder()
        require_private_embedding(embedder)
        files = [load_texts(path, self.text, self.label, self.user) for path in _paths(self.files)]
        kept = [_mine(len(each), each.users, self.part) for each in files]
        texts, labels, users = (_joined(files, kept, column) for column in ("texts", "labels", "users"))
        if texts is None or not len(texts):
            raise InputError(f"part {self.part[0]} of {self.part[1]} has no records; use fewer workers")
        if labels is not None and self.labels is not None:
            points = LabelledEmbedder(embedder, self.labels).embed(labelled(labels, texts))
        else:
            points = embedder.embed(texts)
        units = None if users is None else users.tolist()
        digests = tuple(map(_file_digest, files))
        return Block(points, units, lambda: record_contents(texts, users), digests, salted=False, texts=texts)


@dataclass(frozen=True)
class PointShard:
    """Private vectors in a .npy file, (n, d), with their users in another, (n,), where there are any.

    `part` is that of `TextShard`.
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
            raise InputError(f"{self.file} must hold vectors (n, d), and its users (n,), got shape {points.shape}")
        digest = hashlib.blake2b(np.ascontiguousarray(points).data, digest_size=32)
        digest.update(b"" if names is None else "\0".join(names.tolist()).encode())
        mine = _mine(len(points), names, self.part)
        if not mine.size:
            raise InputError(f"part {self.part[0]} of {self.part[1]} has no records; use fewer workers")
        own = np.ascontiguousarray(points[mine], dtype=np.float32)
        units = None if names is None else names[mine].tolist()

        def contents() -> Iterator[bytes]:
            return (row.tobytes() + name.encode() for row, name in zip(own, units or [""] * len(own), strict=True))

        return Block(own, units, contents, (digest.digest(),), salted=True)


def in_parts(shard: _Divisible, workers: int) -> list[_Divisible]:
    """Divide files that all workers see: each takes a part of the records, and all of a user's or none."""
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    return [replace(shard, part=(place, workers)) for place in range(workers)]


def _check_part(part: tuple[int, int]) -> None:
    if not 0 <= part[0] < part[1]:
        raise InputError(f"a part is a place below a number of parts, got {part}; make parts by in_parts")


def _paths(files: str | tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for name in (files,) if isinstance(files, str) else files:
        paths = sorted(glob.glob(name)) if glob.has_magic(name) else [name]  # noqa: PTH207  (whole paths, any root)
        if not paths:
            raise InputError(f"no file matches {name!r} on the worker; check the path there")
        found += paths
    return found


def _mine(count: int, users: Any, part: tuple[int, int]) -> Indices:
    """The rows of a file that belong to a part; each belongs to one, whatever other files there are."""
    place, parts = part
    if users is None:
        return np.arange(place, count, parts)
    chosen = {name: _number(name) % parts == place for name in set(users.tolist())}
    return np.array([row for row, name in enumerate(users.tolist()) if chosen[name]], dtype=np.int64)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(errors="replace"), digest_size=8).digest())


def _joined(files: Sequence[Records], kept: Sequence[Indices], column: str) -> Any:
    columns = [getattr(records, column) for records in files]
    if any(each is None for each in columns):
        return None
    return np.concatenate([each[rows] for each, rows in zip(columns, kept, strict=True)])


def _file_digest(records: Records) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for content in record_contents(records.content, records.users):
        digest.update(record_digest(content))
    return digest.digest()


def _array(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as a .npy file ({type(error).__name__}); check it there") from None
