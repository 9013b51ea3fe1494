"""The schema of images: what is public about all of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from gape._support.values import brief
from gape.core.errors import InputError
from gape.embedders.images.png import DIGITS, MOST_PIXELS, Shape

_KNOWN = ("width", "height", "colours", "characters", "prompt", "options")
_CHANNELS = {"grey": 1, "rgb": 3}
_LARGEST = 2**16  # bytes of the file


@dataclass(frozen=True)
class ImageSchema:
    """The size and colours of images, and what generators draw: characters for `fonts`, a prompt for models.

    `options` are further fields of requests to `openai-images`, by name.
    """

    shape: Shape = DIGITS
    characters: str = "0123456789"
    prompt: str = "a photo"
    options: tuple[tuple[str, str | int | float | bool], ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> ImageSchema:
        """Read a TOML file with width, height, colours ("grey" or "rgb"), characters, prompt and options."""
        try:
            values = tomllib.loads(Path(path).read_bytes()[:_LARGEST].decode())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as a schema ({type(error).__name__}); write it as TOML") from None
        if unknown := sorted(set(values) - set(_KNOWN)):
            raise InputError(f"{path} has {brief(unknown[0])}; a schema of images has {', '.join(_KNOWN)}")
        width, height = values.get("width", 28), values.get("height", 28)
        if not all(type(side) is int and side > 0 for side in (width, height)) or width * height > MOST_PIXELS:
            raise InputError(
                f"width and height in {path} must be positive, with at most {MOST_PIXELS:,} pixels together"
            )
        colours = values.get("colours", "grey")
        if colours not in _CHANNELS:
            raise InputError(f"colours in {path} must be grey or rgb, got {brief(colours)}")
        characters, prompt = values.get("characters", cls.characters), values.get("prompt", cls.prompt)
        for name, text in (("characters", characters), ("prompt", prompt)):
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{name} in {path} must be a text that is not blank, got {brief(text)}")
        options = values.get("options", {})
        if not isinstance(options, dict) or not all(isinstance(value, str | int | float) for value in options.values()):
            raise InputError(f'options in {path} must be a table of texts and numbers; quality = "low" is one')
        distinct = "".join(dict.fromkeys(characters.replace(" ", "")))
        return cls(Shape(width, height, _CHANNELS[colours]), distinct, prompt, tuple(sorted(options.items())))
