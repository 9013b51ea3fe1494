"""CIFAR-10 with half of it as a public corpus, by four rules of selection at one guarantee.

    python experiments/images/cifar.py pack --cifar FOLDER --out CARRIED
    python experiments/images/cifar.py run --carried CARRIED --features FOLDER --epsilons 1,10 --seeds 0,1,2

25,000 images vote, 25,000 others are the public corpus, without labels. Those for testing score: FID by all 10,000 of
them, recall and W1 by the first 2,000, and the accuracy of logistic regression on points, trained on the synthetic
images. `embed_cifar.py` makes the features. The noise is drawn from a seed: this is for data that may be looked at.
"""

import argparse
import csv
import io
import json
import math
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.images.by_label import LABELS, ByLabel
from experiments.images.embed_cifar import GRID, SIDE, from_bytes, tiled

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, Points, Samples, as_samples
from gape.embedders.images.inception import SCALE
from gape.evolution.evolve import evolve
from gape.generators.corpus import CorpusText
from gape.generators.labels import LabelledEmbedder, LabelledGenerator
from gape.metrics import balls, classify, frechet, wasserstein1
from gape.modalities import Records
from gape.privacy.noise import SeededNoise
from gape.runs.resolve import VARIATIONS, make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings

PRIVATE, PUBLIC, TESTED, COMPARED = 25_000, 25_000, 10_000, 2_000
# Selector, and votes of each record; None: as many as suit the noise.
RULES: dict[str, tuple[str, int | None]] = {
    "one vote": ("gape", 1),
    "default": ("gape", None),
    "ranking, equal votes": ("ranking", None),
    "AugPE": ("ranking", 1),
    "SubsamplePE": ("subsampling", 1),
    "default, 8 votes": ("gape", 8),
    "ranking, 8 votes": ("ranking", 8),
}
QUALITY, FIRST = 95, 32_000_000  # of JPEG; bytes of the weights in the first part


def shuffled(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Return the images, (n, 32, 32, 3), and their labels in an order of no meaning, and those for testing."""
    from PIL import Image  # noqa: PLC0415  (not needed to run)

    def read(sheets: str, names: str) -> tuple[Any, Any]:
        images = np.concatenate([np.asarray(Image.open(path).convert("RGB")) for path in sorted(folder.glob(sheets))])
        return images.reshape(-1, SIDE, SIDE, 3), np.array(json.loads((folder / names).read_text()))

    images, labels = read("data_batch_*.png", "train_lables.json")
    order = np.random.default_rng(0).permutation(len(images))
    return images[order], labels[order], *read("test_batch.png", "test_lables.json")


def pack(folder: Path, out: Path) -> None:
    """Write sheets of images, and the weights of Inception in 16 bits, in three parts; labels stay here."""
    import torch  # noqa: PLC0415  (heavy)
    from PIL import Image  # noqa: PLC0415  (not needed to run)

    from gape.embedders.images.inception import Inception  # noqa: PLC0415  (heavy)

    images, labels, tested, truth = shuffled(folder)
    private, public = slice(PRIVATE), slice(PRIVATE, PRIVATE + PUBLIC)
    for part in "123":
        (out / part).mkdir(parents=True, exist_ok=True)
    for part, what, some in (
        ("3", "private", images[private]),
        ("2", "public", images[public]),
        ("3", "test", tested),
    ):
        for number in range(len(some) // GRID**2):
            sheet = tiled(some[number * GRID**2 : (number + 1) * GRID**2])
            Image.fromarray(sheet).save(
                out / part / f"{what}-{number:02d}.jpg", quality=QUALITY, subsampling=0, optimize=True
            )
    np.savez(out / "labels.npz", private=labels[private], public=labels[public], test=truth)
    sink = io.BytesIO()
    torch.jit.save(Inception()._network.half(), sink)
    weights = sink.getvalue()
    (out / "1" / "inception16-0.bin").write_bytes(weights[:FIRST])
    (out / "2" / "inception16-1.bin").write_bytes(weights[FIRST:])


@dataclass(frozen=True)
class Cifar:
    """Points of private, public and test images, (n, d), in this order; features of the last two; all labels."""

    points: Points
    features: Points
    labels: Any
    private: int = PRIVATE
    public: int = PUBLIC

    @classmethod
    def read(cls, carried: Path, folder: Path) -> Self:
        """Read what `embed_cifar.py` made."""
        with np.load(folder / "basis.npz") as basis, np.load(carried / "labels.npz") as labels:
            mean, components, largest = basis["mean"], basis["components"].astype(np.float32), basis["largest"]
            known = np.concatenate([labels[what] for what in ("private", "public", "test")]).astype(str)
        coded = np.concatenate([_joined(folder, what) for what in ("public", "test")])
        features = from_bytes(coded.astype(np.float32), largest)
        private = _joined(folder, "private").astype(np.float32)
        points = np.concatenate([private, (features - mean) @ components]) / SCALE
        return cls(points.astype(np.float32), features, known)

    def embed(self, samples: Samples) -> Points:
        """Return the points of images, which are named by their numbers."""
        return self.points[[int(sample) for sample in samples]]

    @cached_property
    def corpus(self) -> CorpusText:
        """The public images."""
        return _Sorted([str(number) for number in range(self.private, self.private + self.public)], self)


class _Sorted(CorpusText):
    """A corpus whose neighbours are sorted once for all runs; it draws as `CorpusText` does."""

    @cached_property
    def _order(self) -> Any:
        count = len(self._corpus)
        most = math.ceil((count - 1) ** max(VARIATIONS["corpus"][0]))
        order, step = np.empty((count, most), dtype=np.uint16), 500
        for start in range(0, count, step):
            rows = np.arange(start, min(start + step, count))
            away = distances(self._points[rows], self._points)
            away[np.arange(len(rows)), rows] = np.inf
            near = np.argpartition(away, most, axis=1)[:, :most]
            sorted_ = np.argsort(np.take_along_axis(away, near, axis=1), axis=1)
            order[rows] = np.take_along_axis(near, sorted_, axis=1)
        return order

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Draw one neighbour of each image, all of which are in the corpus."""
        ranks = rng.integers(np.ceil(float(len(self._corpus) - 1) ** scales).astype(np.int64))
        near: Indices = self._order[self._own(samples), ranks].astype(np.int64)
        return self._corpus[near]


def settings_of(rule: str, epsilon: float, seed: int, records: int, asked: argparse.Namespace) -> Settings:
    """Return the resolved settings of a rule for so many private images."""
    selector, votes = RULES[rule]
    values: dict[str, Any] = {
        "modality": "images",
        "generator": f"corpus:{asked.carried}",
        "label": "label",
        "labels": LABELS,
    }
    values |= {"samples": asked.samples, "rounds": asked.rounds, "seed": seed, "keep": rule != "SubsamplePE"}
    private = Records(np.empty(records, dtype=object), None, None, 0, "CIFAR-10")
    values |= {"epsilon": epsilon}
    votes = votes or resolved(Settings.of(values), private).votes_per_record
    return resolved(Settings.of({**values, "selector": selector, "votes_per_record": votes}), private)


def scored(data: Cifar, rule: str, epsilon: float, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Run once, and score the last samples by images that did not vote."""
    began, points = time.perf_counter(), data.points
    private = slice(0, data.private)
    settings = settings_of(rule, epsilon, seed, data.private, asked)
    plan = make_plan(settings)
    electorate = ByLabel(points[private], data.labels[private], plan.votes_per_record)
    generator = LabelledGenerator(dict.fromkeys(LABELS, data.corpus))
    samples: Samples = as_samples([])
    with free_account() as account:
        parts = generator, LabelledEmbedder(data, LABELS), electorate, make_selector(settings, plan), account
        for state in evolve(plan, *parts, noise=SeededNoise(seed)):
            samples = state.synthetic
    rows = np.array([int(sample) for sample in samples["text"]])
    seconds = time.perf_counter() - began
    return {"votes": plan.votes_per_record, **measured(data, rows, samples["label"]), "seconds": seconds}


def measured(data: Cifar, rows: Indices, labels: Any) -> dict[str, Any]:
    """Score public images, by their numbers, under these labels."""
    points, test = data.points, slice(data.private + data.public, None)
    compared = points[test][:COMPARED]
    (inside,) = balls(compared, points[rows], 3)
    found = classify(points[rows], labels.tolist(), points[test], data.labels[test].tolist())
    return {
        "FID": frechet(data.features[data.public :], data.features[rows - data.private]),
        "accuracy": found.accuracy,
        "right labels": float((data.labels[rows] == labels).mean()),
        "recall": inside.recall,
        "precision": inside.precision,
        "W1": wasserstein1(compared, points[rows]),
        "distinct": len(set(rows.tolist())),
    }


def by_chance(data: Cifar, seeds: list[int], count: int) -> list[dict[str, Any]]:
    """Score public images that are drawn at random, with their true labels."""
    drawn = {seed: PRIVATE + np.random.default_rng(seed).choice(PUBLIC, count, replace=False) for seed in seeds}
    return [{"seed": seed, **measured(data, rows, data.labels[rows])} for seed, rows in drawn.items()]


def run(asked: argparse.Namespace) -> None:
    """Run all rules that have no line yet, and write a line for each as soon as it is known."""
    data, path = Cifar.read(asked.carried, asked.features), asked.out / "cifar.csv"
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    write_rows(asked.out, "cifar_by_chance", by_chance(data, seeds, asked.samples))
    rows = list[dict[str, Any]](csv.DictReader(path.open())) if path.exists() else []
    known = {(float(row["epsilon"]), row["rule"], int(row["seed"])) for row in rows}
    for seed in seeds:
        for epsilon in map(float, asked.epsilons.split(",")):
            for rule in RULES:
                if (epsilon, rule, seed) in known:
                    continue
                found = scored(data, rule, epsilon, seed, asked)
                rows.append({"epsilon": epsilon, "rule": rule, "seed": seed, **found})
                write_rows(asked.out, "cifar", rows)


def _joined(folder: Path, what: str) -> Any:
    return np.concatenate([np.load(path) for path in sorted(folder.glob(f"{what}-*.npy"))])


def main() -> None:
    """Pack or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "run"])
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--carried", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    pack(asked.cifar, asked.out) if asked.what == "pack" else run(asked)


if __name__ == "__main__":
    main()
