"""Synthetic digits by fonts for the 60,000 of MNIST, by four rules of selection at one guarantee.

    python experiments/images/digits.py --epsilons 1,10 --seeds 3 --samples 1000 --rounds 10

All rules have the same start, generator, noise per release and number of releases. The default lets a record vote for
several candidates, as many as suit the noise; "ranking, equal votes" ranks the same votes. A small network is trained
on the last samples and five variations of each, which cost no privacy, and tested on the 10,000 digits for testing.
Recall, W1 and the distance to the nearest sample are those of 2,000 of these, by pixels. The noise is drawn from a
seed: this is for data that may be looked at.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.images.by_label import LABELS, ByLabel
from experiments.images.network import network_accuracy

from gape.cli.demos.digits import read_mnist
from gape.core.types import Points, Samples
from gape.embedders.cached import Cached
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import as_images, stack
from gape.evolution.evolve import evolve
from gape.generators.images.faces import Faces
from gape.generators.images.fonts import FontImages
from gape.generators.labels import LabelledEmbedder, LabelledGenerator
from gape.metrics import balls, mean_nearest_distance, wasserstein1
from gape.modalities import Records
from gape.privacy.noise import SeededNoise
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings

RULES = ("default", "AugPE", "SubsamplePE", "ranking, equal votes")
SCORED = 2000
EXTRA = 5  # variations of each last sample to train on


@dataclass(frozen=True)
class Digits:
    """The private digits as points, and those for testing."""

    private: Points
    labels: Any
    tested: Any  # pixels
    truth: Any

    @classmethod
    def read(cls) -> "Digits":
        """Read MNIST."""
        (images, labels), (tested, truth) = read_mnist()
        return cls(PixelEmbedder().embed(as_images(images[..., None])), labels.astype(str), tested, truth)


def settings_of(
    rule: str,
    epsilon: float,
    votes: int | None,
    asked: argparse.Namespace,
    seed: int,
    labels: tuple[str, ...] | None = LABELS,
) -> Settings:
    """Return the settings of a rule."""
    selectors = {"default": "gape", "AugPE": "ranking", "SubsamplePE": "subsampling", "ranking, equal votes": "ranking"}
    values = {
        "modality": "images",
        "label": None if labels is None else "label",
        "labels": labels,
        "epsilon": epsilon,
        "samples": asked.samples,
        "rounds": asked.rounds,
        "selector": selectors[rule],
        "keep": rule != "SubsamplePE",
        "seed": seed,
        "votes_per_record": {"default": None, "ranking, equal votes": votes}.get(rule, 1),
    }
    return Settings.of(values)


def scored(data: Digits, rule: str, epsilon: float, seed: int, asked: argparse.Namespace) -> dict[str, float]:
    """Run once, and score the last samples by digits that did not vote."""
    began = time.perf_counter()
    records = Records(np.empty(len(data.private), dtype=object), data.labels, None, 0, "MNIST")
    default = resolved(settings_of("default", epsilon, None, asked, seed), records)
    settings = resolved(settings_of(rule, epsilon, default.votes_per_record, asked, seed), records)
    plan, faces = make_plan(settings), Faces()
    generator = LabelledGenerator({label: FontImages(characters=label, faces=faces) for label in LABELS})
    embedder = Cached(PixelEmbedder())
    electorate = ByLabel(data.private, data.labels, plan.votes_per_record)
    families = np.arange(0)
    samples: Samples = np.empty(0, dtype=object)
    with free_account() as account:
        parts = generator, LabelledEmbedder(embedder, LABELS), electorate, make_selector(settings, plan), account
        parents = None
        for state in evolve(plan, *parts, noise=SeededNoise(seed)):
            if state.proposal is not None:
                parents = state.proposal.parents
                continue
            samples = state.synthetic
            chosen = None if state.selection is None or parents is None else parents[state.selection.indices]
            families = np.arange(len(samples)) if chosen is None else families[chosen]
    return {
        **scores(data, samples, generator, embedder, seed),
        "lineages": float(len(set(families.tolist()))),
        "classes": float(len(set(samples["label"]))),
        "seconds": time.perf_counter() - began,
        "votes": float(plan.votes_per_record),
    }


def scores(
    data: Digits, samples: Samples, generator: LabelledGenerator, embedder: Cached, seed: int
) -> dict[str, float]:
    """Score samples by the digits for testing."""
    rng = np.random.default_rng([seed, *b"scores"])
    some = rng.permutation(len(data.tested))[:SCORED]
    real = PixelEmbedder().embed(as_images(data.tested[some][..., None]))
    points = embedder.embed(samples["text"])
    (inside,) = balls(real, points, 3)
    more = [generator.vary(samples, np.full(len(samples), scale), rng) for scale in np.linspace(0.1, 0.3, EXTRA)]
    taught = np.concatenate([samples, *more])
    return {
        "accuracy": network_accuracy(
            stack(taught["text"])[..., 0], taught["label"].astype(np.int64), data.tested, data.truth, seed
        ),
        "recall": inside.recall,
        "precision": inside.precision,
        "distance": mean_nearest_distance(real, points),
        "W1": wasserstein1(real, points),
    }


def main() -> None:
    """Run all rules, and write a line for each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rules", default=";".join(RULES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    data, rows = Digits.read(), list[dict[str, Any]]()
    for seed in range(asked.seeds):
        for epsilon in map(float, asked.epsilons.split(",")):
            for rule in asked.rules.split(";"):
                found = scored(data, rule, epsilon, seed, asked)
                rows.append({"epsilon": epsilon, "rule": rule, "seed": seed, **found})
                write_rows(asked.out, "digits", rows)


if __name__ == "__main__":
    main()
