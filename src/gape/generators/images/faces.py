"""The typefaces of the generator `fonts`: open ones from packages, or those of a folder."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats
from gape.language.weights import FONTS, fetch

CANVAS = 64  # side of a drawn character
_HEIGHT = 0.62  # of a capital letter, as a share of the canvas
_BLUR = 1.2  # standard deviation in pixels of the canvas
_SUFFIXES = {".ttf", ".otf"}
_LARGEST = 2**25  # bytes of a font file
_MOST = 1000  # font files in a folder
_ABSENT = "\U000fffff"  # which no font has, so that a font draws its sign for missing characters


class Faces:
    """Typefaces by number. A character is drawn once in each and kept. Without a folder, open fonts are fetched."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """Find the font files; they are opened when they are needed."""
        self._folder = None if folder is None else Path(folder)
        self._drawn: dict[tuple[int, str], Floats | None] = {}

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in self._files))
        return f"Faces({len(self)}, {digest.hexdigest()[:12]})"

    def draw(self, face: int, character: str) -> Floats | None:
        """Return the character as shades from 0 to 1, (CANVAS, CANVAS), in the middle; None if the face lacks it."""
        key = face, character
        if key not in self._drawn:
            self._drawn[key] = self._draw(face, character)
        return self._drawn[key]

    @cached_property
    def _files(self) -> list[bytes]:
        files = list(_from_packages() if self._folder is None else _from_folder(self._folder))
        if not files:
            raise InputError(f"{self._folder} has no .ttf or .otf files; name a folder of fonts")
        return files

    def _draw(self, face: int, character: str) -> Floats | None:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  (an optional extra)
        from scipy.ndimage import gaussian_filter  # noqa: PLC0415  (heavy)

        try:
            font = ImageFont.truetype(io.BytesIO(self._files[face]), CANVAS, layout_engine=ImageFont.Layout.BASIC)
            tall = font.getbbox("H")
            size = CANVAS * _HEIGHT * CANVAS / max(1, tall[3] - tall[1])
            font = font.font_variant(size=min(size, 2.0 * CANVAS))
            left, top, right, bottom = font.getbbox(character)
            if bytes(font.getmask(character)) == bytes(font.getmask(_ABSENT)) or right <= left or bottom <= top:
                return None
            canvas = Image.new("L", (CANVAS, CANVAS))
            place = (CANVAS - left - right) / 2, (CANVAS - top - bottom) / 2
            ImageDraw.Draw(canvas).text(place, character, fill=255, font=font)
        except (OSError, ValueError) as error:
            raise InputError(f"font {face + 1} cannot be read ({type(error).__name__}); remove it") from None
        shades: Floats = gaussian_filter(np.asarray(canvas, dtype=np.float64), _BLUR)
        return shades / max(float(shades.max()), 1e-9)


def _from_packages() -> Iterator[bytes]:
    """Yield the fonts of the packages, one file for each face."""
    for family in FONTS:
        with zipfile.ZipFile(fetch(family)) as archive:
            names = {Path(name).stem: name for name in sorted(archive.namelist()) if Path(name).suffix in _SUFFIXES}
            yield from (archive.read(name) for stem, name in names.items() if "Variable" not in stem)


def _from_folder(folder: Path) -> Iterator[bytes]:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name a folder of .ttf or .otf files after fonts:")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if len(paths) > _MOST:
        raise InputError(f"{folder} has {len(paths)} fonts, more than {_MOST}; keep fewer")
    for path in paths:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            raise InputError(f"{path} is not a font file of at most {_LARGEST // 2**20} MB; replace or remove it")
        yield path.read_bytes()
