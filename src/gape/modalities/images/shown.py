"""Small forms of images: thumbnails, and dots of braille for a terminal, two by four to a character."""

import numpy as np

from gape.embedders.images.png import Pixels

THUMBNAIL = 48  # most pixels of a side
_COLUMNS, _ROWS = 28, 28  # dots
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def as_dots(pixels: Pixels) -> str:
    """Return an image as lines of braille: a dot wherever it is brighter than halfway between its extremes."""
    grey = pixels.mean(axis=2)
    rows, columns = ((np.arange(dots) * size // dots) for dots, size in zip((_ROWS, _COLUMNS), grey.shape, strict=True))
    small = grey[np.ix_(rows, columns)]
    bright = small > (small.min() + small.max()) / 2
    cells = (bright.reshape(_ROWS // 4, 4, _COLUMNS // 2, 2).transpose(0, 2, 1, 3) * _DOTS).sum(axis=(2, 3))
    return "\n" + "\n".join("".join(chr(0x2800 + int(cell)) for cell in row) for row in cells)


def thumbnail(pixels: Pixels) -> Pixels:
    """Return an image of at most THUMBNAIL pixels on each side, as means of whole pixels."""
    step = -(-max(pixels.shape[:2]) // THUMBNAIL)
    height, width = (max(1, size // step) for size in pixels.shape[:2])
    tall, wide = min(step, pixels.shape[0]), min(step, pixels.shape[1])
    blocks = pixels[: height * tall, : width * wide].reshape(height, tall, width, wide, pixels.shape[2])
    small: Pixels = np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
    return small
