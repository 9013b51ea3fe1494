"""A diffusion model that is built here: Stable Diffusion with 32 x 32 pixels and random weights."""

import json
from pathlib import Path


def write_pipeline(folder: Path) -> str:
    """Write the model into a folder, and return the path of it."""
    import diffusers  # noqa: PLC0415  (heavy, as the others are)
    import torch  # noqa: PLC0415
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer  # noqa: PLC0415

    torch.manual_seed(0)
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
