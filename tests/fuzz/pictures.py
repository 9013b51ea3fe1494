"""Images that are fuzzed: valid PNG, JPEG, idx and parquet files, spoiled in their bytes or headers."""

import io
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from fuzz.mutations import spoil_bytes
from gape.embedders.images.png import Shape
from gape.modalities import Columns, load_images

_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16")
_SIDES = (1, 2, 28, 300)
_EXTREME = (0, 1, 255, 65_535, 8192, 2**31 - 1)


def write_images(folder: Path, rng: random.Random) -> None:
    """Write a few images, most of them spoiled, as files, as one idx file or as a table."""
    form = rng.choice(("files", "files", "files", "idx", "parquet"))
    if form == "idx":
        content = struct.pack(">HBB3I", 0, 8, 3, 3, 5, 4) + rng.randbytes(60)
        (folder / "train-images-idx3-ubyte").write_bytes(_spoiled(content, rng))
        return
    images = [_spoiled(_image(rng), rng) for _ in range(rng.choice((1, 1, 3)))]
    if form == "parquet":
        pq.write_table(
            pa.table({"image": [{"bytes": image, "path": "x"} for image in images]}), folder / "data.parquet"
        )
        return
    for number, image in enumerate(images):
        (folder / f"{number}.{rng.choice(('png', 'jpg', 'JPEG'))}").write_bytes(image)


def use_images(folder: Path, rng: random.Random) -> None:
    """Read what was written, at some size."""
    shape = Shape(rng.choice((1, 8, 28)), rng.choice((1, 8, 28)), rng.choice((1, 3)))
    load_images(folder, shape, Columns(rng.choice((None, None, "image"))))


def _image(rng: random.Random) -> bytes:
    mode, kind = rng.choice(_MODES), rng.choice(("PNG", "JPEG"))
    if kind == "JPEG" and mode not in {"L", "RGB", "CMYK"}:
        kind = "PNG"
    if kind == "PNG" and mode == "CMYK":
        mode = "RGB"
    size = rng.choice(_SIDES), rng.choice(_SIDES)
    depth = np.uint16 if mode == "I;16" else np.uint8
    noise = np.random.default_rng(rng.randrange(2**32)).integers(0, 255, (size[1], size[0], 3)).astype(depth)
    image = Image.fromarray(noise[:, :, 0].copy()) if mode == "I;16" else Image.fromarray(noise).convert(mode)
    exif = Image.Exif()
    exif[274] = rng.randrange(12)
    sink = io.BytesIO()
    image.save(sink, kind, progressive=rng.random() < 0.5, **({"exif": exif} if rng.random() < 0.5 else {}))
    return sink.getvalue()


def _spoiled(content: bytes, rng: random.Random) -> bytes:
    """Leave an image as it is, change what the header of a PNG says, or change any bytes."""
    chance = rng.random()
    if chance < 0.2:
        return content
    if chance < 0.4 and content.startswith(b"\x89PNG"):
        said = struct.pack(">II", rng.choice(_EXTREME), rng.choice(_EXTREME))
        kind = bytes([rng.choice((1, 8, 16, 99)), rng.choice((0, 2, 3, 6, 9)), 0, 0, rng.choice((0, 1))])
        header = b"IHDR" + said + kind
        return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
    return spoil_bytes(content, [_image(rng)], rng)
