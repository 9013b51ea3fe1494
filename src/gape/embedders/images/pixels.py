"""Images compared by their pixels, in a coarse grid."""

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Points, Samples
from gape.embedders.images.png import decode


@dataclass(frozen=True)
class PixelEmbedder:
    """Embeds images by the mean brightness in the cells of a grid, per channel: norms are at most 1.

    The grid has at most `side` cells in each direction. The distance of two images is the root mean squared difference
    of their cells, so it suits small, centred images such as digits, and not photographs.
    """

    side: int = 14

    def __post_init__(self) -> None:
        if self.side < 1:
            raise InputError(f"side must be at least 1, got {self.side}; 14 is usual")

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per image, (n, cells x channels). Each is computed by itself, in little memory."""
        if not len(samples):
            return np.empty((0, self.side**2), dtype=np.float32)
        shape = decode(samples[0]).shape
        rows, columns = (_means(size, min(size, self.side)) for size in shape[:2])
        points: Points = np.empty((len(samples), len(rows) * len(columns) * shape[2]), dtype=np.float32)
        for index, sample in enumerate(samples):
            image = decode(sample)  # (h, w, c)
            if image.shape != shape:
                raise InputError("images must have one size; resize them to that of the schema")
            cells = columns @ np.tensordot(rows, image / 255.0, axes=1)  # (rows, columns, c)
            points[index] = cells.ravel() / np.sqrt(cells.size)
        return points


def _means(size: int, cells: int) -> Floats:
    """Return the matrix, (cells, size), that averages `size` pixels over equal cells, pixels at borders in part."""
    edges = np.linspace(0.0, size, cells + 1)
    pixels = np.arange(size)
    shared = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    matrix: Floats = np.clip(shared, 0.0, None) * cells / size
    return matrix
