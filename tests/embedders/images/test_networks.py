"""Networks that embed images: Inception of the FID as it is fetched, and a small CLIP that is built here."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import CLIPConfig, CLIPModel

from gape.core.errors import InputError
from gape.core.types import Samples
from gape.embedders.images.inception import SCALE, Inception
from gape.embedders.images.network import NetworkEmbedder
from gape.embedders.images.png import as_images
from gape.embedders.images.transformers import ImageModel


@pytest.fixture(scope="module")
def inception() -> Inception:
    return Inception()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> ImageModel:
    folder = tmp_path_factory.mktemp("clip")
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = CLIPConfig(
        text_config={**small, "vocab_size": 99}, vision_config={**small, "image_size": 24, "patch_size": 8}
    )
    CLIPModel(config).save_pretrained(folder)
    described = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}}
    means = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(described | means))
    return ImageModel(str(folder))


def pictures(count: int, channels: int = 3) -> Samples:
    return as_images(np.random.default_rng(0).integers(0, 256, (count, 12, 12, channels), dtype=np.uint8))


def test_inception_returns_its_features_divided_by_a_constant(inception: Inception) -> None:
    points = inception.embed(pictures(2, channels=1))
    assert points.shape == (2, 2048)
    assert points.dtype == np.float32
    assert (points >= 0).all()  # means of rectified activations
    assert 5 < SCALE * np.linalg.norm(points, axis=1).min() < SCALE
    assert np.linalg.norm(points, axis=1).max() <= 1


@pytest.mark.parametrize("name", ["inception", "clip"])
def test_a_private_image_changes_its_own_point_alone(name: str, request: pytest.FixtureRequest) -> None:
    embedder: NetworkEmbedder = request.getfixturevalue(name)
    samples = pictures(3)
    alone = np.concatenate([embedder.embed(samples[index : index + 1]) for index in range(3)])
    np.testing.assert_array_equal(embedder.embed(samples), alone)
    np.testing.assert_allclose(embedder.for_public_texts().embed(samples), alone, atol=1e-4)


def test_clip_returns_unit_vectors_of_the_part_for_images(clip: ImageModel) -> None:
    told: list[int] = []
    points = clip.watched(lambda done, _: told.append(done)).embed(pictures(4))
    assert points.shape == (4, 16)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-5)
    assert told == [1, 2, 3, 4]
    assert repr(clip).startswith("ImageModel('")


def test_what_is_not_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded as a model of images"):
        ImageModel(str(tmp_path))
