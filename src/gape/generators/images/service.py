"""Images by an OpenAI-compatible service: its endpoints for new images and for edits."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gape.core.errors import InputError, ServiceError
from gape.core.types import Floats, Samples, as_samples
from gape.embedders.images.decoding import read_image
from gape.embedders.images.png import Shape, as_png, as_url, encode, is_image
from gape.generators.asking import ask, draw_each, filled, new_seed
from gape.generators.reading import Draft
from gape.language.forms import as_form
from gape.language.http import Endpoint, Job
from gape.language.request import Completion, LanguageModel, Request
from gape.language.spending import Meter, Purse, Tokens

_LARGEST = 2**25  # bytes of an answer; a PNG file of 1536 x 1024 pixels has at most 5 MB
_FIXED = ("model", "prompt", "n", "image", "response_format", "stream")
_SIZE = "1024x1024"  # which all services draw
_AS_FILE = {"response_format": "b64_json"}
_ONE = Tokens(images=1)


@dataclass(kw_only=True)
class ImageService(Endpoint):
    """Draws one image for each request and returns it in the public shape, or leaves it out; never exceeds the caps.

    Requests have public prompts, and synthetic images to vary. Answers are decoded like private images: bounded, PNG or
    JPEG only. Addresses in answers are not followed. Faults, refusals and caps are those of `OpenAIModel`; each image
    that was asked for counts, whatever became of it. `options` are further fields for each request, such as quality.
    """

    shape: Shape
    options: Mapping[str, Any] = field(default_factory=dict)
    image_price: float = 0.0
    max_images: int | None = None

    def __post_init__(self) -> None:
        if fixed := sorted(set(_FIXED) & set(self.options)):
            raise InputError(f"options must not contain {', '.join(fixed)}, which each request sets; leave them out")
        if self.purse is None:
            self.purse = Purse(self.max_tokens_total, self.max_cost, (self.image_price,), self.max_images)
        super().__post_init__()

    def _new_meter(self, purse: Purse) -> Meter:
        return Meter(0.0, 0.0, purse, image_price=self.image_price)

    @property
    def name(self) -> str:
        """Identifies the model, the address of the service, the options, and the shape of the images."""
        return f"{self.model} at {self.base_url} with {json.dumps(dict(self.options), sort_keys=True)}, {self.shape}"

    @property
    def can_continue(self) -> bool:
        """Always False: the service writes no text."""
        return False

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield images as they are drawn, `concurrency` at a time."""
        for path, drawn in (("images/generations", self._drawn), ("images/edits", self._edited)):
            members = [index for index, request in enumerate(requests) if bool(request.picture) == ("edits" in path)]
            for number, completion in self.post(path, [drawn(requests[index]) for index in members]):
                yield members[number], completion

    def _drawn(self, request: Request) -> Job[Completion]:
        body = self._fields(request)
        plain = Job[Completion](body, _ONE, _LARGEST, self._read)
        return plain if self._always_files else replace(plain, body=body | _AS_FILE, otherwise=plain)

    def _edited(self, request: Request) -> Job[Completion]:
        fields = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in self._fields(request).items()
        }
        file = ("image.png", "image/png", as_png(str(request.picture)))
        plain, asking = (self._form(given, file) for given in (fields, fields | _AS_FILE))
        return plain if self._always_files else replace(asking, otherwise=plain)

    def _form(self, fields: Mapping[str, str], file: tuple[str, str, bytes]) -> Job[Completion]:
        body, kind = as_form(fields, "image", file)
        return Job(body, _ONE, _LARGEST, self._read, kind=kind)

    def _fields(self, request: Request) -> dict[str, Any]:
        fields = {"model": self.model, "prompt": request.prompt, "n": 1, "size": _SIZE, **self.options}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def _always_files(self) -> bool:
        """Whether the model refuses to be told that it should return files."""
        return self.model.startswith("gpt-image")

    def _read(self, content: Any, used: Tokens) -> Completion:
        image = content["data"][0]
        if "b64_json" not in image and "url" in image:
            raise ServiceError(
                f"{self.base_url} returns addresses of images, which are not followed; use a service that returns files"
            )
        pixels, _ = read_image(b64decode(image["b64_json"], validate=True), self.shape, "an answer")
        return Completion(encode(pixels), used.prompt, used.completion, images=used.images)


@dataclass(frozen=True)
class ServiceImages:
    """Images by a model that answers requests for pictures, such as `ImageService` with its answers stored.

    A random image follows the prompt. A variation is an edit of the image, asked for in words that name the scale; if
    the service does not deliver it, the image is used unchanged.
    """

    model: LanguageModel
    prompt: str

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` images that follow the prompt."""
        drawn = draw_each(self.model, lambda _: _draft(self.prompt, "", rng), count, self.prompt, distinct=False)
        return filled(drawn, rng)

    def draw(self, captions: Sequence[str], rng: np.random.Generator) -> list[str | None]:
        """Draw one image for each caption."""
        return ask(self.model, [_draft(f"{self.prompt}: {caption}", "", rng) for caption in captions])

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Ask for an edit of each image that changes a share of it, its scale."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 asks for another image")
        drafts = [
            _draft(
                f"{self.prompt}. Draw this picture again, with about {scale:.0%} of it changed.", as_url(sample), rng
            )
            for sample, scale in zip(samples, scales, strict=True)
        ]
        edited = ask(self.model, drafts)
        return as_samples([sample if image is None else image for sample, image in zip(samples, edited, strict=True)])


def _draft(prompt: str, picture: str, rng: np.random.Generator) -> Draft:
    return Draft(Request(prompt, picture=picture, seed=new_seed(rng)), _image)


def _image(completion: Completion) -> str | None:
    return completion.text if is_image(completion.text) else None
