"""CIFAR-10 with public images of the same kind as a corpus, by four rules of selection at one guarantee.

    python experiments/images/cifar.py pack --cifar FOLDER --out CARRIED
    python experiments/images/cifar.py run --carried CARRIED --features FOLDER --epsilons 1,10 --seeds 3

5,000 images vote, 5,000 others are the public corpus, without labels, and 2,000 of those for testing score: FID, recall
and W1 by Inception features, and the accuracy of logistic regression on these, trained on the synthetic images.
`embed_cifar.py` makes the features. The noise is drawn from a seed: this is for data that may be looked at.
"""

import argparse
import io
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.images.by_label import LABELS, ByLabel
from experiments.images.embed_cifar import PARTS, unpacked

from gape.core.types import Points, Samples, as_samples
from gape.embedders.images.inception import SCALE
from gape.evolution.evolve import evolve
from gape.generators.corpus import CorpusText
from gape.generators.labels import LabelledEmbedder, LabelledGenerator
from gape.metrics import balls, classify, frechet, wasserstein1
from gape.modalities import Records
from gape.privacy.noise import SeededNoise
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings

PRIVATE, PUBLIC, TESTED = 5000, 5000, 2000
SELECTORS = {"default": "gape", "AugPE": "ranking", "SubsamplePE": "subsampling"}


def pack(folder: Path, out: Path) -> None:
    """Write images as JPEG files with their labels, and the weights of Inception in 16 bits."""
    import torch  # noqa: PLC0415  (heavy)

    from gape.embedders.images.inception import Inception  # noqa: PLC0415  (heavy)

    rng = np.random.default_rng(0)
    files, labels = [], []
    for sheets, names, count in (
        ("data_batch_*.png", "train_lables.json", PRIVATE + PUBLIC),
        ("test_batch.png", "test_lables.json", TESTED),
    ):
        images = np.concatenate([np.asarray(Image.open(path).convert("RGB")) for path in sorted(folder.glob(sheets))])
        images, all_labels = images.reshape(-1, 32, 32, 3), json.loads((folder / names).read_text())
        for index in rng.permutation(len(images))[:count]:
            sink = io.BytesIO()
            Image.fromarray(images[index]).save(sink, "JPEG", quality=90)
            files.append(sink.getvalue())
            labels.append(all_labels[index])
    out.mkdir(parents=True, exist_ok=True)
    ends = np.cumsum([len(file) for file in files])
    np.savez(out / "cifar.npz", files=np.frombuffer(b"".join(files), np.uint8), ends=ends, labels=np.array(labels))
    torch.jit.save(Inception()._network.half(), str(out / "inception16.pt"))


@dataclass(frozen=True)
class Known:
    """Embeds the images that are known, by their numbers."""

    points: Points

    def embed(self, samples: Samples) -> Points:
        """Return the points of images."""
        return self.points[[int(sample) for sample in samples]]


def scored(
    features: Points, labels: Any, rule: str, epsilon: float, seed: int, asked: argparse.Namespace
) -> dict[str, Any]:
    """Run once, and score the last samples by images that did not vote."""
    began, points = time.perf_counter(), features / np.float32(SCALE)
    private, test = slice(0, PRIVATE), slice(PRIVATE + PUBLIC, None)
    corpus = f"corpus:{asked.carried / 'cifar.npz'}"
    values = {"modality": "images", "generator": corpus, "label": "label", "labels": LABELS, "epsilon": epsilon}
    values |= {"samples": asked.samples, "rounds": asked.rounds, "seed": seed, "keep": rule != "SubsamplePE"}
    records = Records(np.empty(PRIVATE, dtype=object), labels[private], None, 0, "CIFAR-10")
    settings = resolved(Settings.of(values, {"selector": SELECTORS[rule]}), records)
    plan = make_plan(settings)
    chosen = CorpusText([str(number) for number in range(PRIVATE, PRIVATE + PUBLIC)], Known(points))
    generator = LabelledGenerator(dict.fromkeys(LABELS, chosen))
    electorate = ByLabel(points[private], labels[private], plan.votes_per_record)
    samples: Samples = as_samples([])
    with free_account() as account:
        parts = generator, LabelledEmbedder(Known(points), LABELS), electorate, make_selector(settings, plan), account
        for state in evolve(plan, *parts, noise=SeededNoise(seed)):
            samples = state.synthetic
    rows = [int(sample) for sample in samples["text"]]
    (inside,) = balls(points[test], points[rows], 3)
    return {
        "FID": frechet(features[test], features[rows]),
        "accuracy": classify(points[rows], samples["label"].tolist(), points[test], labels[test].tolist()).accuracy,
        "right labels": float((labels[rows] == samples["label"]).mean()),
        "recall": inside.recall,
        "precision": inside.precision,
        "W1": wasserstein1(points[test], points[rows]),
        "distinct": len(set(rows)),
        "seconds": time.perf_counter() - began,
    }


def run(asked: argparse.Namespace) -> None:
    """Run all rules, and write a line for each as soon as it is known."""
    _, labels = unpacked(asked.carried / "cifar.npz")
    parts = [np.load(asked.features / f"features-{number}.npy") for number in range(PARTS)]
    features, rows = np.concatenate(parts).astype(np.float32), list[dict[str, Any]]()
    for seed in range(asked.seeds):
        for epsilon in map(float, asked.epsilons.split(",")):
            for rule in SELECTORS:
                found = scored(features, labels.astype(str), rule, epsilon, seed, asked)
                rows.append({"epsilon": epsilon, "rule": rule, "seed": seed, **found})
                write_rows(asked.out, "cifar", rows)


def main() -> None:
    """Pack or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "run"])
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--carried", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    pack(asked.cifar, asked.out) if asked.what == "pack" else run(asked)


if __name__ == "__main__":
    main()
