"""A trained model with latent vectors, end to end: held-out terrain gets nearer from round to round, under noise.

    python experiments/images/terrain.py WHEEL --epsilon 4 --seeds 2

WHEEL is that of adaptive-terrain-diffusion 0.4.2 from the Python package index (MIT), whose network turns noise of 128
x 128 pixels into a terrain in one step. Latent vectors of 256 numbers are mapped to such noise by a fixed random
matrix; one more number is the difficulty. The private images are windows of the elevation map of Jacksboro that
matplotlib ships (USGS): those in its left 60% vote, and those right of them, which share no pixel with these, score. A
record is one window, and windows overlap, so this shows how selection works, not what protects a map. The noise is
drawn from a seed.
"""

import argparse
import hashlib
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows

from gape.embedders.cached import Cached
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Shape, as_images
from gape.evolution.evolve import evolve
from gape.generators.images.engines import Input
from gape.generators.images.latents import LatentImages
from gape.generators.images.sizing import fitted
from gape.metrics import mean_nearest_distance
from gape.modalities import Records
from gape.privacy.noise import SeededNoise
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings
from gape.voting.electorate import LocalElectorate

MEMBER = "terrain_diffusion/weights/terrain_consistency_unet_difficulty100.onnx"
SIDE, WIDTH, SIGMA, SHAPE = 128, 256, 80.0, Shape(32, 32, 1)
WINDOW, STRIDE, PRIVATE = 96, 3, 0.6
RELIEF, KNEE = 22.16864013671875, 0.1  # metres: the network draws arcsinh(height / KNEE)


class Terrain:
    """The network of a wheel as an engine of `LatentImages`."""

    def __init__(self, wheel: Path) -> None:
        """Load the network, and draw the matrix."""
        import onnxruntime  # noqa: PLC0415  (heavy)

        onnxruntime.disable_telemetry_events()
        with zipfile.ZipFile(wheel) as packed:
            content = packed.read(MEMBER)
        self.digest, self.inputs = hashlib.sha256(content).hexdigest(), [Input("z", "float32", (None, WIDTH + 1))]
        self._session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        mixing = np.random.default_rng(0).standard_normal((WIDTH, SIDE * SIDE))
        self._mixing = (mixing / np.linalg.norm(mixing, axis=0)).astype(np.float32)

    def run(self, given: Mapping[str, Any]) -> Any:
        """Return terrains, (n, 1, 128, 128), from -1 to 1."""
        z = given["z"]
        noisy = SIGMA * (z[:, :WIDTH] @ self._mixing).reshape(len(z), 1, SIDE, SIDE)
        difficulty = np.clip(0.5 + 0.3 * z[:, WIDTH], 0, 1)
        sigma = np.full(len(z), SIGMA, np.float32)
        asked = {"noisy": noisy.astype(np.float32), "sigma": sigma, "difficulty": difficulty.astype(np.float32)}
        return np.clip(self._session.run(None, asked)[0], -1, 1)


def windows() -> tuple[Any, Any]:
    """Return the points of windows that vote, and of those that score."""
    from matplotlib.cbook import get_sample_data  # noqa: PLC0415  (heavy)

    stored: Any = get_sample_data("jacksboro_fault_dem.npz")
    heights = stored["elevation"].astype(np.float64)
    edge = int(PRIVATE * heights.shape[1])
    parts = []
    for columns in (range(0, edge - WINDOW + 1, STRIDE), range(edge, heights.shape[1] - WINDOW + 1, STRIDE)):
        images = []
        for row in range(0, heights.shape[0] - WINDOW + 1, STRIDE):
            for column in columns:
                cut = heights[row : row + WINDOW, column : column + WINDOW]
                relief = RELIEF * (cut - cut.min()) / (cut.max() - cut.min())
                shades = np.arcsinh(relief / KNEE) / np.arcsinh(RELIEF / KNEE)
                images.append(fitted(np.rint(255 * shades).astype(np.uint8)[..., None], SHAPE))
        parts.append(PixelEmbedder().embed(as_images(images)))
    return parts[0], parts[1]


def main() -> None:
    """Run some seeds, and write a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    private, real = windows()
    print(len(private), "windows vote,", len(real), "score", flush=True)
    generator, embed = LatentImages(asked.wheel, SHAPE, engine=Terrain(asked.wheel)), PixelEmbedder().embed
    rows = list[dict[str, Any]]()
    for seed in range(asked.seeds):
        values: dict[str, Any] = {"modality": "images", "generator": "onnx:terrain", "epsilon": asked.epsilon}
        values |= {"samples": asked.samples, "rounds": asked.rounds, "seed": seed, "scales": (0.1, 0.3, 0.6)}
        records = Records(np.empty(len(private), dtype=object), None, None, 0, "Jacksboro")
        settings = resolved(Settings.of(values), records)
        plan = make_plan(settings)
        electorate = LocalElectorate(
            private, votes_per_unit=plan.votes_per_unit, votes_per_record=plan.votes_per_record
        )
        parts = generator, Cached(PixelEmbedder()), electorate, make_selector(settings, plan)
        with free_account() as account:
            for state in evolve(plan, *parts, account, noise=SeededNoise(seed)):
                if state.proposal is None:
                    gap = mean_nearest_distance(real, embed(state.synthetic[: asked.samples]))
                    rows.append({"seed": seed, "round": state.round, "distance": gap})
                    write_rows(asked.out, "terrain", rows)


if __name__ == "__main__":
    main()
