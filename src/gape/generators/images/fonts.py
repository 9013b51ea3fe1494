"""Characters drawn with real fonts: a simulator of digits and letters that needs no model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from gape.core.errors import InputError
from gape.core.types import Floats, Indices, Samples
from gape.embedders.images.png import DIGITS, Pixels, Shape, as_images, note_of
from gape.generators.images.faces import CANVAS, Faces

# How a character is drawn. Each parameter is a number from -1 to 1, and is mapped to the range given here.
_RANGES = {
    "size": (0.55, 1.35),
    "width": (0.6, 1.5),
    "turn": (-0.6, 0.6),  # radians
    "slant": (-0.7, 0.7),
    "right": (-0.3, 0.3),  # half an image is 1
    "down": (-0.3, 0.3),
    "stroke": (-0.3, 0.42),  # thinner or bolder than the font
    "sharpness": (2.0, 6.0),
    "ink": (0.9, 1.0),
}
_DEGREE = 3  # of the polynomials that bend a character
_BEND = 0.28  # how far a corner of the image can be moved, where half an image is 1
_START = 0.4  # standard deviation of the parameters of a random image
_DIGITS = 1000  # steps from 0 to 1 in which parameters are noted
_ELSEWHERE = 0.5  # probability of another font, as a share of the scale
_AT_ONCE = 512  # images drawn together


@dataclass(frozen=True)
class FontImages:
    """Draws characters in many fonts, sizes, places, slants, strokes and bends; a variation moves the parameters.

    At scale s each parameter takes a normal step with a standard deviation of s, where its range is from -1 to 1, and
    the font changes with probability s / 2. The character stays. RGB images also have colours of ink and paper; grey
    ones are light on black.
    """

    shape: Shape = DIGITS
    characters: str = "0123456789"
    faces: Faces = field(default_factory=Faces)

    def __post_init__(self) -> None:
        if not self.characters:
            raise InputError("characters must be one or more, got none; name those that the images show")

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` images: characters in turn, fonts at random."""
        chosen = np.arange(count) % len(self.characters)
        drawn = [self._face(self.characters[index], rng) for index in chosen]
        moved = np.clip(_START * rng.standard_normal((count, self._width)), -1, 1)
        if self.shape.channels == 3:
            moved[:, -6:] = rng.uniform(-1, 1, (count, 6))
        return self._images([self.characters[index] for index in chosen], np.array(drawn, dtype=np.int64), moved)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Draw one variation of each image."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 moves parameters by half of their range")
        characters, faces, parameters = self._read(samples)
        steps = scales[:, None] * rng.standard_normal(parameters.shape)
        changes = rng.random(len(samples)) < _ELSEWHERE * scales
        faces[changes] = [self._face(characters[index], rng) for index in np.flatnonzero(changes)]
        return self._images(characters, faces, np.clip(parameters + steps, -1, 1))

    @cached_property
    def _width(self) -> int:
        """The number of parameters."""
        colours = 6 if self.shape.channels == 3 else 0
        return len(_RANGES) + 2 * (_DEGREE + 1) ** 2 + colours

    @cached_property
    def _usable(self) -> dict[str, list[int]]:
        return {}

    def _face(self, character: str, rng: np.random.Generator) -> int:
        """Draw one of the faces that have the character."""
        if character not in self._usable:
            having = [face for face in range(len(self.faces)) if self.faces.draw(face, character) is not None]
            if not having:
                raise InputError(f"no font has the character {character!r}; leave it out, or use other fonts")
            self._usable[character] = having
        return int(rng.choice(self._usable[character]))

    def _images(self, characters: list[str], faces: Indices, parameters: Floats) -> Samples:
        steps = np.rint(parameters * _DIGITS).astype(np.int64)  # drawn as noted, so that a note tells all
        notes = [
            json.dumps([character, face, row], ensure_ascii=False, separators=(",", ":"))
            for character, face, row in zip(characters, faces.tolist(), steps.tolist(), strict=True)
        ]
        blocks = [
            self._draw(
                characters[start : start + _AT_ONCE],
                faces[start : start + _AT_ONCE],
                steps[start : start + _AT_ONCE] / _DIGITS,
            )
            for start in range(0, len(characters), _AT_ONCE)
        ]
        return as_images((image for block in blocks for image in block), notes)

    def _read(self, samples: Samples) -> tuple[list[str], Indices, Floats]:
        """Read the notes of images, which may come from anyone."""
        try:
            notes = [json.loads(note_of(sample)) for sample in samples]
            characters = [str(note[0]) for note in notes]
            faces = np.array([int(note[1]) for note in notes], dtype=np.int64)
            parameters = np.array([note[2] for note in notes], dtype=np.float64).reshape(len(notes), self._width)
            known = all(self.faces.draw(face, name) is not None for face, name in zip(faces, characters, strict=True))
            if not known or (faces < 0).any() or not (np.abs(parameters) <= _DIGITS).all():
                raise ValueError
        except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
            raise InputError(
                "an image was not drawn by these fonts, so it cannot be varied; use the generator that drew it"
            ) from None
        return characters, faces, parameters / _DIGITS

    def _draw(self, characters: list[str], faces: Indices, parameters: Floats) -> Pixels:
        """Draw images, (n, height, width, channels), by looking up where each of their pixels comes from."""
        names = list(_RANGES)
        value = {
            name: low + (parameters[:, i] + 1) / 2 * (high - low)
            for i, (name, (low, high)) in enumerate(_RANGES.items())
        }
        y, x = (
            axis.ravel()[None]
            for axis in np.meshgrid(*map(_places, (self.shape.height, self.shape.width)), indexing="ij")
        )
        bends = parameters[:, len(names) : len(names) + 2 * (_DEGREE + 1) ** 2].reshape(len(parameters), 2, -1) * _BEND
        bent = bends @ self._bases  # (n, 2, pixels)
        x, y = x - value["right"][:, None] + bent[:, 0], y - value["down"][:, None] + bent[:, 1]
        cos, sin = np.cos(value["turn"])[:, None], np.sin(value["turn"])[:, None]
        x, y = cos * x + sin * y, cos * y - sin * x
        x = x + value["slant"][:, None] * y
        x, y = x / (value["size"] * value["width"])[:, None], y / value["size"][:, None]
        shades = self._look_up(characters, faces, x, y)
        sharpness, level = value["sharpness"][:, None], 0.5 - value["stroke"][:, None]
        paper = np.clip(0.5 - sharpness * level, 0, 1)
        shades = (np.clip(0.5 + sharpness * (shades - level), 0, 1) - paper) / (1 - paper) * value["ink"][:, None]
        images = shades.reshape(len(shades), self.shape.height, self.shape.width, 1)
        if self.shape.channels == 3:
            paper, ink = ((parameters[:, None, None, part] + 1) / 2 for part in (slice(-6, -3), slice(-3, None)))
            images = paper * (1 - images) + ink * images
        return np.rint(255 * images).astype(np.uint8)

    @cached_property
    def _bases(self) -> Floats:
        """Products of Bernstein polynomials, ((degree + 1)^2, pixels)."""
        sides = [(_places(size) + 1) / 2 for size in (self.shape.height, self.shape.width)]
        down, right = (
            np.stack([comb(_DEGREE, k) * t**k * (1 - t) ** (_DEGREE - k) for k in range(_DEGREE + 1)]) for t in sides
        )
        bases: Floats = np.einsum("ah,bw->abhw", down, right).reshape((_DEGREE + 1) ** 2, -1)
        return bases

    def _look_up(self, characters: list[str], faces: Indices, x: Floats, y: Floats) -> Floats:
        """Interpolate the shades of characters at places from -1 to 1, (n, pixels); beyond them there is nothing."""
        keys = list(zip(faces.tolist(), characters, strict=True))
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        drawn = np.zeros((len(numbers), CANVAS + 2, CANVAS + 2))
        for key, number in numbers.items():
            drawn[number, 1:-1, 1:-1] = self.faces.draw(*key)
        own = np.array([numbers[key] for key in keys])[:, None]
        (column, across), (row, along) = (_cell(axis) for axis in (x, y))
        above = drawn[own, row, column] * (1 - across) + drawn[own, row, column + 1] * across
        below = drawn[own, row + 1, column] * (1 - across) + drawn[own, row + 1, column + 1] * across
        shades: Floats = above * (1 - along) + below * along
        return shades


def _places(size: int) -> Floats:
    """Return the centres of pixels, from -1 to 1."""
    places: Floats = (2 * np.arange(size) + 1) / size - 1
    return places


def _cell(places: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the pixel of the canvas, with a border of one, to the left of each place, and how far it is from it."""
    exact = np.clip((places + 1) / 2 * CANVAS + 0.5, 0, CANVAS + 0.999)
    whole = exact.astype(np.int64)
    return whole, exact - whole
