"""An image as a text, the form in which a run keeps it: a `data:` URL of a PNG file.

Behind a `#` may follow a note, with which a generator finds its way back to how it drew the image. Browsers ignore it.
Only PNG files as written here are read: 8 bits, grey or RGB, no filters. Reading is therefore bounded by the size in
the header, and equal pixels have equal texts.
"""

import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gape.core.errors import InputError
from gape.core.types import Samples, as_samples

Pixels: TypeAlias = NDArray[np.uint8]  # (height, width, channels), with 1 channel for grey and 3 for RGB


class Shape(NamedTuple):
    """The size of all images of a run, which is public. One channel is grey, three are RGB."""

    width: int = 28
    height: int = 28
    channels: int = 1

    def __str__(self) -> str:
        return f"{self.width} x {self.height}, {'grey' if self.channels == 1 else 'RGB'}"


DIGITS = Shape()  # as those of MNIST
MOST_PIXELS = 2**20  # of an image in a run: 1024 x 1024

_PREFIX = "data:image/png;base64,"
_FORM = re.compile(re.escape(_PREFIX) + r"[A-Za-z0-9+/]+={0,2}(#[^\0]{0,4000})?", re.DOTALL)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = {1: 0, 3: 2}  # channels: colour type of PNG
_HEADER = struct.Struct(">II5B")


def encode(pixels: Pixels, note: str = "") -> str:
    """Return an image, (height, width, channels), as a text."""
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # each row begins with its filter, 0 for none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = _HEADER.pack(width, height, 8, _COLOURS[channels], 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)), _chunk(b"IEND", b""))
    return _PREFIX + b64encode(b"".join((_SIGNATURE, *chunks))).decode() + (f"#{note}" if note else "")


def decode(sample: str) -> Pixels:
    """Return the pixels of an image that `encode` wrote, (height, width, channels)."""
    try:
        content = as_png(sample)
        width, height, *kind = _HEADER.unpack(content[16:29])
        channels = {colour: channels for channels, colour in _COLOURS.items()}[kind[1]]
        size = height * (1 + width * channels)
        (length,) = struct.unpack(">I", content[33:37])
        if not 0 < width * height <= MOST_PIXELS or kind != [8, _COLOURS[channels], 0, 0, 0]:
            raise ValueError("header")
        rows = zlib.decompressobj().decompress(content[41 : 41 + length], size)
        lines = np.frombuffer(rows, dtype=np.uint8).reshape(height, 1 + width * channels)
        if lines[:, 0].any():
            raise ValueError("filter")
    except (ValueError, LookupError, struct.error, zlib.error):
        raise InputError("a sample is not an image of a run; restore the run from a copy") from None
    return lines[:, 1:].reshape(height, width, channels)


def stack(samples: Iterable[str]) -> Pixels:
    """Return the pixels of images of one size, (n, height, width, channels)."""
    try:
        return np.stack([decode(sample) for sample in samples])
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("images must have one size; resize them to that of the schema") from None


def as_images(pixels: Iterable[Pixels], notes: Iterable[str] | None = None) -> Samples:
    """Return images, (height, width, channels) each, as samples."""
    if notes is None:
        return as_samples([encode(image) for image in pixels])
    return as_samples([encode(image, note) for image, note in zip(pixels, notes, strict=True)])


def is_image(sample: str) -> bool:
    """Whether a text has the form of an image."""
    return _FORM.fullmatch(sample) is not None


def as_url(sample: str) -> str:
    """Return the image without its note."""
    if not is_image(sample):
        raise InputError("a sample is not an image of a run; restore the run from a copy")
    return sample.partition("#")[0]


def as_png(sample: str) -> bytes:
    """Return the image as a PNG file."""
    return b64decode(as_url(sample)[len(_PREFIX) :])


def note_of(sample: str) -> str:
    """Return what the generator has noted of an image; empty if nothing."""
    return sample.partition("#")[2]


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
