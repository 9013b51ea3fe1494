"""Images compared by their pixels, in a coarse grid."""

from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Points, Samples
from gape.embedders.images.png import stack

_AT_ONCE = 4096  # images in float64


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
        """Return one float32 row per image, (n, cells x channels)."""
        parts = [self._embed_block(samples[start : start + _AT_ONCE]) for start in range(0, len(samples), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty((0, self.side**2), dtype=np.float32)

    def _embed_block(self, samples: Samples) -> Points:
        pixels = stack(samples) / 255.0  # (n, h, w, c)
        rows, columns = (_means(size, min(size, self.side)) for size in pixels.shape[1:3])
        cells = np.einsum("ah,nhwc,bw->nabc", rows, pixels, columns, optimize=True).reshape(len(pixels), -1)
        points: Points = (cells / np.sqrt(cells.shape[1])).astype(np.float32)
        return points


def _means(size: int, cells: int) -> Floats:
    """Return the matrix, (cells, size), that averages `size` pixels over equal cells, pixels at borders in part."""
    edges = np.linspace(0.0, size, cells + 1)
    pixels = np.arange(size)
    shared = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    matrix: Floats = np.clip(shared, 0.0, None) * cells / size
    return matrix
