"""Images compared by brightness in a coarse grid."""

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import as_images


def test_a_point_is_the_mean_of_each_cell() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, 28, 28, 1), dtype=np.uint8)
    cells = pixels.reshape(5, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(5, -1) / 255
    np.testing.assert_allclose(PixelEmbedder(14).embed(as_images(pixels)), cells / 14, atol=1e-6)


@pytest.mark.parametrize("shape", [(28, 28, 1), (10, 3, 3), (31, 50, 3), (1, 1, 1)])
def test_norms_are_at_most_one_and_means_are_kept(shape: tuple[int, int, int]) -> None:
    white, black = np.full((1, *shape), 255, np.uint8), np.zeros((1, *shape), np.uint8)
    points = PixelEmbedder().embed(as_images(np.concatenate([white, black])))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), [1, 0], atol=1e-6)


def test_each_image_is_embedded_by_itself() -> None:
    samples = as_images(np.random.default_rng(0).integers(0, 256, (20, 9, 9, 3), dtype=np.uint8))
    together = PixelEmbedder(5).embed(samples)
    for index in range(len(samples)):
        np.testing.assert_array_equal(PixelEmbedder(5).embed(samples[index : index + 1])[0], together[index])


def test_a_grid_without_cells_is_refused() -> None:
    with pytest.raises(InputError, match="side must be at least 1"):
        PixelEmbedder(0)
