"""Networks that embed images: Inception of the FID as it is fetched, and a small CLIP that is built here."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers  # whose names load what they need when they are used
from safetensors.torch import load_file, save_file

from gape.core.errors import InputError
from gape.core.types import Samples
from gape.embedders.images.inception import SCALE, Inception
from gape.embedders.images.network import NetworkEmbedder
from gape.embedders.images.png import as_images, decode
from gape.embedders.images.transformers import ClipImages, ImageModel


@pytest.fixture(scope="module")
def inception() -> Inception:
    return Inception()


SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SEEN = {"image_size": 24, "patch_size": 8}


def described(folder: Path, processor: str) -> Path:
    """Describe the images that a model takes, beside its weights."""
    values = {"image_processor_type": processor, "size": {"shortest_edge": 24}}
    means = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(values | means))
    return folder


@pytest.fixture(scope="module")
def small_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    torch.manual_seed(0)
    parts = {"text_config": {**SMALL, "vocab_size": 99}, "vision_config": {**SMALL, **SEEN, "projection_dim": 12}}
    config = transformers.CLIPConfig(**parts, projection_dim=12)
    transformers.CLIPModel(config).save_pretrained(folder)
    return described(folder, "CLIPImageProcessor")


@pytest.fixture(scope="module")
def clip(small_clip: Path) -> ImageModel:
    return ImageModel(str(small_clip))


@pytest.fixture(scope="module")
def projected(small_clip: Path) -> ClipImages:
    return ClipImages(str(small_clip))


@pytest.fixture(scope="module")
def small_vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, whose files have no pooling."""
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    transformers.ViTForImageClassification(transformers.ViTConfig(**SMALL, **SEEN)).save_pretrained(folder)
    return described(folder, "ViTImageProcessor")


def pictures(count: int, channels: int = 3) -> Samples:
    return as_images(np.random.default_rng(0).integers(0, 256, (count, 12, 12, channels), dtype=np.uint8))


def test_inception_returns_its_features_divided_by_a_constant(inception: Inception) -> None:
    points = inception.embed(pictures(2, channels=1))
    assert points.shape == (2, 2048)
    assert points.dtype == np.float32
    assert (points >= 0).all()  # means of rectified activations
    assert 5 < SCALE * np.linalg.norm(points, axis=1).min() < SCALE
    assert np.linalg.norm(points, axis=1).max() <= 1


@pytest.mark.parametrize("name", ["inception", "clip", "projected"])
def test_a_private_image_changes_its_own_point_alone(name: str, request: pytest.FixtureRequest) -> None:
    embedder: NetworkEmbedder = request.getfixturevalue(name)
    samples = pictures(3)
    alone = np.concatenate([embedder.embed(samples[index : index + 1]) for index in range(3)])
    np.testing.assert_array_equal(embedder.embed(samples), alone)
    np.testing.assert_allclose(embedder.for_public_samples().embed(samples), alone, atol=1e-4)


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


def test_clip_by_name_returns_the_projection_that_it_shares_with_texts(projected: ClipImages, small_clip: Path) -> None:
    points = projected.embed(pictures(3))
    assert points.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-5)
    assert repr(projected).startswith("ClipImages('")
    pixels = torch.from_numpy(np.stack([decode(sample) for sample in pictures(3)])).permute(0, 3, 1, 2) / 255
    sized = torch.nn.functional.interpolate(pixels, (24, 24), mode="bilinear")
    network = transformers.CLIPVisionModelWithProjection.from_pretrained(small_clip)
    with torch.inference_mode():
        expected = network((sized - 0.5) / 0.25).image_embeds
    np.testing.assert_allclose(points, torch.nn.functional.normalize(expected).numpy(), atol=1e-5)


def test_a_model_without_trained_pooling_returns_the_same_points_each_time_it_is_loaded(small_vit: Path) -> None:
    first, second = (ImageModel(str(small_vit)) for _ in range(2))
    assert repr(first) == repr(second)
    np.testing.assert_array_equal(first.embed(pictures(2)), second.embed(pictures(2)))


def test_weights_that_are_missing_are_refused(small_clip: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small_clip, tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lack the weights visual_projection\.weight"):
        ClipImages(str(folder))
    with pytest.raises(InputError, match=r"lack the weights visual_projection\.weight"):
        ImageModel(str(folder))


def test_another_model_is_not_taken_for_clip(small_vit: Path) -> None:
    with pytest.raises(InputError, match="a model of type vit, not CLIP; use hf: instead"):
        ClipImages(str(small_vit))
