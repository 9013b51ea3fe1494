"""Filling a folder of private vectors: batch by batch, resumable, in memory that does not grow.

A batch counts once `progress.json` records it, which is written after all other data of the batch is on disk. Data
beyond that is overwritten. So a folder whose filling was killed at any point and resumed is byte for byte the same as
one filled without interruption.
"""

import itertools
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape.core.errors import InputError, RunError
from gape.core.types import Counts, Indices, Points
from gape.voting.nearest import check_points
from gape.voting.store import (
    DIGEST,
    HEADER,
    LABELS,
    MANIFEST,
    PARTIAL,
    UNITS,
    Manifest,
    Origin,
    Part,
    npy_header,
    shard_name,
)

SHARD = 2**30  # bytes of vectors in one file
MOST_OWNED = 2**32 - 1  # records that the index of users can number

_STEP = 2**20  # rows of digests or of the index read together
_SPAN = 2**20  # about how many of those are sorted at once
_BLOCK = 2**24  # bytes of vectors read together
_USER = 16  # bytes of the digest of a user's name
_INDEX = np.dtype("<u4")

Save = Callable[[Path, Any], None]  # writes JSON atomically
Keys = NDArray[np.bytes_]


class Filling:
    """A folder that is being filled. The caller must ensure that only one process does so at a time."""

    def __init__(self, path: Path, save: Save, *, users: bool, labels: bool, shard: int = SHARD) -> None:
        """Resume the folder `path`, which must exist with its subfolder `partial`, from its recorded progress."""
        self.path, self._save, self._shard = path, save, shard
        self._partial = path / PARTIAL
        self._progress, self._digests, self._names = (
            self._partial / name for name in ("progress.json", "digests", "users")
        )
        self._users, self._codes = users, dict[str, int]() if labels else None
        before = json.loads(self._progress.read_text()) if self._progress.exists() else {"rows": 0, "width": 0}
        self.rows, self._width = int(before["rows"]), int(before["width"])

    def recognise(self, start: int, digests: bytes, labels: Sequence[str] | None) -> None:
        """Refuse records, from number `start` on, that differ from those already in the folder."""
        rows = len(digests) // DIGEST
        same = _read_bytes(self._digests, DIGEST * start, len(digests)) == digests
        if labels is not None:
            same &= _read_bytes(self.path / LABELS, HEADER + _INDEX.itemsize * start, 4 * rows) == self._coded(labels)
        if not same:
            self._refuse()

    def recognise_end(self, rows: int) -> None:
        """Refuse data that ends after `rows` records if the folder already contains more."""
        if rows < self.rows:
            self._refuse()

    def append(
        self, points: Points, digests: bytes, users: Sequence[str] | None = None, labels: Sequence[str] | None = None
    ) -> None:
        """Add records: their vectors, (b, d), their concatenated digests, and their users and labels, if any."""
        points = check_points(points, "private embeddings").astype("<f4", copy=False)
        self._width = self._width or points.shape[1]
        if points.shape[1] != self._width:
            raise InputError(
                f"private embeddings must all have {self._width} columns, got {points.shape[1]}; use one embedder"
            )
        if self._users and self.rows + len(points) > MOST_OWNED:
            raise InputError(f"data with users may have at most {MOST_OWNED} records and has more; split the data")
        done = 0
        while done < len(points):
            number, inside = divmod(self.rows + done, self._per_shard)
            piece = points[done : done + self._per_shard - inside]
            _write(self.path / shard_name(number), HEADER + piece.itemsize * self._width * inside, piece.tobytes())
            done += len(piece)
        if labels is not None:
            _write(self.path / LABELS, HEADER + _INDEX.itemsize * self.rows, self._coded(labels))
        if users is not None:
            _write(self._names, _USER * self.rows, b"".join(map(_user_digest, users)))
        _write(self._digests, DIGEST * self.rows, digests)
        _sync(self.path)  # the names of new shards
        self.rows += len(points)
        self._save(self._progress, {"rows": self.rows, "width": self._width})

    def finish(self, origin: Origin, dropped: int) -> Manifest:
        """Complete the folder with the index of users, headers, checksums and manifest, then remove `partial`."""
        if not self.rows:
            raise InputError(f"{origin.source} has no records, only {dropped} blank rows; give at least one record")
        shards = math.ceil(self.rows / self._per_shard)
        for stray in sorted(self.path.glob("vectors-*.npy"))[shards:]:  # of a batch that was never completed
            stray.unlink()
        parts, largest = [], 0.0
        for number in range(shards):
            rows = min(self._per_shard, self.rows - number * self._per_shard)
            part, norm = self._seal(shard_name(number), "<f4", (rows, self._width))
            parts.append(part)
            largest = max(largest, norm)
        if self._codes is not None:
            parts.append(self._seal(LABELS, "<u4", (self.rows,))[0])
        units = None
        if self._users:
            units = _index_users(self._names, self.rows, self.path / UNITS)
            parts.append(self._seal(UNITS, "<u4", (self.rows, 3))[0])
        manifest = Manifest(
            origin=origin,
            records=self.rows,
            dropped=dropped,
            width=self._width,
            units=units,
            labels=None if self._codes is None else tuple(self._codes),
            dataset=_joined_digest(self._digests, self.rows).hex(),
            largest_norm=largest,
            parts=tuple(parts),
        )
        self._save(self.path / MANIFEST, manifest.as_json())
        shutil.rmtree(self._partial)
        return manifest

    def _refuse(self) -> None:
        raise RunError(
            f"the data differs from the records already in {self.path}; restore the data, or remove the folder and "
            "embed again"
        )

    @property
    def _per_shard(self) -> int:
        return max(1, self._shard // (4 * self._width))

    def _coded(self, labels: Sequence[str]) -> bytes:
        """Return label numbers as bytes, numbered in the order of their first record."""
        codes = {} if self._codes is None else self._codes
        return np.array([codes.setdefault(label, len(codes)) for label in labels], dtype=_INDEX).tobytes()

    def _seal(self, name: str, dtype: str, shape: tuple[int, ...]) -> tuple[Part, float]:
        """Write the header of a file, and return the file with its checksum, and the largest norm of its rows."""
        file = self.path / name
        width = math.prod(shape[1:])
        kind = np.dtype(dtype)
        _write(file, HEADER + kind.itemsize * shape[0] * width, b"")  # cuts off a batch that was never completed
        _overwrite(file, 0, npy_header(dtype, shape))
        content, largest = blake2b(digest_size=DIGEST), 0.0
        step = max(1, _BLOCK // (kind.itemsize * width))
        for start in range(0, shape[0], step):
            rows = min(step, shape[0] - start)
            block = np.fromfile(file, kind, rows * width, offset=HEADER + kind.itemsize * start * width)
            content.update(block.tobytes())
            if kind == np.float32:
                norms = np.linalg.norm(block.reshape(rows, width), axis=1)
                largest = max(largest, float(norms.max()))
        return Part(name, dtype, shape, content.hexdigest()), largest


def _joined_digest(file: Path, rows: int) -> bytes:
    """Return `dataset_digest` of the digests in a file, sorted one range of values at a time.

    Equal digests are merged as they are read, so a text that many records share takes the memory of one.
    """
    whole = blake2b(digest_size=DIGEST)
    for low, high in _ranges(rows):
        digests: list[Keys] = []
        times: list[Counts] = []
        for keys, _ in _in_range(file, rows, DIGEST, low, high):
            digests.append(keys)
            times.append(np.ones(len(keys), dtype=np.int64))
            if sum(map(len, digests)) > 2 * _SPAN:
                digests, times = _merged_counts(digests, times)
        digests, times = _merged_counts(digests, times)
        table = np.empty(len(digests[0]), dtype=[("digest", f"S{DIGEST}"), ("times", "<u8")])
        table["digest"], table["times"] = digests[0], times[0]
        whole.update(table.tobytes())
    return whole.digest()


def _merged_counts(digests: list[Keys], times: list[Counts]) -> tuple[list[Keys], list[Counts]]:
    """Sort digests and add up how often each occurs."""
    keys, positions = np.unique(np.concatenate(digests), return_inverse=True)
    totals = np.zeros(len(keys), dtype=np.int64)
    np.add.at(totals, positions, np.concatenate(times))
    return [keys], [totals]


def _index_users(names: Path, rows: int, index: Path) -> int:
    """Write the index, (rows, 3): each record's user, its number among theirs, and their count. Return the user count.

    Users are numbered by their digests. Memory is fixed, plus 80 bytes for each record of the largest user.
    """
    _write(index, HEADER + 3 * _INDEX.itemsize * rows, b"")
    users = 0
    for low, high in _ranges(rows):
        parts = list(_in_range(names, rows, _USER, low, high))
        keys, records = (np.concatenate(column) for column in zip(*parts, strict=True))
        if not len(keys):
            continue
        order = np.argsort(keys, kind="stable")  # keeps the order of each user's records
        keys, records = keys[order], records[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        sizes = np.diff(starts, append=len(keys))
        owner = np.repeat(np.arange(len(starts)), sizes)
        entries = np.stack([users + owner, np.arange(len(keys)) - starts[owner], sizes[owner]], axis=1)
        back = np.argsort(records)
        _scatter(index, rows, records[back], entries[back].astype(_INDEX))
        users += len(starts)
    return users


def _scatter(index: Path, rows: int, records: Indices, entries: NDArray[np.uint32]) -> None:
    """Write the entries, (k, 3), of ascending records block by block, because a mapped file would count as memory."""
    for start in range(0, rows, _STEP):
        low, high = np.searchsorted(records, [start, start + _STEP])
        if low == high:
            continue
        offset = HEADER + 3 * _INDEX.itemsize * start
        block = np.fromfile(index, _INDEX, 3 * min(_STEP, rows - start), offset=offset).reshape(-1, 3)
        block[records[low:high] - start] = entries[low:high]
        _overwrite(index, offset, block.tobytes())


def _ranges(rows: int) -> Iterator[tuple[int, int]]:
    """Cut the values that digests can begin with into equal ranges, of about `_SPAN` digests each."""
    count = max(1, math.ceil(rows / _SPAN))
    return itertools.pairwise(2**64 * i // count for i in range(count + 1))


def _in_range(file: Path, rows: int, width: int, low: int, high: int) -> Iterator[tuple[Keys, Indices]]:
    """Yield the digests, `width` bytes each, that begin with a number from `low` to `high` - 1, and their records."""
    for start in range(0, rows, _STEP):
        block = np.fromfile(file, f"S{width}", min(_STEP, rows - start), offset=width * start)
        begins = block.view(">u8").reshape(len(block), -1)[:, 0].astype(np.uint64)
        chosen = np.flatnonzero((begins >= np.uint64(low)) & (begins <= np.uint64(high - 1)))
        yield block[chosen], start + chosen


def _user_digest(user: str) -> bytes:
    return blake2b(user.encode(), digest_size=_USER).digest()


def _read_bytes(file: Path, offset: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(size)


def _write(file: Path, offset: int, content: bytes) -> None:
    """Write the content at the offset, cut the file after it, and sync it to disk. Creates the file if necessary."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.truncate(offset)
        opened.seek(offset)
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _overwrite(file: Path, offset: int, content: bytes) -> None:
    """Write content at an offset of an existing file, and sync it to disk."""
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
