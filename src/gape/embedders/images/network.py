"""Images as points by a neural network of torch, on the CPU or GPU of this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from gape._support.memory import Pressure
from gape.core.errors import InputError
from gape.core.types import Points, Samples
from gape.embedders.images.png import Pixels, stack
from gape.embedders.watched import Listener, nobody
from gape.language.gpu.slots import record

_PUBLIC = 64  # images per batch if none is private


def import_torch() -> Any:
    """Import torch, or say how to install it."""
    try:
        import torch  # noqa: PLC0415  (heavy, an optional extra)
    except ImportError:
        raise InputError(
            "this embedder of images needs torch, which is not installed; pip install 'gape[hf]'"
        ) from None
    return torch


class NetworkEmbedder(ABC):
    """A network that turns images into points. The images stay on this machine.

    Private images are embedded one by one, so that each changes no point but its own; on a GPU the computation for one
    image is recorded and repeated. `for_public_samples` returns the same network with batches, for candidates.
    """

    def __init__(self, side: int, mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
        """Set the side of the images that the network takes, and the numbers by which colours are normalised."""
        self._torch = import_torch()
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._side, self._mean, self._deviation = side, mean, deviation
        self._batch = 1
        self._tell: Listener = nobody

    @abstractmethod
    def features(self, images: Any) -> Any:
        """Return the output of the network, (b, d), for normalised images, (b, 3, side, side)."""

    def scaled(self, rows: Points) -> Points:
        """Return outputs, (n, d), as points with norms of at most 1: of length 1 unless a network overrides it."""
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        points: Points = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return points

    def for_public_samples(self) -> NetworkEmbedder:
        """Return the same network, with many images per batch."""
        other = copy(self)
        other._batch = _PUBLIC
        return other

    def watched(self, tell: Listener) -> NetworkEmbedder:
        """Return the same network, reporting its progress to `tell`."""
        other = copy(self)
        other._tell = tell
        return other

    def embed(self, samples: Samples) -> Points:
        """Embed images as float32 rows, (n, d)."""
        if not len(samples):
            raise InputError("samples must be one or more images, got none")
        run, pressure, rows = self._computation(), Pressure(self._batch, "an embedding"), list[Points]()
        done = 0
        while done < len(samples):
            block = samples[done : done + pressure.batch]
            try:
                rows.append(run(stack(block)))
            except RuntimeError as error:
                pressure.relieve(error, len(block))
                continue
            done += len(block)
            self._tell(done, len(samples))
        found = np.concatenate(rows)
        if not np.isfinite(found).all():
            raise InputError(f"{self!r} returns embeddings that are not finite; use another model")
        return self.scaled(found)

    def _computation(self) -> Callable[[Pixels], Points]:
        torch = self._torch

        def compute(images: Any) -> Any:
            with torch.inference_mode():
                return self.features(self._normalised(images))

        if self._batch > 1 or self._device == "cpu":
            return lambda pixels: _as_points(compute(torch.from_numpy(pixels).to(self._device)))
        return self._recorded(compute)

    def _recorded(self, compute: Callable[[Any], Any]) -> Callable[[Pixels], Points]:
        """Return the computation of one image, recorded on the GPU, so that it is the same for each."""
        torch, state = self._torch, dict[str, Any]()

        def step() -> None:
            state["points"] = compute(state["image"])

        def run(pixels: Pixels) -> Points:
            image = torch.from_numpy(pixels).to(self._device)
            if "repeat" not in state:
                state["image"] = image.clone()
                step()  # warm-up
                state["repeat"] = record(torch, step)
            state["image"].copy_(image)
            state["repeat"]()
            return _as_points(state["points"])

        return run

    def _normalised(self, images: Any) -> Any:
        """Return bytes, (b, h, w, c), as floats of the size and colours that the network takes."""
        torch = self._torch
        colours = images.permute(0, 3, 1, 2).float().expand(-1, 3, -1, -1) / 255
        sized = torch.nn.functional.interpolate(colours, (self._side, self._side), mode="bilinear", align_corners=False)
        mean, deviation = (
            torch.tensor(values, device=self._device)[:, None, None] for values in (self._mean, self._deviation)
        )
        return (sized - mean) / deviation


def _as_points(rows: Any) -> Points:
    points: Points = rows.float().cpu().numpy()
    return points
