"""Rare digits among common ones, without labels: which of the ten kinds survive, by rule of selection.

    python experiments/images/rare.py --epsilon 4 --seeds 5

7,500 digits of MNIST vote: 6,600 ones and 100 of each other digit. The generator draws all ten digits in turn, and
knows nothing of their frequencies. All rules have the same start, generator, guarantee and number of samples. A kind is
kept if one of the last samples shows it; its generator noted which. The distance is that from 1,000 rare digits that
did not vote to the nearest sample. The noise is drawn from a seed: this is for data that may be looked at.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.images.digits import RULES, settings_of

from gape.cli.demos.digits import read_mnist
from gape.core.types import Points, Samples
from gape.embedders.cached import Cached
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import as_images, note_of
from gape.evolution.evolve import evolve
from gape.generators.images.faces import Faces
from gape.generators.images.fonts import FontImages
from gape.metrics import mean_nearest_distance
from gape.modalities import Records
from gape.privacy.noise import SeededNoise
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.voting.electorate import LocalElectorate

COMMON, RARE = 6600, 100


def unbalanced() -> tuple[Points, Points]:
    """Return the points of the digits that vote, and of rare ones that do not."""
    (images, labels), (tested, truth) = read_mnist()
    chosen = [np.flatnonzero(labels == digit)[: COMMON if digit == 1 else RARE] for digit in range(10)]
    embed = PixelEmbedder().embed
    held_out = tested[np.flatnonzero(truth != 1)[:1000]]
    return embed(as_images(images[np.concatenate(chosen)][..., None])), embed(as_images(held_out[..., None]))


def scored(private: Points, rare: Points, rule: str, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Run once, and count the kinds that are left."""
    records = Records(np.empty(len(private), dtype=object), None, None, 0, "MNIST")
    default = resolved(settings_of("default", asked.epsilon, None, asked, seed, labels=None), records)
    votes = default.votes_per_record
    settings = resolved(settings_of(rule, asked.epsilon, votes, asked, seed, labels=None), records)
    plan = make_plan(settings)
    electorate = LocalElectorate(private, votes_per_unit=plan.votes_per_unit, votes_per_record=plan.votes_per_record)
    parts = FontImages(faces=Faces()), Cached(PixelEmbedder()), electorate
    samples: Samples = np.empty(0, dtype=object)
    with free_account() as account:
        for state in evolve(plan, *parts, make_selector(settings, plan), account, noise=SeededNoise(seed)):
            samples = state.synthetic
    kinds = [json.loads(note_of(sample))[0] for sample in samples]
    return {
        "kinds": len(set(kinds)),
        "share of ones": kinds.count("1") / len(kinds),
        "distance of rare digits": mean_nearest_distance(rare, PixelEmbedder().embed(samples)),
        "votes": plan.votes_per_record,
    }


def main() -> None:
    """Run all rules, and write a line for each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    (private, rare), rows = unbalanced(), list[dict[str, Any]]()
    for seed in range(asked.seeds):
        for rule in RULES:
            rows.append({"rule": rule, "seed": seed, **scored(private, rare, rule, seed, asked)})
            write_rows(asked.out, "rare", rows)


if __name__ == "__main__":
    main()
