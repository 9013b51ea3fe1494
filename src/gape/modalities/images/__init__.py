"""Images of one public size, held as PNG files in texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from gape._support.values import brief
from gape.core.errors import InputError, RunError
from gape.core.protocols import Embedder, Generator
from gape.core.types import Samples, as_samples
from gape.embedders.images.decoding import read_image, require_pillow
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import as_png, as_url, decode, encode, is_image, stack
from gape.generators.images.captions import CaptionedImages, Painter, caption_of
from gape.generators.images.faces import Faces
from gape.generators.images.fonts import FontImages
from gape.generators.images.latents import LatentImages
from gape.language.request import LanguageModel
from gape.modalities.base import Modality, TextWriter
from gape.modalities.images.load import image_blocks, load_images
from gape.modalities.images.schema import ImageSchema
from gape.modalities.images.shown import THUMBNAIL, as_dots, thumbnail
from gape.modalities.records import Columns, Records, contents_of
from gape.modalities.text import Text

__all__ = ["ImageSchema", "Images", "load_images"]

_BLOCK = 2**26  # bytes of pixels that `gape embed` holds together
_STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # as `datasets` stores images


class Images(Modality):
    """Images, drawn with fonts, chosen from a corpus or made by a model, and compared by pixels or by a model."""

    name = "images"
    noun = "image"
    defaults: ClassVar[Mapping[str, Any]] = {"generator": "fonts", "embedder": "pixels", "rounds": 10}
    unused = ("variation", "prompts", "domain", "topics", "words")
    generators = ("corpus:FILE",)
    own_generators: ClassVar[Mapping[str, str]] = {
        "fonts": "FontImages",
        "fonts:FOLDER": "FontImages",
        "onnx:FILE": "LatentImages",
        "openvino:FILE": "LatentImages",
        "diffusers:MODEL": "DiffusionImages",
        "openai-images:MODEL": "ServiceImages",
    }
    own_embedders: ClassVar[Mapping[str, str]] = {
        "pixels": "PixelEmbedder",
        "inception": "Inception",
        "hf:MODEL": "ImageModel",
        "clip:MODEL": "ClipImages",
        "timm:MODEL": "TimmImages",
    }
    services = ("openai-images:MODEL",)
    painters = ("diffusers:MODEL", "openai-images:MODEL")
    captioners = tuple(form for form in Text.generators if not form.startswith("corpus"))
    captioned: ClassVar[Mapping[str, Any]] = {"generator": "embedded", "words": 20}
    scales = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
    on_disk = True
    per_second = 2_000.0  # of 28 x 28 pixels, on one core
    exported = "folder"
    written_by = "none: characters drawn with fonts"
    compared_by = "the brightness of their pixels"
    copied = "pixel for pixel"

    def __init__(self, schema: str | Path | ImageSchema | None = None) -> None:
        """Read the schema; without one, images are 28 x 28 and grey."""
        if isinstance(schema, str | Path):
            schema = ImageSchema.read(schema)
        self.schema = schema or ImageSchema()

    @property
    def _small(self) -> bool:
        return max(self.schema.shape[:2]) <= THUMBNAIL

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Images) and self.schema == other.schema

    def __hash__(self) -> int:
        return hash(self.schema)

    def describe(self) -> dict[str, str]:
        """Return the schema, by its content."""
        return {"schema": repr(self.schema)}

    @classmethod
    def refuse(cls, scales: Sequence[float] | None) -> None:
        """Reject scales that are not shares."""
        if scales is not None and not all(0 < scale <= 1 for scale in scales):
            raise InputError(f"scales of images must be above 0 and up to 1, got {brief(scales)}; 0.2 is usual")

    def read(self, source: object, columns: Columns) -> Records:
        """Read images, with their labels and users if these are named."""
        return load_images(source, self.schema.shape, columns)

    def blocks(self, source: object, columns: Columns, most: int) -> Iterator[Records]:
        """Read images block by block: the larger they are, the fewer at a time."""
        fitting = _BLOCK // math.prod(self.schema.shape)
        return image_blocks(source, self.schema.shape, columns, max(1, min(most, fitting)))

    def read_corpus(self, path: str, columns: Columns) -> Samples:
        """Read public images."""
        return load_images(path, self.schema.shape, Columns(columns.text)).content

    def check_corpus(self, path: str, columns: Columns) -> None:
        """Leave a corpus to be read when it is needed, because decoding is slow."""

    def make_service(self, model: str, **reached: Any) -> LanguageModel:
        """Return a service that draws images in the size of the schema, with its options."""
        from gape.generators.images.service import ImageService  # noqa: PLC0415  (heavy)

        require_pillow()
        return ImageService(model=model, shape=self.schema.shape, options=dict(self.schema.options), **reached)

    def make_generator(self, spec: str, label: str | None = None, model: LanguageModel | None = None) -> Generator:
        """Return `fonts`, where a label that is a character is drawn as that character, or a model of images."""
        require_pillow()
        kind, _, folder = spec.partition(":")
        prompt = self.schema.prompt if label is None else f"{self.schema.prompt}, {label}"
        if kind == "openai-images" and model is not None:
            from gape.generators.images.service import ServiceImages  # noqa: PLC0415  (heavy)

            return ServiceImages(model, prompt)
        if kind in {"onnx", "openvino"}:
            return LatentImages(folder, self.schema.shape, label, kind)
        if kind == "diffusers":
            from gape.generators.images.diffusion import DiffusionImages  # noqa: PLC0415  (heavy)

            return DiffusionImages(folder, self.schema.shape, prompt)
        alone = label is not None and len(label) == 1
        return FontImages(self.schema.shape, label if alone and label else self.schema.characters, _faces(folder))

    def remarks(self, spec: str, labels: Sequence[str] | None) -> list[str]:
        """Say which characters `fonts` draws, unless each label is one of them."""
        if spec.partition(":")[0] != "fonts" or (labels and all(len(label) == 1 for label in labels)):
            return []
        drawn = brief(self.schema.characters)
        return [
            f"fonts draws the characters {drawn} and nothing else; for other images, name public ones as corpus:FOLDER."
        ]

    @property
    def domain(self) -> str:
        """What captions are."""
        return f"short descriptions of pictures ({self.schema.prompt})"

    def written(self, writer: TextWriter, painter: object = None) -> Generator:
        """Return the generator of images that `painter` draws from the captions of `writer`."""
        if not isinstance(painter, Painter):
            raise InputError("images that a language model describes need a painter; name one, such as diffusers:MODEL")
        return CaptionedImages(writer, painter)

    def text_part(self, embedder: Embedder | None) -> Embedder | None:  # noqa: ARG002  (it compares images)
        """Return None: captions are not compared."""
        return None

    def make_embedder(self, spec: str) -> Embedder:
        """Return `pixels`, or a network, which needs torch."""
        kind, _, model = spec.partition(":")
        if kind == "inception":
            from gape.embedders.images.inception import Inception  # noqa: PLC0415  (heavy)

            return Inception()
        if kind in {"hf", "clip"}:
            from gape.embedders.images.transformers import ClipImages, ImageModel  # noqa: PLC0415  (heavy)

            return (ClipImages if kind == "clip" else ImageModel)(model)
        if kind == "timm":
            from gape.embedders.images.timm import TimmImages  # noqa: PLC0415  (heavy)

            return TimmImages(model)
        return PixelEmbedder()

    def identity(self, embedder: Embedder) -> str:
        """Describe an embedder with the size of the images, on which its vectors depend."""
        return f"{embedder!r} of images {self.schema.shape}"

    def public_embedder(self) -> Embedder:
        """Return the embedder of pixels, which needs no model."""
        return PixelEmbedder()

    def from_arrow(self, column: pa.ChunkedArray) -> Samples:
        """Restore images, which must be as `encode` writes them."""
        samples = super().from_arrow(column)
        if samples.ndim != 1 or not all(map(is_image, contents_of(samples))):
            raise RunError("a column does not hold images; restore it from a copy")
        return samples

    def publish(self, samples: Samples) -> dict[str, pa.Array]:
        """Return a column of PNG files, as `datasets` stores them, and the labels if there are any."""
        files = [{"bytes": as_png(sample), "path": None} for sample in contents_of(samples)]
        captions = [caption_of(sample) for sample in contents_of(samples)]
        described = {"caption": pa.array(captions, pa.string())} if any(captions) else {}
        labels = {"label": pa.array(samples["label"].tolist(), pa.string())} if samples.dtype.names else {}
        return {"image": pa.array(files, _STRUCT), **described, **labels}

    def restore(self, table: pa.Table) -> Samples:
        """Restore images from `publish`, without labels."""
        cells = enumerate(table["image"].to_pylist(), start=1)
        return as_samples([encode(read_image(cell["bytes"], self.schema.shape, f"row {i}")[0]) for i, cell in cells])

    def lines(self, samples: Samples) -> list[str]:
        """Draw each image with dots, for a terminal, above its caption if it has one."""
        return [f"{as_dots(decode(sample))}\n{caption_of(sample)}".rstrip("\n") for sample in contents_of(samples)]

    def pictures(self, samples: Samples) -> list[str]:
        """Return a thumbnail of each image as a `data:` URL, with its caption behind a `#`."""
        return [
            (as_url(sample) if self._small else encode(thumbnail(decode(sample)))) + _fragment(caption_of(sample))
            for sample in contents_of(samples)
        ]

    def sheet(self, rows: Sequence[Samples]) -> bytes:
        """Return rows of images as one PNG file."""
        return as_png(encode(np.concatenate([np.concatenate(stack(row), axis=1) for row in map(contents_of, rows)])))

    def keys(self, samples: Samples) -> list[str]:
        """Return each image without what its generator noted, so that equal pixels have equal keys."""
        return [as_url(sample) for sample in contents_of(samples)]

    def files(self, table: pa.Table) -> dict[str, bytes]:
        """Return published images as PNG files, in one folder for each label if there are labels."""
        images = [cell["bytes"] for cell in table["image"].to_pylist()]
        labels = table["label"].to_pylist() if "label" in table.column_names else [None] * len(images)
        digits = len(str(len(images)))
        folders = {label: _folder_name(label, number) for number, label in enumerate(dict.fromkeys(labels))}
        return {
            f"{folders[label]}{number:0{digits}d}.png": image
            for number, (image, label) in enumerate(zip(images, labels, strict=True), start=1)
        }


def _fragment(caption: str) -> str:
    return f"#{quote(caption, safe='', errors='replace')}" if caption else ""


def _faces(folder: str) -> Faces:
    """Return the fonts of a folder, shared by the generators of all labels."""
    if folder not in _KNOWN_FACES:
        _KNOWN_FACES[folder] = Faces(folder or None)
    return _KNOWN_FACES[folder]


_KNOWN_FACES: dict[str, Faces] = {}


def _folder_name(label: str | None, number: int) -> str:
    """Return the folder of a label: its name if that is safe in all file systems, else its number."""
    if label is None:
        return ""
    safe = label.isascii() and all(char.isalnum() or char in "-_" for char in label) and 0 < len(label) <= 64
    return f"{label if safe else f'label-{number}'}/"
