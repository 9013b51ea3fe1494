"""Tables on disk: files, and folders of files."""

import codecs
import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gape.core.errors import InputError
from gape.modalities.tables import Table, from_arrow, from_dicts, is_name, reading, shown

# The longest text of a record, in characters; a longer one is probably a file whose rows were not separated.
LONGEST = 1_000_000

# A line of a file, or a row of several lines, may hold several cells.
_LONGEST_LINE = 16 * LONGEST

# A compressed file may grow by this factor when unpacked, or to the sizes below: more was made to fill the memory.
_MOST_GROWTH = 100
_SMALL_TEXT, _SMALL_TABLE, _FEW_ROWS = 2**22, 2**27, 10**6  # unpacked bytes of a text file and of a table, and rows

_ROWS_AT_ONCE = 100  # of parquet: a tiny file can repeat its longest cell in every row

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_KINDS = ".csv, .tsv, .jsonl, .ndjson or .txt, each also with .gz, or .parquet"
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}\.parquet")


def from_path(source: str | Path) -> Table:
    """Open a file by its suffix, or a folder by its content."""
    path = Path(source)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # longer than a path can be, or with a NUL
        exists = False
    if not exists:
        # A path with blanks may be a private text that should have been in a list, so it is not quoted.
        named = "the path given" if len(str(source).split()) != 1 else repr(str(source))
        raise InputError(f"{named} does not exist; check the path, or pass the records as a list")
    if path.is_dir():
        return _folder(path if path.name else path.resolve())
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    kind = plain.suffix.lower()
    if kind in _SEPARATORS:
        return _csv(path, _SEPARATORS[kind])
    if kind in {".jsonl", ".ndjson"}:
        return from_dicts(path.name, lambda: _json_lines(path), "line")
    if kind == ".txt":
        return Table(path.name, lambda _: ([line.rstrip("\r\n")] for line in _lines(path)), row="line")
    if kind == ".parquet" and plain == path:
        return _parquet(path.name, [path])
    raise InputError(f"{path.name} is of a kind that is not supported; convert it to {_KINDS}")


def _csv(path: Path, separator: str) -> Table:
    header = next(_cells(path, separator), [])
    if not header and not path.stat().st_size:
        raise InputError(f"{path.name} is empty; name a file with a header and a row for each record")
    if not header or not all(is_name(name) for name in header):
        raise InputError(f"the first row of {path.name} does not look like column names; add a header")
    others = {other for other in ",;|\t" if other != separator and other in header[0]}
    if len(header) == 1 and others:
        raise InputError(
            f"{path.name} seems to separate its columns with {others.pop()!r}, not {separator!r}; convert it"
        )

    def rows(chosen: Sequence[str]) -> Iterator[list[str]]:
        positions = [header.index(name) for name in chosen]
        for number, cells in enumerate(islice(_cells(path, separator), 1, None), start=1):
            if cells and len(cells) != len(header):
                raise InputError(
                    f"row {number} of {path.name} has {len(cells)} cells, and its header has {len(header)}; "
                    "put cells that contain separators or line ends in quotes"
                )
            yield [cells[position] for position in positions] if cells else [""] * len(positions)

    return Table(path.name, rows, header, header)


def _cells(path: Path, separator: str) -> Iterator[list[str]]:
    """Read a CSV file, header included; a quoted cell may hold line ends."""
    taken = number = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in _lines(path, newline=""):
            taken += len(line)
            if taken > _LONGEST_LINE:
                raise InputError(
                    f"row {number} of {path.name}, not counting the header, is longer than {_LONGEST_LINE} characters; "
                    "split it, or close its quotes"
                )
            yield line

    reader = csv.reader(lines(), delimiter=separator, strict=True)
    before = csv.field_size_limit(LONGEST)  # a setting of the whole process
    try:
        for number, cells in enumerate(reader, start=1):  # noqa: B007  (the errors name the row)
            taken = 0
            yield cells
    except csv.Error as error:
        size = "field limit" in str(error)
        reason = f"has a cell of more than {LONGEST} characters" if size else "has quotes that do not match"
        raise InputError(f"row {number} of {path.name}, not counting the header, {reason}; fix it") from None
    finally:
        csv.field_size_limit(before)


def _json_lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            yield {}
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"line {number} of {path.name} is not JSON; write one object per line") from None


def _lines(path: Path, newline: str | None = None) -> Iterator[str]:
    with _decoded(path, path.name, newline) as file:
        # In characters, which are at most as many as bytes.
        allowed = max(_SMALL_TEXT, _MOST_GROWTH * path.stat().st_size)
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            allowed -= len(line)
            if allowed < 0:
                raise InputError(_growth_message(path.name))
            if len(line) > _LONGEST_LINE:
                raise InputError(f"line {number} of {path.name} is longer than {_LONGEST_LINE} characters; split it")
            if "\0" in line:
                raise InputError(
                    f"line {number} of {path.name} contains a NUL byte, like binary files and UTF-16 without a byte "
                    "order mark; convert it to UTF-8"
                )
            yield line


@contextmanager
def _decoded(path: Path, what: str, newline: str | None = None) -> Iterator[TextIOWrapper]:
    """Open a text file, compressed or not; if it is not valid text, raise an error with the position."""
    with reading(what), gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
        wide = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(raw.peek(2)[:2])
        decoder = codecs.getincrementaldecoder(wide or "utf-8")()
        try:
            yield TextIOWrapper(raw, "utf-16" if wide else "utf-8-sig", newline=newline)
        except UnicodeDecodeError:
            raw.seek(0)
            raise InputError(
                f"{what} is not {'UTF-16' if wide else 'UTF-8'} at byte {_first_bad_byte(raw, decoder)} (from 0, "
                "uncompressed); convert it to UTF-8"
            ) from None


def _first_bad_byte(raw: Any, decoder: codecs.IncrementalDecoder) -> int:
    position = 0
    while True:
        chunk = raw.read(2**20)
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            return position - held + error.start
        if not chunk:
            return position
        position += len(chunk)


def _folder(path: Path) -> Table:
    with reading(path.name):
        files = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        inside = sorted((path / "data").glob("*.parquet"))
        refuse_links(path, [*files, *inside])
    if path / "dataset_dict.json" in files:
        splits = shown([entry.name for entry in files if entry.is_dir()])
        raise InputError(f"{path.name} holds several splits of a dataset; name the folder of one of them: {splits}")
    shards = {kind: [entry for entry in files if entry.suffix == kind] for kind in (".arrow", ".parquet", ".txt")}
    if shards[".arrow"]:
        return _saved_dataset(path, shards[".arrow"])
    if parquet := shards[".parquet"] or inside:
        kinds = {match[1] for match in map(_SHARD.fullmatch, (entry.name for entry in parquet)) if match}
        if len(kinds) > 1:
            raise InputError(f"{path.name} holds shards of several splits: {shown(sorted(kinds))}; keep only one split")
        return _parquet(path.name, parquet)
    if texts := shards[".txt"]:
        return Table(path.name, lambda _: ([_whole_text(*entry)] for entry in enumerate(texts, start=1)), row="file")
    raise InputError(f"{path.name} has no .txt, .parquet or .arrow files; name a folder of those, or a file")


def refuse_links(folder: Path, entries: Sequence[Path]) -> None:
    """Refuse a folder with symbolic links, or with entries such as pipes that block until someone writes to them.

    The folder may come from anyone, and through a link any file of this user would be read as data, or published as a
    corpus.
    """
    for number, entry in enumerate(entries, start=1):  # not its name, because files may be named after people
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            kind = "a symbolic link" if entry.is_symlink() else "neither a file nor a folder"
            raise InputError(
                f"entry {number} of {folder.name}, by name, is {kind}; replace it by the file itself, for instance "
                "with cp -RL, if you trust where it leads"
            )


def _whole_text(number: int, path: Path) -> str:
    # Errors give the number, not the name, because files may be named after people.
    with _decoded(path, f"file {number} of {path.parent.name}, by name,") as file:
        return file.read(LONGEST + 1)


def _parquet(source: str, paths: Sequence[Path]) -> Table:
    with reading(source):
        schema = pq.read_schema(paths[0])

    def batches(chosen: list[str]) -> Iterator[pa.RecordBatch]:
        for number, path in enumerate(paths, start=1):
            with pq.ParquetFile(path) as file:
                _same_columns(source, number, chosen, file.schema_arrow)
                yield from _bounded(source, path, file, chosen)

    return from_arrow(source, schema, batches)


def _bounded(source: str, path: Path, file: pq.ParquetFile, chosen: list[str]) -> Iterator[pa.RecordBatch]:
    """Read a file, unless it unpacks to far more than its size, by its metadata or while reading."""
    size, content = path.stat().st_size, file.metadata
    most = max(_SMALL_TABLE, _MOST_GROWTH * size)
    unpacked = sum(content.row_group(i).total_byte_size for i in range(content.num_row_groups))
    if unpacked > most or content.num_rows > max(_FEW_ROWS, _MOST_GROWTH * size):
        raise InputError(_growth_message(source))
    read = 0
    for packed in file.iter_batches(_ROWS_AT_ONCE, columns=chosen):
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in packed.columns
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=packed.schema.names)
        read += batch.nbytes
        if read > most:
            raise InputError(_growth_message(source))
        yield batch


def _growth_message(source: str) -> str:
    return (
        f"{source} unpacks to more than {_MOST_GROWTH} times its size, like files made to fill the memory; "
        "if this is intended, write it again without compression"
    )


def _saved_dataset(path: Path, files: Sequence[Path]) -> Table:
    """Read the Arrow files of a dataset in the order given by its state.json."""
    paths, state = list(files), path / "state.json"
    if state.exists():
        try:
            content = json.loads(state.read_bytes())
            paths = [path / Path(entry["filename"]).name for entry in content["_data_files"]]
            reordered = content.get("_indices_data_files") or content.get("_indices_files")
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise InputError(f"state.json of {path.name} is damaged; save the dataset again") from None
        if not set(paths) <= set(files):
            raise InputError(f"{path.name} cannot be read: its state.json names other files; save the dataset again")
        if reordered or not paths:
            raise InputError(f"{path.name} holds a dataset in an old or empty form; save it again with save_to_disk")
    with reading(path.name), _ipc(paths[0]) as reader:
        schema = reader.schema

    def batches(chosen: list[str]) -> Iterator[pa.RecordBatch]:
        for number, entry in enumerate(paths, start=1):
            with _ipc(entry) as reader:
                _same_columns(path.name, number, chosen, reader.schema)
                stream = not hasattr(reader, "num_record_batches")
                for batch in reader if stream else map(reader.get_batch, range(reader.num_record_batches)):
                    batch.validate(full=True)  # offsets in a damaged file may point anywhere in memory
                    yield batch

    return from_arrow(path.name, schema, batches)


@contextmanager
def _ipc(path: Path) -> Iterator[Any]:
    """Open either of Arrow's two formats, which are recognised by their first bytes."""
    # Not mapped into memory: reading beyond the end of a truncated file would end the process.
    with pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        with pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file) as reader:
            yield reader


def _same_columns(source: str, number: int, chosen: Sequence[str], schema: pa.Schema) -> None:
    if set(chosen) - set(schema.names):
        raise InputError(f"file {number} of {source} lacks a column of the first file; write all with the same columns")
