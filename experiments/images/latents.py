"""A model with latent vectors, end to end: held-out digits get nearer from round to round, under noise.

    python experiments/images/latents.py --epsilon 4 --seeds 3

The model is made from public images alone: the 30 principal components of 6,000 digits that fonts drew, as an ONNX file
whose latent vectors are normal. 20,000 digits of MNIST vote, without labels; the distance is that from 2,000 digits for
testing to the nearest of 200 samples, by pixels. The noise is drawn from a seed: this is for data that may be looked
at.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.images.small_onnx import write_decoder

from gape.cli.demos.digits import read_mnist
from gape.embedders.cached import Cached
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import DIGITS, as_images, stack
from gape.evolution.evolve import evolve
from gape.generators.images.fonts import FontImages
from gape.generators.images.latents import LatentImages
from gape.metrics import mean_nearest_distance
from gape.modalities import Records
from gape.privacy.noise import SeededNoise
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings
from gape.voting.electorate import LocalElectorate

DRAWN, WIDTH, PRIVATE, TESTED = 6000, 30, 20_000, 2000
SHARPNESS = 8.0  # of the sigmoid that turns sums of components into shades


def public_model(path: Path) -> Path:
    """Write a decoder whose latent vectors are the principal components of digits that fonts drew."""
    drawn = stack(FontImages().random(DRAWN, np.random.default_rng(0))).reshape(DRAWN, -1) / 255
    centre = drawn.mean(axis=0)
    _, lengths, rows = np.linalg.svd(drawn - centre, full_matrices=False)
    scaled = rows[:WIDTH] * (lengths[:WIDTH] / np.sqrt(DRAWN))[:, None]
    return write_decoder(path, SHARPNESS * scaled, SHARPNESS * (centre - 0.5), (1, 28, 28))


def main() -> None:
    """Run some seeds, and write a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    (images, _), (tested, _) = read_mnist()
    embed = PixelEmbedder().embed
    private, real = (embed(as_images(some[..., None])) for some in (images[:PRIVATE], tested[:TESTED]))
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        model = public_model(Path(folder) / "decoder.onnx")
        for seed in range(asked.seeds):
            values = {"modality": "images", "generator": f"onnx:{model}", "epsilon": asked.epsilon, "seed": seed}
            records = Records(np.empty(PRIVATE, dtype=object), None, None, 0, "MNIST")
            settings = resolved(Settings.of(values, {"samples": 200, "rounds": 8}), records)
            plan = make_plan(settings)
            electorate = LocalElectorate(
                private, votes_per_unit=plan.votes_per_unit, votes_per_record=plan.votes_per_record
            )
            parts = LatentImages(model, DIGITS), Cached(PixelEmbedder()), electorate
            with free_account() as account:
                for state in evolve(plan, *parts, make_selector(settings, plan), account, noise=SeededNoise(seed)):
                    if state.proposal is None:
                        gap = mean_nearest_distance(real, embed(state.synthetic[:200]))
                        rows.append({"seed": seed, "round": state.round, "distance": gap})
            write_rows(asked.out, "latents", rows)


if __name__ == "__main__":
    main()
