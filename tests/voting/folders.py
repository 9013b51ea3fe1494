"""Folders of private vectors, made by the code that makes them for users."""

from collections.abc import Sequence
from pathlib import Path

from gape._support.files import locked
from gape.core.types import Points
from gape.runs.embedding import _save as save
from gape.voting.filling import Filling
from gape.voting.store import Origin, VectorFolder, record_digest

ORIGIN = Origin("made-up points", {"text": None, "label": None, "user": None}, "none", "Nothing()", None)


def begin(path: Path) -> Path:
    (path / "partial").mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def fill(
    path: Path,
    points: Points,
    *,
    users: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    batch: int = 10,
    shard: int = 2**20,
) -> VectorFolder:
    """Fill a folder, or go on with it, in batches, into shards of so many bytes."""
    with locked(begin(path) / "partial" / "lock", path):
        filling = Filling(path, save, users=users is not None, labels=labels is not None, shard=shard)
        for start in range(0, len(points), batch):
            part = slice(start, start + batch)
            digests = b"".join(record_digest(row.tobytes()) for row in points[part])
            if start + len(points[part]) <= filling.rows:
                filling.recognise(start, digests, labels and labels[part])
            else:
                filling.append(points[part], digests, users and users[part], labels and labels[part])
        filling.recognise_end(len(points))
        filling.finish(ORIGIN, 0)
    return VectorFolder(path)
