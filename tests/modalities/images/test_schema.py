"""The schema of images."""

from pathlib import Path

import pytest

from gape.core.errors import InputError
from gape.embedders.images.png import Shape
from gape.modalities import Images
from gape.modalities.images import ImageSchema


def test_what_is_left_out_is_as_in_mnist(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    path.write_text('width = 32\nheight = 16\ncolours = "rgb"\ncharacters = "ab a"\n')
    assert ImageSchema.read(path) == ImageSchema(Shape(32, 16, 3), "ab")
    path.write_text("")
    assert ImageSchema.read(path) == ImageSchema(Shape(28, 28, 1), "0123456789")
    assert Images(path) == Images() != Images(ImageSchema(Shape(2, 2, 1)))
    assert len({Images(path), Images()}) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("width = 0", "must be positive"),
        ("width = 1.5", "must be positive"),
        ("width = 5000\nheight = 5000", "at most 1,048,576 pixels"),
        ("colours = 'cmyk'", "must be grey or rgb"),
        ("characters = ' '", "must be a text"),
        ("prompt = 7", "prompt in .* must be a text"),
        ("depth = 3", "has 'depth'"),
        ("width", "cannot be read"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "images.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        Images(path)
