"""Reading and writing files: atomic writes, locks, JSON, and parquet tables of samples."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gape.core.errors import RunError
from gape.core.types import Samples, as_samples

N = TypeVar("N", np.int64, np.float64)
_LARGEST = 2**26  # bytes of a text or JSON file, a hundred times as many as a selection of 10,000 samples needs


def write_atomically(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file so that it has either the old or the new content in full at any time, even after a power cut.

    With `mode` the file never has other permissions, not even while it is being written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # while it is empty
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_locked(lock: Path) -> bool:
    """Whether any process, including this one, holds a lock taken by `locked`."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_NONBLOCK)  # never blocks, not even on a pipe
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


@contextlib.contextmanager
def locked(lock: Path, folder: Path) -> Iterator[None]:
    """Keep other processes out of `folder`, which must not contain links. The lock always ends with the process."""
    refuse_links(folder)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunError(f"{folder} is in use by another process; wait for it to end") from error
        for unfinished in folder.rglob(".*.tmp"):  # left by a process that was killed while writing
            unfinished.unlink()
        yield


def refuse_links(folder: Path) -> None:
    """Refuse a folder that contains anything other than files and folders.

    A symbolic link leads elsewhere, and reading a pipe waits forever for a writer.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent) / name
            if path.is_symlink():
                raise RunError(f"{path} is a symbolic link, which no run creates; replace it by the file itself")
            if not (path.is_file() or path.is_dir()):
                raise RunError(f"{path} is neither a file nor a folder, so no run created it; remove it")


def write_json(path: Path, value: Any, *, mode: int | None = None) -> None:  # any value that JSON can represent
    """Write JSON atomically. Infinite numbers become the string "inf", because JSON has no number for them."""
    write_atomically(path, json_bytes(value), mode=mode)


def json_bytes(value: Any) -> bytes:
    """Return what `write_json` writes."""
    return (json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_bounded(path: Path, most: int = _LARGEST) -> str:
    """Read a text file of at most `most` bytes. An untrusted file may have terabytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise RunError(f"{path} is longer than {most:,} bytes, which no run writes; restore it from a backup")
    return content.decode("utf-8")


def read_json(path: Path) -> Any:
    """Read JSON written by `write_json`."""
    try:
        return json.loads(read_bounded(path))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as JSON ({type(error).__name__}); restore it from a backup") from error


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Write columns as a parquet file, atomically."""
    write_atomically(path, table_bytes(pa.table(columns)))


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as a parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_table(path: Path) -> pa.Table:
    """Read a parquet file and validate all of it."""
    try:
        # Opened as a file, because a folder of that name would be read as a dataset. Read through Arrow's own file
        # object and by this thread: Arrow threads that still hold Python memory when the process ends abort it.
        with pa.OSFile(str(path)) as file, pq.ParquetFile(file, pre_buffer=False) as opened:
            table = opened.read(use_threads=False)
        table.validate(full=True)
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        raise RunError(
            f"{path} cannot be read as parquet ({type(error).__name__}); restore it from a backup"
        ) from error
    return table


def read_numbers(path: Path, table: pa.Table, name: str, kind: type[N]) -> NDArray[N]:
    """Return a column of finite numbers from the table that was read from `path`."""
    if table.column_names.count(name) == 1 and not table[name].null_count:
        given = table.schema.field(name).type
        if pa.types.is_integer(given) or (pa.types.is_floating(given) and kind is np.float64):
            values: NDArray[N] = table[name].to_numpy().astype(kind)
            if np.isfinite(values).all():
                return values
    raise RunError(f"{path} has no column {name!r} of numbers; restore it from a backup")


def read_samples(path: Path, table: pa.Table) -> Samples:
    """Return the samples from the table that was read from `path`: finite vectors, texts, or texts with labels."""
    if table.column_names.count("sample") == 1:
        column = table["sample"]
        kind = column.type
        if pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type) and kind.list_size:
            flat = column.combine_chunks().flatten()
            if len(flat) == len(column) * kind.list_size and not flat.null_count and np.isfinite(flat).all():
                return samples_from_arrow(column)
        elif not _lacks_texts(column):
            return samples_from_arrow(column)
    raise RunError(f"{path} has no column 'sample' of vectors or texts; restore it from a backup")


def samples_to_arrow(samples: Samples) -> pa.Array:
    """Turn vectors, (m, d) float32, texts, (m,), or texts with labels, (m,) with fields, into one parquet column."""
    if samples.dtype.names:
        return pa.StructArray.from_arrays(list(samples_to_columns(samples).values()), names=samples.dtype.names)
    if samples.ndim == 2:
        flat = pa.array(np.ascontiguousarray(samples, dtype=np.float32).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, samples.shape[1])
    return pa.array(samples.tolist(), type=pa.string())


def samples_from_arrow(column: pa.ChunkedArray) -> Samples:
    """Turn a column written by `samples_to_arrow` back into samples."""
    array = column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type):
        vectors: Samples = array.flatten().to_numpy(zero_copy_only=False).reshape(-1, array.type.list_size)
        return vectors.copy()
    if pa.types.is_struct(array.type):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        samples = np.empty(len(array), dtype=[(name, object) for name in names])
        for name in names:
            samples[name] = samples_from_arrow(pa.chunked_array([array.field(name)]))
        return samples
    return as_samples(array.to_pylist())


def samples_to_columns(samples: Samples, *, rows: bool = False) -> dict[str, pa.Array]:
    """Turn samples into the columns under which they are published: text, label and text, or sample for vectors.

    With `rows` they are lines of JSON, one for each row of a table, and its columns are published.
    """
    if rows:
        objects = [json.loads(line) for line in samples]
        return {name: pa.array([each[name] for each in objects]) for name in (objects[0] if objects else ())}
    if samples.dtype.names:
        return {name: samples_to_arrow(samples[name]) for name in samples.dtype.names}
    return {"sample" if samples.ndim == 2 else "text": samples_to_arrow(samples)}


def holds_rows(parts: Mapping[str, str]) -> bool:
    """Whether the samples of a run with these parts are rows of a table, each a line of JSON."""
    return parts["embedder"].startswith("RowEmbedder(")


def lines_of(table: pa.Table) -> list[str]:
    """Return the rows of a published table as the lines of JSON that they were."""
    return [json.dumps(row, ensure_ascii=False) for row in table.to_pylist()]


def _lacks_texts(column: pa.ChunkedArray) -> bool:
    """Whether a column contains anything other than texts, or other than a text and a label if it has fields."""
    array = column.combine_chunks()
    if pa.types.is_struct(array.type):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        inner = (_lacks_texts(pa.chunked_array([array.field(name)])) for name in names if names.count(name) == 1)
        return sorted(names) != ["label", "text"] or bool(array.null_count) or any(inner)
    return not pa.types.is_string(array.type) or bool(array.null_count)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
