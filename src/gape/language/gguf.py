"""The header of a GGUF file: what a model says about itself, and where its tensors are.

The file may come from anyone. Sizes are checked against the file before they are used, and nothing in it is executed.
"""

import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gape.core.errors import InputError

Buffer: TypeAlias = bytes | mmap.mmap

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_COUNT = 8  # where the number of tensors is
_ALIGNMENT = 32
_MOST_DIMENSIONS = 8
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # as in struct
_MOST_ENTRIES = 2**16
_LONGEST_ARRAY = 2**24  # no vocabulary has more tokens
_LONGEST_TEXT = 2**20
_UNREADABLE = (struct.error, ValueError, LookupError)


@dataclass(frozen=True)
class Header:
    """The metadata of a model."""

    architecture: str
    name: str
    chat_template: str | None  # None for a base model, which only continues a text
    first_token: str  # starts every text
    last_token: str  # ends an answer
    adds_first_token: bool  # whether the engine adds the first token by itself
    tokenizer: str = ""  # its kind


@dataclass(frozen=True)
class Tensor:
    """A tensor in the file: its shape, the number of its format, and its place in the data of all tensors."""

    name: str
    shape: tuple[int, ...]  # the fastest dimension first
    kind: int
    offset: int


@dataclass(frozen=True)
class Layout:
    """The parts of a file: metadata in the first `entries` bytes, then the tensors, whose data starts at `data`."""

    entries: int
    tensors: tuple[Tensor, ...]
    data: int
    alignment: int


@contextmanager
def mapped(file: Path) -> Iterator[Buffer]:
    """Map a file into memory for reading."""
    with file.open("rb") as content:
        try:
            view: Buffer = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            view = b""
        try:
            yield view
        finally:
            if isinstance(view, mmap.mmap):
                view.close()


def read_header(file: Path) -> Header:
    """Read the metadata of the model in a GGUF file."""
    with mapped(file) as content, _readable(file):
        entries = _entries(_Cursor(content))
    return Header(
        architecture=_text(entries, "general.architecture"),
        name=_text(entries, "general.name"),
        chat_template=_text(entries, "tokenizer.chat_template") or None,
        first_token=_token(entries, "bos"),
        last_token=_token(entries, "eos"),
        # Without this entry, engines add it for tokenizers of the SentencePiece kind.
        adds_first_token=bool(
            entries.get("tokenizer.ggml.add_bos_token", entries.get("tokenizer.ggml.model") == "llama")
        ),
        tokenizer=_text(entries, "tokenizer.ggml.model"),
    )


def read_layout(file: Path) -> Layout:
    """Find the tensors of the model in a GGUF file."""
    with mapped(file) as content, _readable(file):
        cursor = _Cursor(content)
        alignment = _entries(cursor).get("general.alignment", _ALIGNMENT)
        end = cursor.place
        (count,) = struct.unpack_from("<Q", content, _COUNT)
        if count > _MOST_ENTRIES or not isinstance(alignment, int) or alignment < 1:
            raise ValueError
        tensors = tuple(_tensor(cursor) for _ in range(count))
        return Layout(end, tensors, cursor.place + -cursor.place % alignment, alignment)


def write_tensors(layout: Layout) -> bytes:
    """Return the bytes between metadata and data, which describe the tensors, with the padding before the data."""
    described = b""
    for tensor in layout.tensors:
        name, dimensions = tensor.name.encode(), len(tensor.shape)
        described += struct.pack(f"<Q{len(name)}sI", len(name), name, dimensions)
        described += struct.pack(f"<{dimensions}QIQ", *tensor.shape, tensor.kind, tensor.offset)
    return described + bytes(-(layout.entries + len(described)) % layout.alignment)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        raise InputError(
            f"{file} is not a complete GGUF file ({type(error).__name__}); download it again, or name another"
        ) from None


@dataclass
class _Cursor:
    """A position in the file."""

    content: Buffer
    place: int = 0

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self.content, self.place)
        self.place += struct.calcsize(f"<{code}")
        return value

    def text(self, longest: int = _LONGEST_TEXT) -> str:
        length = self.number("Q")
        if length > min(longest, len(self.content) - self.place):
            raise ValueError
        self.place += length
        return self.content[self.place - length : self.place].decode(errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(_NUMBERS.get(kind, ""))
        inner, length = self.number("I"), self.number("Q")
        if length > _LONGEST_ARRAY or inner == _ARRAY:
            raise ValueError
        if inner == _STRING:
            return [self.text() for _ in range(length)]
        self.place += length * struct.calcsize(f"<{_NUMBERS[inner]}")  # scores and types of tokens are not needed
        return None


def _entries(cursor: _Cursor) -> Mapping[str, Any]:
    content, cursor.place = cursor.content, len(_MAGIC)
    if content[: len(_MAGIC)] != _MAGIC or cursor.number("I") not in _VERSIONS:
        raise ValueError
    cursor.place = _COUNT + 8  # after the number of tensors
    count = cursor.number("Q")
    if count > _MOST_ENTRIES:
        raise ValueError
    entries: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.text()
        entries[key] = cursor.value(cursor.number("I"))
    if cursor.place > len(content):
        raise ValueError
    return entries


def _tensor(cursor: _Cursor) -> Tensor:
    name, dimensions = cursor.text(), cursor.number("I")
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    return Tensor(name, shape, cursor.number("I"), cursor.number("Q"))


def _text(entries: Mapping[str, Any], key: str) -> str:
    value = entries.get(key, "")
    return value if isinstance(value, str) else ""


def _token(entries: Mapping[str, Any], which: str) -> str:
    number, tokens = entries.get(f"tokenizer.ggml.{which}_token_id"), entries.get("tokenizer.ggml.tokens")
    if not isinstance(number, int) or not isinstance(tokens, list) or not 0 <= number < len(tokens):
        return ""
    return str(tokens[number])
