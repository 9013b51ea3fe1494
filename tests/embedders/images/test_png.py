"""Images as texts: what is encoded is decoded, by this package and by Pillow, and nothing else is."""

import io
import zlib
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gape.core.errors import InputError
from gape.embedders.images.png import Pixels, as_images, as_png, as_url, decode, encode, is_image, note_of, stack


def picture(height: int, width: int, channels: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3]), st.text(st.characters(exclude_characters="\0")))
def test_what_is_encoded_is_decoded(height: int, width: int, channels: int, note: str) -> None:
    pixels = picture(height, width, channels)
    text = encode(pixels, note)
    np.testing.assert_array_equal(decode(text), pixels)
    assert note_of(text) == note
    assert is_image(text)
    assert as_url(text) == encode(pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_others_read_the_same_pixels(channels: int) -> None:
    pixels = picture(9, 5, channels)
    with Image.open(io.BytesIO(as_png(encode(pixels, "a note")))) as image:
        assert image.format == "PNG"
        np.testing.assert_array_equal(np.asarray(image).reshape(pixels.shape), pixels)


def test_images_of_several_sizes_are_not_stacked() -> None:
    samples = as_images([picture(4, 4, 1), picture(5, 4, 1)])
    with pytest.raises(InputError, match="must have one size"):
        stack(samples)


def bomb() -> str:
    """A PNG file whose rows are far longer than its header says."""
    content = bytearray(as_png(encode(np.zeros((8, 8, 1), dtype=np.uint8))))
    rows = zlib.compress(b"\0" * 10**8)
    content[33:] = len(rows).to_bytes(4, "big") + b"IDAT" + rows
    return "data:image/png;base64," + b64encode(bytes(content)).decode()


def spoiled(place: int, value: int) -> str:
    content = bytearray(as_png(encode(picture(8, 8, 1))))
    content[place] = value
    return "data:image/png;base64," + b64encode(bytes(content)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a text",
        "data:image/png;base64,",
        "data:image/png;base64,!!!!",
        "data:text/html;base64,AAAA",
        'data:image/png;base64,AAAA" onerror="alert(1)',
        "data:image/png;base64,AAAA",
        spoiled(17, 255),  # width
        spoiled(24, 16),  # bits
        spoiled(25, 3),  # palette
        spoiled(41, 0),  # compression
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not an image of a run"):
        decode(text)


def test_a_bomb_is_read_no_further_than_its_header_says() -> None:
    np.testing.assert_array_equal(decode(bomb()), np.zeros((8, 8, 1)))
