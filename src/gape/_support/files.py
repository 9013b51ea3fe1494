"""Reading and writing files: atomic writes, locks, JSON, and parquet tables of samples."""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gape.core.errors import InputError, RunError

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


def require_writable_folder(path: Path) -> None:
    """Refuse a folder that exists and is read-only, or that cannot be made, before anything is spent on its content."""
    try:
        _try_writing(next(folder for folder in (path, *path.absolute().parents) if folder.exists()))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); name another folder") from None


def require_writable_file(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is spent on its content."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.parent} is not a folder; make it first")
    try:
        path.exists()  # raises if the name is too long
        _try_writing(path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); name another file") from None


def _try_writing(folder: Path) -> None:
    """Open a file without a name: permissions do not tell everything, for instance about read-only disks."""
    with tempfile.TemporaryFile(dir=folder):
        pass


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
