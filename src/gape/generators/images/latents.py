"""Images from a model that turns latent vectors into images, such as the generator of a GAN or the decoder of a VAE."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.errors import InputError, in_one_line
from gape.core.types import Floats, Samples
from gape.embedders.images.png import Pixels, Shape, as_images, note_of
from gape.generators.images.engines import called, load_engine
from gape.generators.images.sizing import fitted

_AT_ONCE = 16  # images drawn together
_PROBED = 16  # images by which the range of a model's output is recognised
_WIDEST = 1400  # most numbers of a latent vector, which is noted beside each image in 16 bits
_LARGEST = 8.0  # of a noted number, in standard deviations


class LatentImages:
    """A model on the CPU, in ONNX or for OpenVINO, which turns latent vectors into images.

    A random image is drawn from a normal latent vector z, a variation at scale s from

        sqrt(1 - s^2) z + s e,   e normal,

    which is again normal, and independent of z at scale 1. The model has one input of floats, (n, d) or (n, d, 1, 1),
    and one output, (n, c, h, w), (n, h, w, c) or (n, h w), from -1 to 1, from 0 to 1 or from 0 to 255. A second input
    of whole numbers, (n,), takes the label, which must then be a number.
    """

    def __init__(self, path: str | Path, shape: Shape, label: str | None = None, engine: str = "onnx") -> None:
        """Load the model with an engine, onnx or openvino, and find out what it takes and returns."""
        self.path, self.shape = Path(path), shape
        self._engine = load_engine(engine, self.path)
        self._digest = self._engine.digest[:12]
        floats = [given for given in self._engine.inputs if given.kind == "float32"]
        classes = [given for given in self._engine.inputs if given.kind in {"int64", "int32"}]
        if len(floats) != 1 or len(classes) > 1 or not _width(floats[0].shape):
            raise InputError(f"{path} must take latent vectors of one known size, and at most one label; export it so")
        self._input, self._width, self._tail = floats[0].name, _width(floats[0].shape), len(floats[0].shape) - 2
        self._classes = classes[0] if classes else None
        self.label = None if self._classes is None else _number(label, path)
        probed = self._run(np.random.default_rng(0).standard_normal((_PROBED, self._width)))
        low, high = float(probed.min()), float(probed.max())
        self._range = (-1.0, 1.0) if low < -0.01 else (0.0, 255.0) if high > 2 else (0.0, 1.0)

    def __repr__(self) -> str:
        label = "" if self.label is None else f", label={self.label}"
        return f"LatentImages({self._digest}, {self.shape}{label})"

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` images."""
        return self._images(rng.standard_normal((count, self._width)))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Move the latent vector of each image."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 draws a new image")
        latents, steps = self._read(samples), scales[:, None]
        return self._images(np.sqrt(1 - steps**2) * latents + steps * rng.standard_normal(latents.shape))

    def _images(self, latents: Floats) -> Samples:
        noted = np.clip(latents, -_LARGEST, _LARGEST).astype("<f2")  # drawn as noted
        blocks = [self._draw(noted[start : start + _AT_ONCE]) for start in range(0, len(noted), _AT_ONCE)]
        notes = [b64encode(row.tobytes()).decode() for row in noted]
        return as_images((image for block in blocks for image in block), notes)

    def _read(self, samples: Samples) -> Floats:
        """Read the latent vectors of images, which may come from anyone."""
        try:
            rows = [np.frombuffer(b64decode(note_of(sample), validate=True), "<f2") for sample in samples]
            latents: Floats = np.array(rows, dtype=np.float64).reshape(len(rows), self._width)
            if not (np.abs(latents) <= _LARGEST).all():
                raise ValueError
        except ValueError:
            raise InputError(
                "an image was not drawn by this model, so it cannot be varied; use the generator that drew it"
            ) from None
        return latents

    def _draw(self, latents: Any) -> list[Pixels]:
        low, high = self._range
        shades = np.clip((self._run(latents) - low) / (high - low), 0, 1)
        return [fitted(image, self.shape) for image in np.rint(255 * shades).astype(np.uint8)]

    def _run(self, latents: Any) -> Floats:
        """Return what the model draws, (n, height, width, channels)."""
        given = {self._input: latents.astype(np.float32).reshape(*latents.shape, *(1,) * self._tail)}
        if self._classes is not None:
            given[self._classes.name] = np.full(len(latents), self.label, dtype=self._classes.kind)
        try:
            drawn = np.asarray(called(self._engine, given), dtype=np.float64)
        except Exception as error:  # noqa: BLE001  (any error of the library)
            raise InputError(
                f"{self.path} cannot draw ({in_one_line(error)}); export it for any number of images"
            ) from None
        return _channels_last(drawn, self.path)


def _width(shape: Sequence[int | None]) -> int:
    """Return the size of a latent vector by the shape of the input; 0 if it is not one."""
    width = shape[1] if len(shape) >= 2 and all(side == 1 for side in shape[2:]) else None
    return width if width is not None and 0 < width <= _WIDEST else 0


def _number(label: str | None, path: str | Path) -> int:
    if label is None or not label.isdecimal():
        raise InputError(f"{path} draws the images of a label that is a number; name labels such as 0,1,2")
    return int(label)


def _channels_last(drawn: Floats, path: Path) -> Floats:
    if drawn.ndim == 2 and (side := round(drawn.shape[1] ** 0.5)) ** 2 == drawn.shape[1]:
        return drawn.reshape(len(drawn), side, side, 1)
    if drawn.ndim == 3:
        return drawn[..., None]
    if drawn.ndim == 4 and drawn.shape[1] in {1, 3}:
        return drawn.transpose(0, 2, 3, 1)
    if drawn.ndim == 4 and drawn.shape[3] in {1, 3}:
        return drawn
    raise InputError(f"{path} returns an array of shape {drawn.shape}, not grey or RGB images; export it so")
