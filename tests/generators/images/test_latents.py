"""Images from latent vectors, by models that are written here, with ONNX Runtime and with OpenVINO."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.images.small_onnx import write_decoder

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.embedders.images.png import Shape, as_images, note_of, stack
from gape.generators.images.latents import LatentImages

RNG = np.random.default_rng(0)
openvino: Any = importlib.import_module("openvino")  # which has no annotations of these names
WEIGHTS, BIAS = RNG.standard_normal((6, 64)), RNG.standard_normal(64)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("model") / "decoder.onnx", WEIGHTS, BIAS, (1, 8, 8))


@pytest.fixture(scope="module")
def intermediate(model: Path) -> Path:
    """The same model in OpenVINO's own format, for one image at a time."""
    read = openvino.Core().read_model(str(model))
    read.reshape([1, 6])
    path = model.with_suffix(".xml")
    openvino.save_model(read, str(path), compress_to_fp16=False)
    return path


class TestContract(TextGeneratorContract):
    @pytest.fixture(autouse=True)
    def _model(self, model: Path) -> None:
        self.model = model

    def make(self) -> Generator:
        return LatentImages(self.model, Shape(8, 8, 1))


class TestOpenVinoContract(TextGeneratorContract):
    @pytest.fixture(autouse=True)
    def _model(self, intermediate: Path) -> None:
        self.model = intermediate

    def make(self) -> Generator:
        return LatentImages(self.model, Shape(8, 8, 1), engine="openvino")


def test_both_engines_draw_the_same(model: Path, intermediate: Path) -> None:
    drawn = [
        stack(LatentImages(path, Shape(8, 8, 1), engine=engine).random(5, np.random.default_rng(1))).astype(int)
        for path, engine in ((model, "onnx"), (model, "openvino"), (intermediate, "openvino"))
    ]
    assert max(np.abs(images - drawn[0]).max() for images in drawn) <= 1
    before = repr(LatentImages(intermediate, Shape(8, 8, 1), engine="openvino"))
    weights = intermediate.with_suffix(".bin")
    changed = intermediate.with_name("changed.xml")
    changed.write_bytes(intermediate.read_bytes())
    changed.with_suffix(".bin").write_bytes(b"\0\0\0\0" + weights.read_bytes()[4:])
    assert repr(LatentImages(changed, Shape(8, 8, 1), engine="openvino")) != before


def test_the_telemetry_of_openvino_is_never_imported(model: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gape.generators.images.engines import OpenVinoEngine\n"
        "OpenVinoEngine(Path(sys.argv[1])); assert 'openvino' in sys.modules\n"
        "assert not any(sys.modules[name] for name in sys.modules if name.startswith('openvino_telemetry'))"
    )
    subprocess.run([sys.executable, "-c", code, model], check=True)


def test_an_image_is_what_the_model_draws_for_its_noted_vector(model: Path) -> None:
    samples = LatentImages(model, Shape(8, 8, 1)).random(5, np.random.default_rng(1))
    latents = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float16).astype(np.float64)
    expected = 255 / (1 + np.exp(-(latents @ WEIGHTS + BIAS)))
    assert np.abs(stack(samples).reshape(5, 64) - expected).max() < 1
    assert all(note_of(sample) for sample in samples)


def test_steps_keep_the_distribution_and_forget_the_start_at_scale_one(model: Path) -> None:
    generator, rng = LatentImages(model, Shape(8, 8, 1)), np.random.default_rng(0)
    start = generator.random(400, rng)
    latents = generator._read(start)
    for scale in (0.1, 0.5, 1.0):
        moved = generator._read(generator.vary(start, np.full(400, scale), rng))
        assert moved.std() == pytest.approx(1, abs=0.06)
        assert float((moved * latents).mean()) == pytest.approx(np.sqrt(1 - scale**2), abs=0.06)


@pytest.mark.parametrize("engine", ["onnx", "openvino"])
def test_a_label_is_given_to_the_model(tmp_path: Path, engine: str) -> None:
    path = write_decoder(tmp_path / "labelled.onnx", 0.1 * WEIGHTS, 0 * BIAS, (8, 8), labels=True)
    images = [
        stack(LatentImages(path, Shape(8, 8, 1), label, engine).random(20, np.random.default_rng(0)))
        .reshape(20, 64)
        .mean(axis=0)
        for label in ("0", "9")
    ]
    assert images[0][:7].mean() > images[1][:7].mean() + 50
    assert images[1][63] > images[0][63] + 50
    for label in (None, "cat"):
        with pytest.raises(InputError, match="a label that is a number"):
            LatentImages(path, Shape(8, 8, 1), label)


def test_images_are_resized_to_the_public_shape(model: Path) -> None:
    assert stack(LatentImages(model, Shape(5, 7, 3)).random(2, np.random.default_rng(0))).shape == (2, 7, 5, 3)


def test_what_is_not_a_model_of_images_is_refused(tmp_path: Path, model: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    for path in (tmp_path / "broken.onnx", tmp_path / "none.onnx"):
        with pytest.raises(InputError, match="cannot be loaded as an ONNX model"):
            LatentImages(path, Shape())
        with pytest.raises(InputError, match="cannot be loaded as a model of OpenVINO"):
            LatentImages(path, Shape(), engine="openvino")
    strange = write_decoder(tmp_path / "strange.onnx", WEIGHTS, BIAS, (2, 4, 8))
    with pytest.raises(InputError, match="not grey or RGB images"):
        LatentImages(strange, Shape())
    foreign = as_images(np.zeros((1, 8, 8, 1), np.uint8))
    for note in ("", "#AAAA", "#!"):
        samples = np.array([foreign[0] + note], dtype=object)
        with pytest.raises(InputError, match="not drawn by this model"):
            LatentImages(model, Shape()).vary(samples, np.array([0.5]), np.random.default_rng(0))
