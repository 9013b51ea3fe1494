"""Images from a diffusion model: a tiny pipeline that is built for the tests."""

from pathlib import Path

import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Shape, stack
from gape.generators.images.diffusion import DiffusionImages
from generators.images.small_diffusion import write_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pipeline(tmp_path_factory.mktemp("diffusion"))


class TestContract(TextGeneratorContract):
    @pytest.fixture(autouse=True)
    def _model(self, model: str) -> None:
        self.model = model

    def make(self) -> Generator:
        return DiffusionImages(self.model, Shape(16, 16, 3), "a photo", steps=4)


def test_variations_move_away_as_the_strength_grows(model: str) -> None:
    generator, rng = DiffusionImages(model, Shape(32, 32, 3), "a photo", steps=10), np.random.default_rng(0)
    start = generator.random(4, rng)
    assert stack(start).shape == (4, 32, 32, 3)
    embed = PixelEmbedder().embed
    gaps = [
        float(np.linalg.norm(embed(generator.vary(start, np.full(4, scale), rng)) - embed(start)))
        for scale in (0.1, 1.0)
    ]
    assert gaps[0] < gaps[1]


def test_what_is_not_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded by diffusers"):
        DiffusionImages(str(tmp_path), Shape(), "a photo")
