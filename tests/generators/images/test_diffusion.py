"""Images from a diffusion model: a tiny pipeline that is built here."""

import json
from pathlib import Path

import diffusers
import numpy as np
import pytest
import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Shape, stack
from gape.generators.images.diffusion import DiffusionImages

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Stable Diffusion with 32 x 32 pixels and random weights."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("diffusion")
    letters = [chr(code) for code in range(97, 123)]
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    (folder / "vocab.json").write_text(json.dumps({word: index for index, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)
    text = CLIPTextConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=16, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    blocks = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
    unet = diffusers.UNet2DConditionModel(
        sample_size=16, cross_attention_dim=16, attention_head_dim=4, **blocks,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        **blocks, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    scheduler = diffusers.DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False)
    diffusers.StableDiffusionPipeline(
        vae, CLIPTextModel(text), tokenizer, unet, scheduler,
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ).save_pretrained(folder / "model")  # fmt: skip
    return str(folder / "model")


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
