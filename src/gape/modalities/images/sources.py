"""Private images from folders, idx files, tables and memory, one at a time. Messages number files, and name none."""

from __future__ import annotations

import gzip
import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from gape.core.errors import InputError
from gape.embedders.images.decoding import MOST_BYTES, MOST_PIXELS
from gape.modalities.files import refuse_links
from gape.modalities.records import Columns, open_table, record_name, record_user
from gape.modalities.tables import Table, missing, reading, shown

Raw: TypeAlias = bytes | np.ndarray[Any, Any]  # an image file, or pixels

_SUFFIXES = {".png", ".jpg", ".jpeg"}
_OTHERS = {".avif", ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".tif", ".tiff", ".webp"}
_METADATA = ("metadata.csv", "metadata.jsonl")
_MOST_FILES = 10_000_000
_MAGIC = struct.Struct(">HBB")


@dataclass(frozen=True)
class Item:
    """One private image as it is found. The repr would show it, so it is never printed."""

    raw: Raw
    label: str | None
    user: str | None
    where: str


@dataclass(frozen=True)
class Source:
    """Private images that are read one by one."""

    name: str
    items: Iterator[Item]
    has_labels: bool
    has_users: bool


def open_source(source: object, columns: Columns) -> Source:
    """Open images from any supported source: see `gape.modalities.images.load_images`."""
    if isinstance(source, np.ndarray) and source.ndim in {3, 4}:
        _refuse_columns("the array", columns)
        pixels = (Item(image, None, None, f"image {i} of the array") for i, image in enumerate(source, start=1))
        return Source("the array", pixels, has_labels=False, has_users=False)
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and path.is_dir():
        return _folder(path if path.name else path.resolve(), columns)
    if path is not None and "idx" in path.name:
        return _idx(path, columns)
    if path is not None and path.is_file() and path.suffix.lower() in _SUFFIXES | _OTHERS:
        raise InputError("the data is a single image; name the folder of the images")
    return _table(open_table(source), columns)


def _folder(path: Path, columns: Columns) -> Source:
    with reading(path.name):
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    refuse_links(path, entries)
    idx = [entry for entry in entries if "-images-idx" in entry.name or "-images.idx" in entry.name]
    if len(idx) == 1:
        return _idx(idx[0], columns)
    if len(idx) > 1:
        raise InputError(f"{path.name} has {len(idx)} files of images; name one of them")
    if any(entry.suffix in {".parquet", ".arrow"} for entry in entries) or (path / "data").is_dir():
        return _table(open_table(path), columns)
    metadata = [entry for entry in entries if entry.name in _METADATA]
    if metadata:
        return _described(path, metadata[0], columns)
    _refuse_columns(path.name, Columns(None, None, columns.user))
    if columns.text is not None:
        raise InputError(f"{path.name} is a folder of image files, without a column {columns.text!r}; leave text out")
    classes = [entry for entry in entries if entry.is_dir()]
    if columns.label is not None and (not classes or any(_is_image(entry) for entry in entries)):
        raise InputError(
            f"{path.name} must have one folder of images for each label, and no images beside them, because a label "
            "was asked for; sort the images, or leave label out"
        )
    return Source(path.name, _walk(path, columns.label), has_labels=columns.label is not None, has_users=False)


def _walk(path: Path, label: str | None) -> Iterator[Item]:
    """Yield the images of a folder and of the folders in it, by name."""
    number = 0
    for parent, folders, names in os.walk(path, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = sorted(Path(parent) / name for name in names if not name.startswith("."))
        refuse_links(path, [*files, *(Path(parent) / name for name in folders)])
        if others := {file.suffix.lower() for file in files} & _OTHERS:
            raise InputError(
                f"{path.name} has {min(others)} files, which are not read; convert them to .png, or remove them"
            )
        for file in filter(_is_image, files):
            number += 1
            if number > _MOST_FILES:
                raise InputError(f"{path.name} has more than {_MOST_FILES:,} images; use fewer")
            where = f"image {number} of {path.name}, by name,"
            kind = None if label is None else record_name(file.relative_to(path).parts[0], where, label)
            yield Item(_bytes(file, where), kind, None, where)
    if not number:
        raise InputError(f"{path.name} has no .png, .jpg or .jpeg files; name a folder of those, or a table of images")


def _unreadable(error: OSError) -> None:
    raise InputError(f"a folder of images cannot be read ({type(error).__name__}); check its permissions") from None


def _described(path: Path, metadata: Path, columns: Columns) -> Source:
    """Read a folder with a table of its files, labels and users, as `datasets` does."""
    table = open_table(metadata)
    wanted = ["file_name", *(name for name in (columns.label, columns.user) if name is not None)]
    if absent := [name for name in wanted if name not in table.names]:
        raise InputError(f"{metadata.name} has no column {absent[0]!r}; name one of {shown(table.names)}")
    root = path.resolve()

    def items() -> Iterator[Item]:
        for number, (name, *cells) in enumerate(table.rows(wanted), start=1):
            where = f"row {number} of {metadata.name}"
            file = path / str(name)
            if root not in file.resolve().parents or file.is_symlink() or not file.is_file():
                raise InputError(f"{where} names a file that is not in the folder; correct or remove it")
            yield Item(_bytes(file, where), *_names(cells, columns, where), where)

    return Source(path.name, items(), columns.label is not None, columns.user is not None)


def _table(table: Table, columns: Columns) -> Source:
    chosen = [_image_column(table, columns), *(name for name in (columns.label, columns.user) if name is not None)]
    for name in chosen[1:] if table.names else ():
        if list(table.names).count(name) != 1:
            raise InputError(f"{table.source} has no column {name!r} of its own; name one of {shown(table.names)}")

    def items() -> Iterator[Item]:
        for number, (cell, *cells) in enumerate(table.rows(chosen), start=1):
            where = f"{table.row} {number} of {table.source}"
            yield Item(_content(cell, where), *_names(cells, columns, where), where)

    return Source(table.source, items(), columns.label is not None, columns.user is not None)


def _image_column(table: Table, columns: Columns) -> str:
    """Return the column of images: the one that is named, or the only one whose first cell is an image."""
    if not table.names:
        _refuse_columns(table.source, columns)
        return ""
    if columns.text is None:
        first = next(table.rows(list(table.names)), ())
        holding = [
            name
            for name, cell in zip(table.names, first, strict=False)
            if isinstance(cell, bytes | Mapping | np.ndarray)
        ]
        if len(holding) == 1:
            return holding[0]
    elif list(table.names).count(columns.text) == 1:
        return columns.text
    raise InputError(f"{table.source} has no clear column of images; name one of {shown(table.names)} as text (--text)")


def _content(cell: Any, where: str) -> Raw:
    """Return the image in a cell: bytes, pixels, or the struct of Hugging Face's datasets."""
    if isinstance(cell, Mapping):
        if not isinstance(cell.get("bytes"), bytes):
            raise InputError(f"{where} names a file instead of holding an image, and is not followed; embed the images")
        return bytes(cell["bytes"])
    if isinstance(cell, bytes | np.ndarray):
        return cell
    if hasattr(cell, "getbands") and hasattr(cell, "convert"):  # an image of Pillow
        pixels: Raw = np.asarray(cell.convert("RGB"))
        return pixels
    kind = "nothing" if missing(cell) else type(cell).__name__
    raise InputError(f"{where} holds {kind}, not an image; remove the row or name another column")


def _names(cells: list[Any], columns: Columns, where: str) -> tuple[str | None, str | None]:
    rest = iter(cells)
    label = None if columns.label is None else record_name(next(rest), where, columns.label)
    user = None if columns.user is None else record_user(next(rest), where, columns.user)
    return label, user


def _idx(path: Path, columns: Columns) -> Source:
    """Read images in the idx format of MNIST, with the labels in the file beside it."""
    _refuse_columns(path.name, Columns(None, None, columns.user))
    labels = None
    if columns.label is not None:
        beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1"))
        if beside == path or not beside.is_file():
            raise InputError(f"{path.name} has no file of labels beside it; put it there, or leave label out")
        with _open_idx(beside) as file:
            labels = _read_idx(file, beside.name, (1,))

    def items() -> Iterator[Item]:
        with reading(path.name), _open_idx(path) as file:
            shape = _idx_shape(file, path.name, (3, 4))
            if labels is not None and len(labels) != shape[0]:
                raise InputError(
                    f"{path.name} has {shape[0]} images, and its labels are {len(labels)}; use files of one set"
                )
            size = math.prod(shape[1:])
            if not 0 < size <= 3 * MOST_PIXELS:
                raise InputError(f"{path.name} has images of {size} bytes; use images of 1 to {MOST_PIXELS:,} pixels")
            for number in range(shape[0]):
                content = file.read(size)
                if len(content) < size:
                    raise InputError(f"{path.name} ends after {number} of {shape[0]} images; copy it again")
                pixels = np.frombuffer(content, dtype=np.uint8).reshape(shape[1:])
                yield Item(
                    pixels, None if labels is None else str(labels[number]), None, f"image {number + 1} of {path.name}"
                )

    return Source(path.name, items(), has_labels=labels is not None, has_users=False)


def _open_idx(path: Path) -> BinaryIO:
    if path.is_symlink() or not path.is_file():
        raise InputError(f"{path.name} is not a file; name the file of images")
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _idx_shape(file: BinaryIO, name: str, allowed: tuple[int, ...]) -> list[int]:
    try:
        zero, kind, axes = _MAGIC.unpack(file.read(4))
        shape = list(struct.unpack(f">{axes}I", file.read(4 * axes)))
    except struct.error:
        raise InputError(f"{name} is too short for an idx file; copy it again") from None
    if zero or kind != 8 or axes not in allowed:
        raise InputError(f"{name} is not an idx file of bytes with {allowed[0]} axes; convert it")
    return shape


def _read_idx(file: BinaryIO, name: str, allowed: tuple[int, ...]) -> np.ndarray[Any, Any]:
    with reading(name):
        (count,) = _idx_shape(file, name, allowed)
        content = file.read(min(count, 2**30) + 1)
    if len(content) != count:
        raise InputError(f"{name} must hold {count} labels and does not; copy it again")
    return np.frombuffer(content, dtype=np.uint8)


def _bytes(path: Path, where: str) -> bytes:
    with reading(where), path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES


def _refuse_columns(name: str, columns: Columns) -> None:
    for given in (columns.text, columns.label, columns.user):
        if given is not None:
            raise InputError(f"{name} has no columns, got {given!r}; leave out text, label and user")
