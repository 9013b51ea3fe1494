"""Image files for tests."""

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gape.embedders.images.png import Pixels

CANARY = "Quokka-55190"  # in every name; no message may repeat it


def picture(seed: int = 0, height: int = 12, width: int = 10, channels: int = 3) -> Pixels:
    """Return smooth noise, so that JPEG keeps it nearly as it is."""
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    pixels: Pixels = np.asarray(image)[:, :, :channels]
    return pixels


def as_file(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    """Return pixels, or an image of Pillow, as an image file."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.squeeze(pixels))
    sink = io.BytesIO()
    image.save(sink, kind, **options)
    return sink.getvalue()


def write_folder(folder: Path, count: int = 6, classes: tuple[str, ...] = ()) -> Path:
    """Write images of one size, some as JPEG, in one folder for each class if there are classes."""
    for index in range(count):
        inside = folder / classes[index % len(classes)] if classes else folder
        inside.mkdir(parents=True, exist_ok=True)
        kind, suffix = (("PNG", "png"), ("JPEG", "JPG"))[index % 2]
        (inside / f"{CANARY}-{index}.{suffix}").write_bytes(as_file(picture(index), kind))
    return folder


def write_idx(folder: Path, images: Pixels, labels: Any, name: str = "train", *, packed: bool = False) -> Path:
    """Write images, (n, height, width), and labels as MNIST has them, and return the file of images."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for what, axes, array in (("images", 3, images), ("labels", 1, np.asarray(labels, dtype=np.uint8))):
        content = struct.pack(">HBB", 0, 8, axes) + struct.pack(f">{axes}I", *array.shape) + array.tobytes()
        path = folder / f"{name}-{what}-idx{axes}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)
        written.append(path)
    return written[0]
