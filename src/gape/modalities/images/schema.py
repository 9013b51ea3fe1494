"""The schema of images: what is public about all of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from gape._support.values import brief
from gape.core.errors import InputError
from gape.embedders.images.png import DIGITS, MOST_PIXELS, Shape

_CHANNELS = {"grey": 1, "rgb": 3}
_LARGEST = 2**16  # bytes of the file


@dataclass(frozen=True)
class ImageSchema:
    """The size and colours of images, and the characters that the generator `fonts` draws."""

    shape: Shape = DIGITS
    characters: str = "0123456789"

    @classmethod
    def read(cls, path: str | Path) -> ImageSchema:
        """Read a TOML file with width, height, colours ("grey" or "rgb") and characters, each optional."""
        try:
            values = tomllib.loads(Path(path).read_bytes()[:_LARGEST].decode())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as a schema ({type(error).__name__}); write it as TOML") from None
        if unknown := sorted(set(values) - {"width", "height", "colours", "characters"}):
            raise InputError(
                f"{path} has {brief(unknown[0])}; a schema of images has width, height, colours, characters"
            )
        width, height = values.get("width", 28), values.get("height", 28)
        if not all(type(side) is int and side > 0 for side in (width, height)) or width * height > MOST_PIXELS:
            raise InputError(
                f"width and height in {path} must be positive, with at most {MOST_PIXELS:,} pixels together"
            )
        colours, characters = values.get("colours", "grey"), values.get("characters", cls.characters)
        if colours not in _CHANNELS:
            raise InputError(f"colours in {path} must be grey or rgb, got {brief(colours)}")
        if not isinstance(characters, str) or not characters.strip():
            raise InputError(
                f"characters in {path} must be a text with those that images show, got {brief(characters)}"
            )
        return cls(Shape(width, height, _CHANNELS[colours]), "".join(dict.fromkeys(characters.replace(" ", ""))))
