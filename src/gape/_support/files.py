"""Files that are either there, whole, or not there at all."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gape.core.errors import RunError

N = TypeVar("N", np.int64, np.float64)
_LARGEST = 2**26  # bytes of a text or of JSON; selections of 10,000 samples have a hundredth of it


def write_atomically(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file so that at any instant, power cuts included, the old or the new content is there, whole.

    With `mode` it never has another, where others could read it, not even before it is whole.
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
    """Whether a process, which may be this one, holds a lock that `locked` has taken."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_NONBLOCK)  # which waits for nobody, whatever there is
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
    """Keep other processes out of `folder`, which holds no links; the lock ends with the process, however that ends."""
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
    """Refuse a folder with anything below it but files and folders: what is read and written there must be there.

    A symbolic link leads elsewhere, and a pipe waits for ever for whoever would write to it.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            if path.is_symlink():
                raise RunError(f"{path} is a symbolic link, which no run makes; put the file itself there")
            if not (path.is_file() or path.is_dir()):
                raise RunError(f"{path} is neither a file nor a folder, which no run makes; remove it")


def write_json(path: Path, value: Any, *, mode: int | None = None) -> None:  # whatever JSON can hold
    """Write JSON atomically; infinite numbers become the string "inf", which JSON has no number for."""
    write_atomically(path, json_bytes(value), mode=mode)


def json_bytes(value: Any) -> bytes:
    """Return what `write_json` writes."""
    return (json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_bounded(path: Path, most: int = _LARGEST) -> str:
    """Read a text of up to so many bytes; a file from anybody may claim to have terabytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise RunError(f"{path} is longer than {most:,} bytes, which no run writes; restore it from a copy")
    return content.decode("utf-8")


def read_json(path: Path) -> Any:
    """Read JSON written by `write_json`."""
    try:
        return json.loads(read_bounded(path))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as JSON ({type(error).__name__}); restore it from a copy") from error


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
    """Read a parquet file, all of it valid."""
    try:
        # As a file alone: a folder of that name would be read as a dataset. And by this thread, from a file of Arrow's:
        # threads of Arrow's that still hold memory of Python's when the process ends abort it.
        with pa.OSFile(str(path)) as file, pq.ParquetFile(file, pre_buffer=False) as opened:
            table = opened.read(use_threads=False)
        table.validate(full=True)
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read as parquet ({type(error).__name__}); restore it from a copy") from error
    return table


def read_numbers(path: Path, table: pa.Table, name: str, kind: type[N]) -> NDArray[N]:
    """Return a column of finite numbers of the table that was read from `path`."""
    if table.column_names.count(name) == 1 and not table[name].null_count:
        given = table.schema.field(name).type
        if pa.types.is_integer(given) or (pa.types.is_floating(given) and kind is np.float64):
            values: NDArray[N] = table[name].to_numpy().astype(kind)
            if np.isfinite(values).all():
                return values
    raise RunError(f"{path} has no column {name!r} of numbers; restore it from a copy")


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
