"""What models draw, in the public shape of a run."""

import numpy as np

from gape.embedders.images.png import Pixels, Shape


def fitted(image: Pixels, shape: Shape) -> Pixels:
    """Return an image, (h, w, 1) or (h, w, 3), cut to the proportion of the shape and resized to it."""
    from PIL import Image, ImageOps  # noqa: PLC0415  (an optional extra)

    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    picture = ImageOps.fit(picture, (shape.width, shape.height), Image.Resampling.BOX)
    pixels: Pixels = np.asarray(picture.convert("L" if shape.channels == 1 else "RGB"), dtype=np.uint8)
    return pixels.reshape(shape.height, shape.width, shape.channels)
