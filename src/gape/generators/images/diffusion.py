"""Images from a diffusion model of the diffusers library, such as Stable Diffusion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gape._support.silence import hub_unused_for
from gape.core.errors import InputError, in_one_line
from gape.core.types import Floats, Samples
from gape.embedders.images.png import Pixels, Shape, as_images, encode, stack
from gape.generators.images.sizing import fitted
from gape.language.transformers import weights_digest

_AT_ONCE = 8  # images drawn together
_STEPS = 25  # of denoising, for a new image


class DiffusionImages:
    """A text-to-image model: a random image follows the prompt, a variation at scale s redraws an image.

    The scale is the strength of image-to-image drawing: the share of the steps of denoising that are done again. An
    image is varied as it is kept, in the public size. The model runs on a GPU if there is one.
    """

    def __init__(self, model: str, shape: Shape, prompt: str, steps: int = _STEPS) -> None:
        """Load `model`, a folder or a name on the hub; the generators of all labels share it."""
        self.model, self.shape, self.prompt, self.steps = model, shape, prompt, steps
        self._torch, self._drawing, self._redrawing = _loaded(model)
        network = getattr(self._drawing, "unet", None) or self._drawing.transformer
        self._digest = weights_digest(network)
        self._side = int(network.config.sample_size) * int(self._drawing.vae_scale_factor)

    def __repr__(self) -> str:
        return f"DiffusionImages({self.model!r}, {self._digest}, {self.shape}, {self.prompt!r}, steps={self.steps})"

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` images that follow the prompt."""
        return as_images(self._drawn([self.prompt] * count, rng))

    def draw(self, captions: Sequence[str], rng: np.random.Generator) -> list[str | None]:
        """Draw one image for each caption."""
        return [encode(image) for image in self._drawn([f"{self.prompt}: {caption}" for caption in captions], rng)]

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Redraw each image with a strength that is its scale."""
        for scale in np.unique(scales):
            if not 0 < scale <= 1:
                raise InputError(f"scale must be in (0, 1], got {scale}; 1 redraws the whole image")
        varied = samples.copy()
        for scale in np.unique(scales):
            members = np.flatnonzero(scales == scale)
            # At least one step of denoising must be left to do.
            steps = max(self.steps, int(np.ceil(1 / scale)))
            for start in range(0, len(members), _AT_ONCE):
                some = members[start : start + _AT_ONCE]
                images = [self._enlarged(image) for image in stack(samples[some])]
                given = {"image": images, "strength": float(scale), "num_inference_steps": steps}
                varied[some] = as_images(self._run(self._redrawing, [self.prompt] * len(some), rng, **given))
        return varied

    def _drawn(self, prompts: Sequence[str], rng: np.random.Generator) -> list[Pixels]:
        size = {"height": self._side, "width": self._side, "num_inference_steps": self.steps}
        batches = [prompts[start : start + _AT_ONCE] for start in range(0, len(prompts), _AT_ONCE)]
        return [image for some in batches for image in self._run(self._drawing, some, rng, **size)]

    def _run(self, pipeline: Any, prompts: Sequence[str], rng: np.random.Generator, **given: Any) -> list[Pixels]:
        """Draw images with a seed for each, so that none depends on which others are drawn with it."""
        seeds = [self._torch.Generator("cpu").manual_seed(int(rng.integers(2**63))) for _ in prompts]
        made = pipeline(prompt=list(prompts), generator=seeds, output_type="np", **given).images
        shades = np.rint(255 * np.clip(np.nan_to_num(made), 0, 1)).astype(np.uint8)
        return [fitted(image, self.shape) for image in shades]

    def _enlarged(self, image: Pixels) -> Any:
        from PIL import Image  # noqa: PLC0415  (an optional extra)

        picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).convert("RGB")
        return picture.resize((self._side, self._side), Image.Resampling.BICUBIC)


@lru_cache(1)
def _loaded(model: str) -> tuple[Any, Any, Any]:
    """Return torch, and the pipelines that draw images and redraw them."""
    try:
        import torch  # noqa: PLC0415  (heavy, an optional extra)
        from diffusers import AutoPipelineForImage2Image, AutoPipelineForText2Image, logging  # noqa: PLC0415  (likewise)
    except ImportError:
        raise InputError(f"diffusers:{model} needs diffusers and torch; pip install diffusers 'gape[hf]'") from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with hub_unused_for(model) as local:
            kind = torch.float16 if device == "cuda" else torch.float32
            drawing = AutoPipelineForText2Image.from_pretrained(model, torch_dtype=kind, local_files_only=local)
        drawing = drawing.to(device)
        redrawing = AutoPipelineForImage2Image.from_pipe(drawing)
    except Exception as error:  # noqa: BLE001  (any error of the libraries or the files)
        raise InputError(f"{model} cannot be loaded by diffusers ({in_one_line(error)}); name a model") from None
    logging.set_verbosity_error()  # warnings quote prompts
    for pipeline in (drawing, redrawing):
        pipeline.set_progress_bar_config(disable=True)
    return torch, drawing, redrawing
