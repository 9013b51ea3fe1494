"""Synthetic texts from private ones: in one call, or in a folder that can be resumed; and private texts as vectors."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gape.assembly import (
    TextElectorate,
    candidate_embedder,
    embedder_identity,
    make_electorate,
    make_embedder,
    make_plan,
    make_selector,
    open_private,
    record_content,
    require_embedder,
    resolved,
    units_of,
)
from gape.data.records import _array as as_samples
from gape.data.records import _choose as choose_columns
from gape.data.records import _name as record_name
from gape.data.records import _open as open_table
from gape.data.records import _text as record_text
from gape.data.tables import reading, shown
from gape.embedders.cached import Cached
from gape.embedders.privacy import require_private_embedding
from gape.errors import InputError, RunError
from gape.export import read_finished
from gape.files import locked, read_json, write_json
from gape.privacy.noise import Noise
from gape.privacy.statement import PrivacyStatement
from gape.progress import Progress, Tracker
from gape.run import run
from gape.selection.rehearsal import rehearse
from gape.settings import OPERATIONAL, PRIVATE_KMEANS, Settings
from gape.text_folder import LEDGER_SUFFIX, TextFolder
from gape.types import Points
from gape.voting.filling import Filling
from gape.voting.store import MANIFEST, PARTIAL, Origin, VectorFolder, record_digest
from gape.writers import Listener, make_generator, make_model, make_prompts, remembering, writes

_TEXTS_AT_ONCE = 1024  # embedded together: what an interruption costs at most
_VECTORS_AT_ONCE = 2**14


@dataclass(frozen=True)
class SyntheticTexts:
    """Texts that may be published under their statement, each with its label where there are labels."""

    texts: list[str]
    labels: list[str] | None
    privacy: PrivacyStatement

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def synthesize(
    texts: object,
    *,
    epsilon: float,
    samples: int | None = None,
    folder: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> SyntheticTexts:
    """Make synthetic texts that are (epsilon, delta)-differentially private for every record of `texts`, or user.

    `texts` is a path, a list of texts, a frame, or whatever else `load_texts` reads, or the path of a folder that
    `embed_texts` has filled; `settings` are those of `Settings`. With a `folder` the run can be resumed by the same
    call; without, it leaves nothing behind.

    What is spent is remembered in a ledger: that of `ledger`, else one beside a file of texts, else, for data in
    memory, one in the folder. Data in memory without a folder has none: calls do not know what earlier ones have spent,
    and it adds up all the same.
    """
    is_path = isinstance(texts, str | Path)
    values = {"epsilon": epsilon, "samples": samples, "data": str(texts) if is_path else None}
    chosen = Settings.of(settings, values)
    source = None if is_path else texts
    if folder is not None:
        return run_text(chosen, folder, source=source, progress=progress)
    with tempfile.TemporaryDirectory(prefix="gape-") as temporary:
        if source is not None and chosen.ledger is None:
            chosen = chosen.with_values(ledger=":memory:")
        return run_text(chosen, Path(temporary) / "run", source=source, progress=progress)


def run_text(
    settings: Settings,
    folder: str | Path,
    *,
    source: object = None,
    progress: Callable[[Progress], None] | None = None,
    noise: Noise | None = None,
) -> SyntheticTexts:
    """Run text synthesis in a folder, or go on with the run that is there, and return what it publishes.

    The private texts are read from `source` or from the file of the settings, embedded once, in memory, and nothing of
    them is written or sent anywhere but to an embedder that may see them. If the settings name a folder that
    `embed_texts` has filled, its vectors vote from disk, with the same result. A refused run leaves its folder as it
    was. `noise` is for tests.
    """
    on_disk = TextFolder(folder)
    on_disk.refuse_foreign()
    private = open_private(settings, source)
    settings = on_disk.same_run(resolved(settings, private).anchored())
    if on_disk.finished:
        return _published(on_disk)
    plan = make_plan(settings)
    prices = (settings.prompt_price, settings.completion_price)
    tracker = Tracker(plan, prices, progress or (lambda _: None), writes=writes(settings))
    embedder = make_embedder(settings)
    require_embedder(private, embedder)
    bare = make_model(settings, on_disk.answers)
    with closing(on_disk.open_ledger(settings, plan, private)) as ledger:
        cached = Cached(embedder)  # of public texts alone
        tracker.say(f"{'opening' if isinstance(private, VectorFolder) else 'embedding'} the private texts")
        if settings.labels is None and settings.separation != PRIVATE_KMEANS:
            rehearse(make_selector(settings, plan, units_of(private)), plan.candidates)
        electorate = make_electorate(settings, private, embedder)
        selection, unpaid = settings, ""
        if settings.separation == PRIVATE_KMEANS and isinstance(electorate, TextElectorate):
            selection = settings.with_values(separation=electorate.unpaid_separation(plan.samples, plan.seed))
            unpaid = "the separation R of its selection"
        on_disk.write(settings)
        listener = Listener(tracker.answered, tracker.asked)
        with remembering(bare, on_disk.answers, listener) as model:
            if settings.domain is not None and settings.topics is None:
                tracker.say("choosing topics")
            prompts = make_prompts(settings, model)
            if model is not None:
                on_disk.write(settings.with_values(topics=prompts.rules.get("topic")))  # a resumed run has the same
            tracker.begin(on_disk.batches)
            run(
                folder,
                plan,
                make_generator(settings, model, prompts, cached),
                candidate_embedder(settings, cached),
                electorate,
                make_selector(selection, plan, units_of(private)),
                ledger,
                noise=noise,
                progress=tracker.state,
                unpaid=unpaid,
            )
    return _published(on_disk)


def resume(
    folder: str | Path,
    *,
    source: object = None,
    progress: Callable[[Progress], None] | None = None,
    noise: Noise | None = None,
    **changes: Any,
) -> SyntheticTexts:
    """Go on with the run of a folder, by its own settings, and return what it publishes.

    No stored answer is asked for again and no round is paid for twice. `changes` are settings that may differ between
    the parts of a run, such as caps, keys and where the data lies. Data from memory must be given again as `source`.
    """
    on_disk = TextFolder(folder)
    settings = on_disk.settings()
    changes = {name: value for name, value in changes.items() if value is not None}
    if fixed := sorted(set(changes) - OPERATIONAL):
        raise InputError(f"{fixed[0]} cannot change within a run; start a new one in another folder")
    if on_disk.finished:
        return _published(on_disk)
    # The budget is set by whoever starts a run; going on with it is no such decision.
    settings = settings.with_values(**{"budget_epsilon": None, **changes})
    if source is None and not settings.data:
        raise InputError(f"the data of {folder} was in memory; give it again")
    return run_text(settings, folder, source=source, progress=progress, noise=noise)


def embed_texts(
    settings: Settings,
    folder: str | Path,
    *,
    source: object = None,
    vectors: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> VectorFolder:
    """Embed private texts into a folder from which any number of runs can vote, or go on with it, and open it.

    The folder is as private as the texts, which are not needed any more; of the settings, data, columns, embedder and
    ledger count. Memory does not grow with the data, and whatever stops this, the same call goes on from the last batch
    to a folder that is the same, byte for byte. With `vectors` nothing is embedded: that column of a parquet file, of
    fixed-size lists of numbers, holds what the embedder has made of the texts. Without a column of texts beside it, the
    ledger knows the data by its vectors. A folder that is whole is opened as it is. `progress` is told how many records
    are there.
    """
    path, settings = Path(folder), settings.anchored()
    rows = _text_rows(settings, source) if vectors is None else _vector_rows(settings, vectors)
    embedder = make_embedder(settings)
    if rows.width is None:
        require_private_embedding(embedder)
    elif (width := embedder.embed(as_samples(["a"])).shape[1]) != rows.width:
        raise InputError(
            f"{settings.embedder} makes {width} numbers of a text, not {rows.width}; name that of the vectors"
        )
    ledger = settings.ledger or (None if source is not None else settings.data + LEDGER_SUFFIX)
    origin = Origin(rows.source, rows.columns, settings.embedder, embedder_identity(embedder), ledger)
    if (path / MANIFEST).exists():
        whole = VectorFolder(path)
        _refuse_other_origin(path, whole.manifest.origin, origin)
        shutil.rmtree(path / PARTIAL, ignore_errors=True)  # of a process that was killed at its very end
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

    contents: list[bytes]  # what identifies each
    texts: list[str]
    labels: list[str] | None
    users: list[str] | None
    points: Points | None = None  # where they are known already
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
    """Private records to be read once, batch by batch."""

    source: str
    columns: dict[str, str | None]
    batches: Callable[[], Iterator[_Batch]]
    width: int | None = None  # of vectors that are known already


def _text_rows(settings: Settings, source: object) -> _Rows:
    """Read what `load_texts` reads, without holding all of it."""
    if source is None and not settings.data:
        raise InputError("there is no data; name a file of private texts")
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
            for part in file.iter_batches(_VECTORS_AT_ONCE, columns=[vectors, *chosen]):
                column = part.column(vectors)
                if column.null_count or column.flatten().null_count:
                    raise InputError(f"column {vectors!r} of {path.name} has empty cells; fill or remove those rows")
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


def _batch(
    settings: Settings, chosen: Sequence[str], rows: Sequence[tuple[str, Sequence[Any]]], points: Points | None = None
) -> _Batch:
    """Check the cells of rows, each with where it is, as `load_texts` does; leave out those whose text is blank."""
    has_text = points is None or settings.text is not None
    first = int(has_text)  # of the columns that hold names
    kept, texts, names = [], list[str](), list[list[str]]()
    for place, (where, cells) in enumerate(rows):
        text = record_text(cells[0], where) if has_text else ""
        if text is not None:
            kept.append(place)
            texts.append(text)
            pairs = zip(cells[first:], chosen[first:], strict=True)
            names.append([record_name(cell, where, column) for cell, column in pairs])
    labels = None if settings.label is None else [row[0] for row in names]
    users = None if settings.user is None else [row[-1] for row in names]
    contents = [record_content(*pair) for pair in zip(texts, users or [""] * len(texts), strict=True)]
    if points is not None:
        points = points[kept]
        if not has_text:
            contents = [content + row.tobytes() for content, row in zip(contents, points, strict=True)]
    return _Batch(contents, texts, labels, users, points, len(rows) - len(kept))


def _begin(path: Path, origin: Origin) -> Path:
    """Make a folder to be filled, or refuse one that holds something else; return its lock."""
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
    for each in fields(old):
        before, now = getattr(old, each.name), getattr(new, each.name)
        if before != now:
            raise RunError(
                f"{path} was begun with {each.name} {before!r}, not {now!r}; use the same settings to go on, or name a "
                "new folder"
            )


def _save(path: Path, value: Any) -> None:
    """Write JSON that nobody else may read."""
    before = os.umask(0o077)
    try:
        write_json(path, value)
    finally:
        os.umask(before)


def _published(folder: TextFolder) -> SyntheticTexts:
    _, statement, table = read_finished(folder.path)
    labels = table["label"].to_pylist() if "label" in table.column_names else None
    return SyntheticTexts(table["text"].to_pylist(), labels, statement)
