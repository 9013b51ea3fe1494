"""Build small models of timm, and embed images by them."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

# torchvision declares these when its compiled part is loaded, which a build for GPUs is not on a machine without one.
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import timm  # type: ignore[import-not-found]  # noqa: E402
from timm.models import save_for_hf  # type: ignore[import-not-found]  # noqa: E402

from gape.core.errors import InputError  # noqa: E402
from gape.embedders.images.png import as_images  # noqa: E402
from gape.embedders.images.timm import TimmImages  # noqa: E402


def check(folder: Path, architecture: str) -> None:
    """Save a model with random weights, load it, and embed images one by one and together."""
    torch.manual_seed(0)
    save_for_hf(timm.create_model(architecture), folder, safe_serialization=True)
    embedder = TimmImages(str(folder))
    samples = as_images(np.random.default_rng(0).integers(0, 256, (3, 12, 12, 3), dtype=np.uint8))
    points = embedder.embed(samples)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-5)
    alone = [embedder.embed(samples[index : index + 1]) for index in range(3)]
    np.testing.assert_array_equal(points, np.concatenate(alone))
    np.testing.assert_allclose(embedder.for_public_samples().embed(samples), points, atol=1e-4)
    assert np.linalg.norm(points[0] - points[1]) > 1e-4
    assert repr(TimmImages(str(folder))) == repr(embedder)


def main() -> None:
    """Check two architectures, and that an unknown one is refused."""
    folder = Path(sys.argv[1])
    for architecture in ("test_resnet", "test_vit"):
        check(folder / architecture, architecture)
    with pytest.raises(InputError, match="no_such_model cannot be loaded as a model of timm"):
        TimmImages("no_such_model")


if __name__ == "__main__":
    main()
