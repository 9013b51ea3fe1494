"""Private vectors in a folder, for datasets larger than memory.

    vectors/                    mode 0700, every file 0600
    ├── vectors-00000.npy       float32, (rows, d), in the order of the data; further shards follow
    ├── labels.npy              uint32, (n,): index of each record's label in the manifest's list, if there are labels
    ├── units.npy               uint32, (n, 3): each record's user, its number among theirs, and their count
    ├── gape-vectors.json       counts, embedder, digest of the dataset, checksums; written last
    └── partial/                exists while the folder is being filled

The folder is as private as the data, because most of a text can be guessed from its embedding. It contains no texts and
no names of users. It keeps one digest of all texts together, by which the ledger recognises the data. To confirm a
guess with this digest, one must guess every record, whereas digests of single records would let single texts be looked
up. The digest is not salted, because each ledger has its own salt and one folder must work with any of them. A ledger
receives it salted.
"""

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gape._support.files import read_bounded
from gape._support.ownership import is_sealed, seal
from gape._support.values import brief
from gape.core.errors import InputError, PrivacyError, RunError
from gape.core.types import Points

_PAIRS = 2**23  # pairs of a vector on disk and a given one that are compared at once
_ROUGHLY, _ROUNDING = 1e-4, 1e-4  # relative tolerance of squared lengths and of lengths, for rounding and batches
FORMAT = 1
MANIFEST, PARTIAL = "gape-vectors.json", "partial"
LABELS, UNITS = "labels.npy", "units.npy"
HEADER = 128  # bytes before the numbers of each of our .npy files
DIGEST = 32

_SHARD = "vectors-{:05d}.npy"


@dataclass(frozen=True)
class Part:
    """A file of the folder: the type and shape of its numbers, and their checksum."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: str

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return HEADER + int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Origin:
    """The origin of the vectors. It is fixed before the first is embedded, and does not change on resuming."""

    source: str  # description of the data
    columns: dict[str, str | None]  # names of the columns of text, label and user
    embedder: str  # its name in the settings
    identity: str  # the embedder's own description
    ledger: str | None  # ledger of the data, which also covers the folder


@dataclass(frozen=True)
class Manifest:
    """The manifest of a complete folder."""

    origin: Origin
    records: int
    dropped: int  # blank rows of the data
    width: int
    units: int | None  # number of users; None if the privacy unit is a record
    labels: tuple[str, ...] | None  # in the order of their first record
    dataset: str  # the digest of all records together
    largest_norm: float
    parts: tuple[Part, ...]  # shards first, in order

    def as_json(self) -> dict[str, Any]:
        """Return the content of the file, with its own checksum and the seal of the user who wrote it."""
        values = {"format": FORMAT, **asdict(self)}
        checksum = _checksum(values)
        return {**values, "checksum": checksum, "seal": seal(checksum.encode())}

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read a manifest, and refuse one that is damaged or was changed."""
        try:
            values = json.loads(read_bounded(path))
            values.pop("seal", "")
            intact = values.pop("checksum") == _checksum(values)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            intact = False
        if not intact:
            raise RunError(f"{path} is damaged or was changed; restore it from a backup, or embed the texts again")
        if values["format"] != FORMAT:
            raise RunError(f"{path} must have format {FORMAT}, got {values['format']}; embed the texts again")
        parts = [Part(**{**part, "shape": tuple(part["shape"])}) for part in values["parts"]]
        labels = None if values["labels"] is None else tuple(values["labels"])
        plain = {field.name: values[field.name] for field in fields(cls)}
        return cls(**{**plain, "origin": Origin(**values["origin"]), "labels": labels, "parts": tuple(parts)})


class VectorFolder:
    """A folder of private vectors, checked by its manifest, file sizes and modes. Its repr shows no content."""

    def __init__(self, path: str | Path) -> None:
        """Open the folder `path`. This is fast for any size: checksums are compared when contents are read."""
        self.path = Path(path)
        if not (self.path / MANIFEST).exists():
            unfinished = (self.path / PARTIAL).exists()
            remedy = (
                "is not complete yet; repeat `gape embed` to resume"
                if unfinished
                else "contains no vectors; create them with `gape embed`"
            )
            raise RunError(f"{self.path} {remedy}")
        _refuse_open(self.path, stat.S_ISDIR)
        _refuse_open(self.path / MANIFEST, stat.S_ISREG)
        self.manifest = Manifest.read(self.path / MANIFEST)
        for part in self.manifest.parts:
            self._check(part)

    def __repr__(self) -> str:
        return f"VectorFolder({str(self.path)!r})"

    def __len__(self) -> int:
        return self.manifest.records

    @property
    def ledger(self) -> str | None:
        """Path of the data's ledger. Refused unless this user wrote it on this machine."""
        manifest = json.loads(read_bounded(self.path / MANIFEST))
        named = self.manifest.origin.ledger
        if named is None or is_sealed(str(manifest["checksum"]).encode(), str(manifest.get("seal", ""))):
            return named
        raise PrivacyError(
            f"{self.path} was not written by you on this machine, so its ledger {brief(named)} is not trusted; give "
            "the ledger of the data with --ledger"
        )

    @property
    def source(self) -> str:
        """Description of where the records come from."""
        return f"{self.path.name}, embedded from {self.manifest.origin.source}"

    @property
    def dropped(self) -> int:
        """Number of blank rows that were left out."""
        return self.manifest.dropped

    @property
    def unit(self) -> str:
        """Name of the privacy unit: "record" or "user"."""
        return "record" if self.manifest.units is None else "user"

    @property
    def units(self) -> int:
        """Number of privacy units."""
        return self.manifest.records if self.manifest.units is None else self.manifest.units

    @property
    def shards(self) -> list[Part]:
        """The vector files, in order."""
        return [part for part in self.manifest.parts if part.name not in {LABELS, UNITS}]

    def part(self, name: str) -> Part:
        """Return the file of this name."""
        return next(part for part in self.manifest.parts if part.name == name)

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset under a salt: its records, with their users, in any order."""
        return salted(bytes.fromhex(self.manifest.dataset), salt)

    def holds_any(self, points: Points) -> bool:
        """Whether the folder contains any of these vectors, (m, d), up to rounding."""
        rows = max(1, _PAIRS // max(1, len(points)))
        sizes = np.square(points).sum(axis=1)
        for shard in self.shards:
            vectors = np.memmap(self.path / shard.name, "<f4", "r", offset=HEADER, shape=shard.shape)
            for first in range(0, len(vectors), rows):
                block = np.asarray(vectors[first : first + rows])
                scale = np.square(block).sum(axis=1)[:, None] + sizes
                near = scale - 2 * (block @ points.T) < _ROUGHLY * scale  # the product has lost some digits
                row, column = np.nonzero(near)
                apart = np.linalg.norm(block[row].astype(np.float64) - points[column], axis=1)
                if (apart <= _ROUNDING * np.sqrt(scale[row, column])).any():
                    return True
        return False

    def _check(self, part: Part) -> None:
        file = self.path / part.name
        _refuse_open(file, stat.S_ISREG)
        with file.open("rb") as opened:
            expected = opened.read(HEADER) == npy_header(part.dtype, part.shape)
        if not expected or file.stat().st_size != part.size:
            raise RunError(
                f"{file} does not match its manifest, {part.size} bytes of {part.dtype}; restore it from a backup, or "
                "embed the texts again"
            )


def is_vector_folder(path: str | Path) -> bool:
    """Whether this folder was created by `gape embed`, complete or not."""
    folder = Path(path)
    return (folder / MANIFEST).exists() or (folder / PARTIAL / "origin.json").exists()


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return _SHARD.format(number)


def npy_header(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of an .npy file. Its length is constant, because numpy pads it to leave room for growth."""
    header = BytesIO()
    described = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def record_contents(texts: Iterable[str], users: Iterable[str] | None) -> Iterator[bytes]:
    """Return the bytes that identify each record: its text, and its user if users are protected.

    Ledgers recognise texts by these bytes however the texts are read, so that there is one budget for them.
    """
    pairs = ((text, "") for text in texts) if users is None else zip(texts, users, strict=True)
    return (f"{len(user)} {user} {text}".encode() for text, user in pairs)


def record_digest(content: bytes) -> bytes:
    """Identify one record."""
    return blake2b(content, digest_size=DIGEST).digest()


class DatasetDigest:
    """Identifies a multiset of records by their digests. Equal if and only if the records are equal, in any order.

    Takes 32 bytes of memory for each record.
    """

    def __init__(self) -> None:
        """Begin without records."""
        self._by_first = [bytearray() for _ in range(256)]  # by the first byte, so that few are sorted at once

    def add(self, digests: Iterable[bytes]) -> None:
        """Add records."""
        for digest in digests:
            self._by_first[digest[0]] += digest

    def digest(self) -> bytes:
        """Return the digest of all records."""
        whole = blake2b(digest_size=DIGEST)
        for held in self._by_first:
            times = Counter(bytes(held[start : start + DIGEST]) for start in range(0, len(held), DIGEST))
            for digest, count in sorted(times.items()):
                whole.update(digest + count.to_bytes(8, "little"))
        return whole.digest()


def dataset_digest(digests: Iterable[bytes]) -> bytes:
    """Return the `DatasetDigest` of records."""
    whole = DatasetDigest()
    whole.add(digests)
    return whole.digest()


def salted(dataset: bytes, salt: bytes) -> str:
    """Turn the digest of a dataset into a salted fingerprint, so that two ledgers of it cannot be linked."""
    return blake2b(dataset, key=salt, digest_size=DIGEST).hexdigest()


def _checksum(values: dict[str, Any]) -> str:
    # Through JSON, so that tuples and lists give the same checksum.
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=DIGEST).hexdigest()


def _refuse_open(path: Path, kind: Any) -> None:
    """Refuse a path that is missing, a link, of another kind, or open to other users."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        raise RunError(f"{path} is missing; restore it from a backup, or embed the texts again") from None
    if stat.S_ISLNK(mode) and kind is not stat.S_ISDIR:
        raise PrivacyError(f"{path} is a link, which could lead to other data; replace it by the file itself")
    mode = path.stat().st_mode
    if not kind(mode):
        raise InputError(f"{path} is not the file or folder that it should be; embed the texts again")
    if mode & 0o077:
        raise PrivacyError(f"{path} is open to other users; run: chmod -R go= {path}")
