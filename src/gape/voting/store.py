"""Private vectors in a folder, for sets larger than memory.

    vectors/                    mode 0700, every file 0600
    ├── vectors-00000.npy       float32, (rows, d), in the order of the data; further shards follow
    ├── labels.npy              uint32, (n,): each record's place in the manifest's list, where there are labels
    ├── units.npy               uint32, (n, 3): whose a record is, its place among theirs, how many they are
    ├── gape-vectors.json       counts, embedder, what the ledger knows the data by, checksums; written last
    └── partial/                while it is being filled

The folder is as private as the data: from an embedding most of a text can be guessed. It holds no text and no name of
a user. Of the texts it keeps one digest of all of them together, by which the ledger recognises the data: to confirm a
guess of it takes a guess of every record, whereas digests of single records would let single texts be looked up. It is
not salted, for salts belong to ledgers, and one folder must answer under any of them; a ledger gets it salted.
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

_PAIRS = 2**23  # of a vector on disk and a given one, compared at once
_ROUGHLY, _ROUNDING = 1e-4, 1e-4  # of squares of lengths, and of lengths: what rounding, and batches, may change
FORMAT = 1
MANIFEST, PARTIAL = "gape-vectors.json", "partial"
LABELS, UNITS = "labels.npy", "units.npy"
HEADER = 128  # bytes before the numbers of an .npy file of ours, whatever its length
DIGEST = 32

_SHARD = "vectors-{:05d}.npy"


@dataclass(frozen=True)
class Part:
    """A file of the folder: its numbers by type and shape, and a checksum of them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: str

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return HEADER + int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Origin:
    """Where vectors come from: decided before the first is made, and the same however often filling is resumed."""

    source: str  # in words
    columns: dict[str, str | None]  # of text, label and user, as they were named
    embedder: str  # as settings name it
    identity: str  # as the embedder names itself
    ledger: str | None  # of the data; a folder of vectors is the same data


@dataclass(frozen=True)
class Manifest:
    """What a whole folder says of itself."""

    origin: Origin
    records: int
    dropped: int  # blank rows of the data
    width: int
    units: int | None  # users; None where records are protected
    labels: tuple[str, ...] | None  # in the order of their first record
    dataset: str  # the digest of all records together
    largest_norm: float
    parts: tuple[Part, ...]  # the shards first, in order

    def as_json(self) -> dict[str, Any]:
        """Return it as it is written, with a checksum of its own and the seal of whoever wrote it."""
        values = {"format": FORMAT, **asdict(self)}
        checksum = _checksum(values)
        return {**values, "checksum": checksum, "seal": seal(checksum.encode())}

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read a manifest, and refuse one that is not as it was written."""
        try:
            values = json.loads(read_bounded(path))
            values.pop("seal", "")
            intact = values.pop("checksum") == _checksum(values)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            intact = False
        if not intact:
            raise RunError(f"{path} is damaged or was changed; restore it from a copy, or embed the texts again")
        if values["format"] != FORMAT:
            raise RunError(f"{path} has format {values['format']}, not {FORMAT}; embed the texts again")
        parts = [Part(**{**part, "shape": tuple(part["shape"])}) for part in values["parts"]]
        labels = None if values["labels"] is None else tuple(values["labels"])
        plain = {each.name: values[each.name] for each in fields(cls)}
        return cls(**{**plain, "origin": Origin(**values["origin"]), "labels": labels, "parts": tuple(parts)})


class VectorFolder:
    """A folder of private vectors, checked by its manifest, its sizes and its modes. Its repr shows no content."""

    def __init__(self, path: str | Path) -> None:
        """Open the folder `path`; cheap, whatever its size: contents are compared with checksums when they are read."""
        self.path = Path(path)
        if not (self.path / MANIFEST).exists():
            unfinished = (self.path / PARTIAL).exists()
            remedy = (
                "is not whole yet; repeat `gape embed` to go on"
                if unfinished
                else "holds no vectors; make them by `gape embed`"
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
        """The ledger of the data, if this user wrote on this machine where it is."""
        manifest = json.loads(read_bounded(self.path / MANIFEST))
        named = self.manifest.origin.ledger
        if named is None or is_sealed(str(manifest["checksum"]).encode(), str(manifest.get("seal", ""))):
            return named
        raise PrivacyError(
            f"{self.path} was not written by you on this machine, so its ledger {brief(named)} is not followed; give "
            "the ledger of the data as --ledger"
        )

    @property
    def source(self) -> str:
        """Where the records come from, in words."""
        return f"{self.path.name}, embedded from {self.manifest.origin.source}"

    @property
    def dropped(self) -> int:
        """Blank rows that were left out."""
        return self.manifest.dropped

    @property
    def unit(self) -> str:
        """What one privacy unit is."""
        return "record" if self.manifest.units is None else "user"

    @property
    def units(self) -> int:
        """How many privacy units there are."""
        return self.manifest.records if self.manifest.units is None else self.manifest.units

    @property
    def shards(self) -> list[Part]:
        """The files of vectors, in order."""
        return [part for part in self.manifest.parts if part.name not in {LABELS, UNITS}]

    def part(self, name: str) -> Part:
        """Return the file of this name."""
        return next(part for part in self.manifest.parts if part.name == name)

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset under a salt: its records, with their users, in any order."""
        return salted(bytes.fromhex(self.manifest.dataset), salt)

    def holds_any(self, points: Points) -> bool:
        """Whether one of these vectors, (m, d), is among those of the folder, up to rounding."""
        rows = max(1, _PAIRS // max(1, len(points)))
        sizes = np.square(points).sum(axis=1)
        for shard in self.shards:
            vectors = np.memmap(self.path / shard.name, "<f4", "r", offset=HEADER, shape=shard.shape)
            for first in range(0, len(vectors), rows):
                some = np.asarray(vectors[first : first + rows])
                scale = np.square(some).sum(axis=1)[:, None] + sizes
                near = scale - 2 * (some @ points.T) < _ROUGHLY * scale  # the product has lost some digits
                mine, theirs = np.nonzero(near)
                apart = np.linalg.norm(some[mine].astype(np.float64) - points[theirs], axis=1)
                if (apart <= _ROUNDING * np.sqrt(scale[mine, theirs])).any():
                    return True
        return False

    def _check(self, part: Part) -> None:
        file = self.path / part.name
        _refuse_open(file, stat.S_ISREG)
        with file.open("rb") as opened:
            expected = opened.read(HEADER) == npy_header(part.dtype, part.shape)
        if not expected or file.stat().st_size != part.size:
            raise RunError(
                f"{file} is not as its manifest says, {part.size} bytes of {part.dtype}; restore it from a copy, or "
                "embed the texts again"
            )


def is_vector_folder(path: str | Path) -> bool:
    """Whether this is a folder that `gape embed` has made, or begun to."""
    folder = Path(path)
    return (folder / MANIFEST).exists() or (folder / PARTIAL / "origin.json").exists()


def shard_name(number: int) -> str:
    """Name the file of a shard."""
    return _SHARD.format(number)


def npy_header(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return what stands before the numbers of an .npy file: always as long, since numpy leaves room for growth."""
    header = BytesIO()
    described = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def record_contents(texts: Iterable[str], users: Iterable[str] | None) -> Iterator[bytes]:
    """Return what identifies each record: its text, and whose it is, or nothing where records are protected.

    Whoever reads the texts, the ledger knows them by this, so that there is one budget for them.
    """
    pairs = ((text, "") for text in texts) if users is None else zip(texts, users, strict=True)
    return (f"{len(user)} {user} {text}".encode() for text, user in pairs)


def record_digest(content: bytes) -> bytes:
    """Identify one record."""
    return blake2b(content, digest_size=DIGEST).digest()


def dataset_digest(digests: Iterable[bytes]) -> bytes:
    """Identify a multiset of records by the digest of each: equal for any order of the same, and only for those."""
    whole = blake2b(digest_size=DIGEST)
    for digest, times in sorted(Counter(digests).items()):
        whole.update(digest + times.to_bytes(8, "little"))
    return whole.digest()


def salted(dataset: bytes, salt: bytes) -> str:
    """Turn the digest of a dataset into its fingerprint: two ledgers of it cannot be linked by theirs."""
    return blake2b(dataset, key=salt, digest_size=DIGEST).hexdigest()


def _checksum(values: dict[str, Any]) -> str:
    # Through JSON, so that tuples and lists are one.
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=DIGEST).hexdigest()


def _refuse_open(path: Path, kind: Any) -> None:
    """Refuse what is missing, a link, of another kind, or open to others."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        raise RunError(f"{path} is missing; restore it from a copy, or embed the texts again") from None
    if stat.S_ISLNK(mode) and kind is not stat.S_ISDIR:
        raise PrivacyError(f"{path} is a link, which could lead to other data; put the file itself there")
    mode = path.stat().st_mode
    if not kind(mode):
        raise InputError(f"{path} is neither the file nor the folder it should be; embed the texts again")
    if mode & 0o077:
        raise PrivacyError(f"{path} is open to other users; run: chmod -R go= {path}")
