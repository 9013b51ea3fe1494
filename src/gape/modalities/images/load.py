"""Read private images from files or memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from gape.core.errors import InputError
from gape.core.types import as_samples
from gape.embedders.images.decoding import read_image, read_pixels, require_pillow
from gape.embedders.images.png import DIGITS, Shape, encode
from gape.modalities.images.sources import Source, open_source
from gape.modalities.records import Columns, Records


def load_images(source: object, shape: Shape | None = None, columns: Columns | None = None) -> Records:
    """Read private images, all resized to one public shape, with the label and the user of each if these are named.

    A source is a path or data in memory:

    - a folder of .png, .jpg or .jpeg files; with a label, one folder for each class; or a folder with metadata.csv or
      metadata.jsonl, whose column file_name names the files;
    - a file in the idx format of MNIST, also with .gz, with its labels beside it, or a folder that has one;
    - a .parquet file, or a folder of parquet shards or of `save_to_disk` of `datasets`, with a column of images;
    - an array of pixels, (n, height, width) or (n, height, width, 3), a table, a frame, or a list of dicts.

    The ledger identifies an image by all of its pixels before resizing, and by its user.
    """
    return next(image_blocks(source, shape or DIGITS, columns or Columns(), None))


def image_blocks(source: object, shape: Shape, columns: Columns, most: int | None) -> Iterator[Records]:
    """Read what `load_images` reads, `most` images at a time, or all of them together."""
    require_pillow()
    opened = open_source(source, columns)
    block = _decoded(opened, shape, most)
    if not len(block):
        raise InputError(f"{opened.name} holds no images; add at least one record")
    while len(block):
        yield block
        block = _decoded(opened, shape, most)


def _decoded(opened: Source, shape: Shape, most: int | None) -> Records:
    """Decode the next images of a source, each as soon as it is read."""
    texts, labels, users, contents = [], [], [], []
    for item in islice(opened.items, most):
        if isinstance(item.raw, np.ndarray):
            pixels, digest = read_pixels(item.raw, shape, item.where)
        else:
            pixels, digest = read_image(item.raw, shape, item.where)
        texts.append(encode(pixels))
        labels.append(item.label)
        users.append(item.user)
        contents.append(digest + b"\0" + (item.user or "").encode(errors="replace"))
    return Records(
        as_samples(texts),
        as_samples(labels) if opened.has_labels else None,
        as_samples(users) if opened.has_users else None,
        0,
        opened.name,
        tuple(contents),
    )
