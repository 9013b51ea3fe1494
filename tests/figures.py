"""Looking at figures that the code has drawn."""

from pathlib import Path

import numpy as np


def is_a_drawing(path: Path) -> bool:
    """Whether a file is a PNG with more than a few colours on it."""
    from matplotlib.image import imread  # noqa: PLC0415

    colours = np.unique(np.round(255 * imread(path)).astype(np.uint8).view(np.uint32))
    return path.read_bytes().startswith(b"\x89PNG") and len(colours) > 50
