"""Private texts and other records as vectors on disk, embedded once for any number of runs."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gape._support.files import locked, read_json, write_json
from gape.core.errors import InputError, RunError
from gape.core.types import Points, as_samples
from gape.embedders.privacy import require_private_embedding
from gape.modalities import Columns
from gape.modalities.records import choose_columns, name_readers, open_table, record_text
from gape.modalities.tables import reading, shown
from gape.runs.embedder import make_embedder
from gape.runs.folder.stored import LEDGER_SUFFIX
from gape.runs.settings import Settings
from gape.runs.spending import make_purse, refuse_idle_caps
from gape.voting.filling import Filling
from gape.voting.store import MANIFEST, PARTIAL, Origin, VectorFolder, record_contents, record_digest

_TEXTS_AT_ONCE = 1024  # embedded together: the most that an interruption can lose
_VECTORS_AT_ONCE = 2**14


def embed_texts(
    settings: Settings,
    folder: str | Path,
    *,
    source: object = None,
    vectors: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> VectorFolder:
    """Embed private records into a folder from which any number of runs can vote, or resume doing so, and open it.

    The folder is as private as the records, which are no longer needed. Of the settings, only data, modality, schema,
    columns, embedder and ledger matter. Memory does not grow with the number of texts or images. After an interruption,
    the same call resumes at the last batch, and the finished folder is the same, byte for byte. With `vectors` nothing
    is embedded: that column of a parquet file contains the vectors, as fixed-size lists of numbers. Without a column of
    texts beside it, the ledger identifies the data by its vectors. A finished folder is opened unchanged. `progress`
    receives the number of records so far.
    """
    path, settings = Path(folder), settings.anchored()
    if not settings.records.on_disk:
        raise InputError(
            f"{settings.records.nouns} of the modality {settings.modality} are embedded by each run, and not into a "
            "folder; run on the data itself"
        )
    if vectors is not None and not settings.records.plain_texts:
        raise InputError(f"vectors are read for texts, not for {settings.records.nouns}; leave vectors out")
    rows = _rows(settings, source) if vectors is None else _vector_rows(settings, vectors)
    refuse_idle_caps(settings, writing=False)
    embedder = make_embedder(settings, make_purse(settings))
    if rows.width is None:
        require_private_embedding(embedder)
    elif (width := embedder.embed(as_samples(["a"])).shape[1]) != rows.width:
        raise InputError(
            f"{settings.embedder} returns {width} numbers per text, not {rows.width}; name the embedder of the vectors"
        )
    ledger = settings.ledger or (None if source is not None else settings.data + LEDGER_SUFFIX)
    origin = Origin(rows.source, rows.columns, settings.embedder, settings.records.identity(embedder), ledger)
    if (path / MANIFEST).exists():
        whole = VectorFolder(path)
        _refuse_other_origin(path, whole.manifest.origin, origin)
        shutil.rmtree(path / PARTIAL, ignore_errors=True)  # left by a process that was killed at its very end
        return whole
    lock = _begin(path, origin)
    with locked(lock, path):
        filling = Filling(path, _save, users=settings.user is not None, labels=settings.label is not None)
        start = dropped = 0
        for batch in rows.batches():
            dropped += batch.dropped
            digests = [record_digest(content) for content in batch.contents]
            known = min(len(digests), max(0, filling.rows - start))
            if known:
                filling.recognise(start, b"".join(digests[:known]), batch.labels and batch.labels[:known])
            if known < len(digests):
                fresh = batch.after(known)
                points = embedder.embed(as_samples(fresh.texts)) if fresh.points is None else fresh.points
                filling.append(points, b"".join(digests[known:]), fresh.users, fresh.labels)
            start += len(digests)
            if progress:
                progress(start)
        filling.recognise_end(start)
        filling.finish(origin, dropped)
    return VectorFolder(path)


@dataclass(frozen=True)
class _Batch:
    """Consecutive records on their way into a folder."""

    contents: list[bytes]  # by which the ledger identifies each record
    texts: list[str]
    labels: list[str] | None
    users: list[str] | None
    points: Points | None = None  # if they are known already
    dropped: int = 0  # blank rows among them

    def after(self, known: int) -> "_Batch":
        return replace(
            self,
            texts=self.texts[known:],
            labels=self.labels and self.labels[known:],
            users=self.users and self.users[known:],
            points=None if self.points is None else self.points[known:],
        )


@dataclass(frozen=True)
class _Rows:
    """Private records that are read once, batch by batch."""

    source: str
    columns: dict[str, str | None]
    batches: Callable[[], Iterator[_Batch]]
    width: int | None = None  # of the vectors, if they are known already


def _rows(settings: Settings, source: object) -> _Rows:
    """Read the records of any modality that can be on disk."""
    if source is None and not settings.data:
        raise InputError("there is no data; name a file of private texts")
    return _text_rows(settings, source) if settings.records.plain_texts else _block_rows(settings, source)


def _block_rows(settings: Settings, source: object) -> _Rows:
    """Read records that are not plain texts, in the blocks of their modality."""
    columns = Columns(settings.text, settings.label, settings.user)
    blocks = settings.records.blocks(settings.data if source is None else source, columns, _TEXTS_AT_ONCE)
    first = next(blocks)  # it names the source

    def batches() -> Iterator[_Batch]:
        for block in chain([first], blocks):
            labels, users = (None if names is None else names.tolist() for names in (block.labels, block.users))
            contents = block.contents or record_contents(block.content, block.users)
            yield _Batch(list(contents), block.content.tolist(), labels, users, dropped=block.dropped)

    return _Rows(first.source, asdict(columns), batches)


def _text_rows(settings: Settings, source: object) -> _Rows:
    """Read what `load_texts` reads, without holding all of it in memory."""
    table = open_table(settings.data if source is None else source)
    chosen = choose_columns(table, settings.text, settings.label, settings.user)

    def batches() -> Iterator[_Batch]:
        rows = enumerate(table.rows(chosen), start=1)
        while some := list(islice(rows, _TEXTS_AT_ONCE)):
            yield _batch(
                settings, chosen, [(f"{table.row} {number} of {table.source}", cells) for number, cells in some]
            )

    columns = {"text": chosen[0] or None, "label": settings.label, "user": settings.user}
    return _Rows(table.source, columns, batches)


def _vector_rows(settings: Settings, vectors: str) -> _Rows:
    """Read vectors from a parquet file, with the columns that the settings name beside them."""
    path = Path(settings.data)
    with reading(path.name):
        schema = pq.read_schema(path)
    chosen = [name for name in (settings.text, settings.label, settings.user) if name is not None]
    for name in (vectors, *chosen):
        if name not in schema.names:
            raise InputError(f"{path.name} has no column {name!r}; name one of {shown(schema.names)}")
    kind = schema.field(vectors).type
    if not pa.types.is_fixed_size_list(kind) or not pa.types.is_floating(kind.value_type):
        raise InputError(
            f"column {vectors!r} of {path.name} must hold fixed-size lists of floats, got {kind}; convert it"
        )

    def batches() -> Iterator[_Batch]:
        before = 0
        with reading(path.name), pq.ParquetFile(path) as file:
            empty = InputError(f"column {vectors!r} of {path.name} has empty cells; fill or remove those rows")
            if _counts_empty_cells(file.metadata, vectors):
                raise empty
            for part in file.iter_batches(_VECTORS_AT_ONCE, columns=[vectors, *chosen]):
                column = part.column(vectors)
                if column.null_count or column.flatten().null_count:
                    raise empty
                points = column.flatten().to_numpy(zero_copy_only=False).reshape(len(part), -1).astype(np.float32)
                cells = (
                    zip(*(part.column(name).to_pylist() for name in chosen), strict=True)
                    if chosen
                    else [()] * len(part)
                )
                rows = [(f"row {before + i} of {path.name}", row) for i, row in enumerate(cells, start=1)]
                before += len(part)
                yield _batch(settings, chosen, rows, points)

    columns = {"text": settings.text, "label": settings.label, "user": settings.user}
    return _Rows(path.name, columns, batches, kind.list_size)


def _counts_empty_cells(metadata: pq.FileMetaData, vectors: str) -> bool:
    """Whether the metadata of a file counts missing vectors: pyarrow before 26 cannot read such a column."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    columns = (group.column(i) for group in groups for i in range(group.num_columns))
    of_vectors = (column.statistics for column in columns if column.path_in_schema.rsplit(".", 2)[0] == vectors)
    return any(statistics is not None and bool(statistics.null_count) for statistics in of_vectors)


def _batch(
    settings: Settings, chosen: Sequence[str], rows: Sequence[tuple[str, Sequence[Any]]], points: Points | None = None
) -> _Batch:
    """Check the cells of rows, given with their position, as `load_texts` does. Rows with a blank text are left out."""
    has_text = points is None or settings.text is not None
    first, readers = int(has_text), name_readers(settings.label, settings.user)  # the columns that hold names
    kept, texts, names = [], list[str](), list[list[str]]()
    for index, (where, cells) in enumerate(rows):
        text = record_text(cells[0], where) if has_text else ""
        if text is not None:
            kept.append(index)
            texts.append(text)
            named = zip(readers, cells[first:], chosen[first:], strict=True)
            names.append([read(cell, where, column) for read, cell, column in named])
    labels = None if settings.label is None else [row[0] for row in names]
    users = None if settings.user is None else [row[-1] for row in names]
    contents = list(record_contents(texts, users))
    if points is not None:
        points = points[kept]
        if not has_text:
            contents = [content + row.tobytes() for content, row in zip(contents, points, strict=True)]
    return _Batch(contents, texts, labels, users, points, len(rows) - len(kept))


def _begin(path: Path, origin: Origin) -> Path:
    """Create the folder to fill, or refuse one with other content; return its lock."""
    partial = path / PARTIAL
    begun = partial / "origin.json"
    foreign = path.exists() and (not path.is_dir() or any(entry != partial for entry in path.iterdir()))
    if foreign and not begun.exists():
        raise RunError(f"{path} exists and is not a folder of vectors; name a new folder")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    partial.mkdir(mode=0o700, exist_ok=True)
    if begun.exists():
        _refuse_other_origin(path, Origin(**read_json(begun)), origin)
    else:
        _save(begun, asdict(origin))
    lock = partial / "lock"
    lock.touch(mode=0o600)
    return lock


def _refuse_other_origin(path: Path, old: Origin, new: Origin) -> None:
    for name in (field.name for field in fields(old)):
        before, now = getattr(old, name), getattr(new, name)
        if before != now:
            raise RunError(
                f"{path} was begun with {name} {before!r}, not {now!r}; use the same settings to resume it, or name a "
                "new folder"
            )


def _save(path: Path, value: Any) -> None:
    """Write JSON that only the owner can read."""
    before = os.umask(0o077)
    try:
        write_json(path, value)
    finally:
        os.umask(before)
