"""Images by their captions: a text model writes and varies captions, and an image model draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from gape.core.errors import InputError, ServiceError
from gape.core.protocols import Generator
from gape.core.types import Floats, Samples, as_samples
from gape.embedders.images.png import as_url, note_of
from gape.generators.asking import LEAST_SHARE, filled

_MARK = "caption:"  # begins the note of an image that has one
_LONGEST = 3_000  # characters of a caption, which must fit into a note


@runtime_checkable
class Painter(Protocol):
    """An image model that follows words."""

    def draw(self, captions: Sequence[str], rng: np.random.Generator) -> list[str | None]:
        """Draw one image for each caption, without a note; None if the model does not deliver."""
        ...


@dataclass(frozen=True)
class CaptionedImages:
    """Each image is drawn from a caption, which it keeps. The captions evolve, and the images are voted on.

    A random image is drawn from a random caption, a variation from a variation of its caption, at the scale of the
    writer. If the painter does not deliver a variation, the image is used unchanged.
    """

    writer: Generator
    painter: Painter

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Write `count` captions and draw them; an image that is missing is replaced by repeating another."""
        drawn = self._drawn(self.writer.random(count, rng), rng)
        usable = sum(image is not None for image in drawn)
        if usable < LEAST_SHARE * count:
            raise ServiceError(
                f"{usable} of {count} captions were drawn, which is less than {LEAST_SHARE:.0%}; try one by hand, or "
                "use another painter"
            )
        return filled(drawn, rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Vary the caption of each image and draw it."""
        captions = [caption_of(sample) for sample in samples]
        if not all(captions):
            raise InputError("an image has no caption, so it cannot be varied; use the generator that drew it")
        drawn = self._drawn(self.writer.vary(as_samples(captions), scales, rng), rng)
        return as_samples([sample if image is None else image for sample, image in zip(samples, drawn, strict=True)])

    def _drawn(self, captions: Samples, rng: np.random.Generator) -> list[str | None]:
        short = [" ".join(str(caption).replace("\0", " ").split())[:_LONGEST] for caption in captions]
        images = self.painter.draw(short, rng)
        return [
            None if image is None else f"{as_url(image)}#{_MARK}{caption}"
            for image, caption in zip(images, short, strict=True)
        ]


def caption_of(sample: str) -> str:
    """Return the caption that an image was drawn from; empty if there is none."""
    note = note_of(sample)
    return note.removeprefix(_MARK) if note.startswith(_MARK) else ""
