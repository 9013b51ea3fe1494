"""Decode private images with bounds, whatever is in the file. No message contains more than an error's type."""

from __future__ import annotations

import hashlib
import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gape.core.errors import InputError
from gape.embedders.images.png import Pixels, Shape

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 2**26  # of an image file
MOST_PIXELS = 2**25  # of a private image: 8192 x 4096
_FORMATS = ("PNG", "JPEG")


def require_pillow() -> None:
    """Refuse to start without Pillow."""
    try:
        import PIL.Image  # noqa: F401, PLC0415  (an optional extra)
    except ImportError:
        raise InputError("images are read with Pillow, which is not installed; pip install 'gape[images]'") from None


def read_image(content: bytes, shape: Shape, where: str) -> tuple[Pixels, bytes]:
    """Decode a PNG or JPEG file, and return its pixels in the public shape with a digest of the whole image.

    Rotation by EXIF is applied, transparent pixels become white, and 16 bits become 8. An image of another
    proportion is cut at its longer sides.
    """
    from PIL import Image, ImageOps  # noqa: PLC0415  (an optional extra)

    if len(content) > MOST_BYTES:
        raise InputError(f"{where} has more than {MOST_BYTES // 2**20} MB; make it smaller")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they may quote content
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Image.DecompressionBombError
                image.load()
                return _as_public(_as_rgb(ImageOps.exif_transpose(image)), shape)
    except Image.DecompressionBombError:  # also of Pillow itself, for even larger ones
        raise InputError(f"{where} has more than {MOST_PIXELS:,} pixels; make it smaller") from None
    except Exception as error:  # noqa: BLE001  (a damaged file can raise nearly anything)
        raise InputError(
            f"{where} is not a PNG or JPEG image that can be read ({type(error).__name__}); replace or remove it"
        ) from None


def read_pixels(pixels: np.ndarray[Any, Any], shape: Shape, where: str) -> tuple[Pixels, bytes]:
    """Return an array of bytes, (height, width) or (height, width, channels), like an image file."""
    from PIL import Image  # noqa: PLC0415  (an optional extra)

    if pixels.dtype != np.uint8 or pixels.ndim not in {2, 3} or pixels.shape[2:] not in {(), (1,), (3,)}:
        raise InputError(f"{where} must hold bytes of grey or RGB pixels, got {pixels.dtype} {pixels.shape}")
    if not 0 < pixels.shape[0] * pixels.shape[1] <= MOST_PIXELS:
        raise InputError(f"{where} must have 1 to {MOST_PIXELS:,} pixels; make it smaller")
    plain = pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels
    return _as_public(Image.fromarray(plain).convert("RGB"), shape)


def _as_rgb(image: Image) -> Image:
    from PIL import Image as Images  # noqa: PLC0415  (an optional extra)

    if image.mode.startswith("I"):  # 16 bits
        return Images.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) // 257).astype(np.uint8)).convert(
            "RGB"
        )
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        opaque = image.convert("RGBA")
        return Images.alpha_composite(Images.new("RGBA", opaque.size, "white"), opaque).convert("RGB")
    return image.convert("RGB")


def _as_public(image: Image, shape: Shape) -> tuple[Pixels, bytes]:
    from PIL import Image as Images  # noqa: PLC0415  (an optional extra)
    from PIL import ImageOps  # noqa: PLC0415  (an optional extra)

    digest = hashlib.blake2b(f"{image.size}".encode(), digest_size=32)
    digest.update(image.tobytes())
    if image.size != (shape.width, shape.height):
        image = ImageOps.fit(image, (shape.width, shape.height), Images.Resampling.BOX)
    pixels = np.asarray(image.convert("L" if shape.channels == 1 else "RGB"), dtype=np.uint8)
    return pixels.reshape(shape.height, shape.width, shape.channels), digest.digest()
