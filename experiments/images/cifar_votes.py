"""For how many candidates an image should vote among public images: fewer of CIFAR-10, embedded on a CPU in minutes.

    python experiments/images/cifar_votes.py --cifar FOLDER --kept FOLDER --carried FILE

10,000 images vote with ten labels, 10,000 others are the public corpus, without labels, and 2,000 of those for testing
score. They are embedded by the convolutions of Inception, at 107 pixels instead of 299, and compared by the 256
principal components of the public ones. The FID is that of these components: it compares with this table alone.
`--carried` is any file; it stands for the corpus in the settings.
"""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import write_rows
from experiments.images.cifar import Cifar, scored, shuffled

from gape.core.types import Points

PRIVATE, PUBLIC, TESTED = 10_000, 10_000, 2_000
NETWORK, DIMENSIONS, BATCH = 107, 256, 50
SHORTER = 150.0  # by which components are divided, so that all norms are below 1
RULES = ("one vote", "default", "default, 8 votes", "AugPE", "ranking, 8 votes")


def images_of(folder: Path) -> tuple[Any, Any]:
    """Return the images, (n, 32, 32, 3), private, public and for testing, and their labels."""
    images, labels, tested, truth = shuffled(folder)
    half = len(images) // 2
    some = np.r_[:PRIVATE, half : half + PUBLIC]
    return np.concatenate([images[some], tested[:TESTED]]), np.concatenate([labels[some], truth[:TESTED]]).astype(str)


def embedded(images: Any) -> Any:
    """Return the means of the last convolutions of Inception, (n, 2048)."""
    import torch  # noqa: PLC0415  (heavy)

    from gape.embedders.images.inception import Inception  # noqa: PLC0415  (heavy)

    *convolutions, _ = Inception()._network.net.layers.children()  # the last part pools 8 x 8 places

    def features(batch: Any) -> Any:
        pixels = torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255
        x = torch.nn.functional.interpolate(pixels, (NETWORK, NETWORK), mode="bilinear", align_corners=False)
        x = (x - 0.5) / 0.5
        for layer in convolutions:
            x = layer(x)
        return x.mean((2, 3)).numpy()

    with torch.inference_mode():
        return np.concatenate([features(images[start : start + BATCH]) for start in range(0, len(images), BATCH)])


def prepared(features: Any, labels: Any) -> Cifar:
    """Return what is compared: principal components of the public features."""
    public = features[PRIVATE : PRIVATE + PUBLIC].astype(np.float64)
    mean = public.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov((public - mean).T))
    components: Points = ((features - mean) @ vectors[:, -DIMENSIONS:]).astype(np.float32)
    return Cifar(components / np.float32(SHORTER), components[PRIVATE:], labels, PRIVATE, PUBLIC)


def main() -> None:
    """Embed unless that is kept, and run all rules that have no line yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", type=Path, required=True)
    parser.add_argument("--kept", type=Path, required=True, help="folder that keeps the features")
    parser.add_argument("--carried", type=Path, default=Path(__file__))
    parser.add_argument("--epsilons", default="0.5,1,4,10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    images, labels = images_of(asked.cifar)
    file = asked.kept / f"cifar-{NETWORK}.npy"
    if not file.exists():
        asked.kept.mkdir(parents=True, exist_ok=True)
        np.save(file, embedded(images).astype(np.float16))
    data, path = prepared(np.load(file).astype(np.float32), labels), asked.out / "cifar_votes.csv"
    rows = list[dict[str, Any]](csv.DictReader(path.open())) if path.exists() else []
    known = {(float(row["epsilon"]), row["rule"], int(row["seed"])) for row in rows}
    for seed in range(asked.seeds):
        for epsilon in map(float, asked.epsilons.split(",")):
            for rule in RULES:
                if (epsilon, rule, seed) in known:
                    continue
                found = scored(data, rule, epsilon, seed, asked)
                rows.append({"epsilon": epsilon, "rule": rule, "seed": seed, **found})
                write_rows(asked.out, "cifar_votes", rows)


if __name__ == "__main__":
    main()
