"""Rare digits among common ones, without labels: which of the ten kinds survive, by rule of selection.

    python experiments/images/rare.py --epsilon 4 --seeds 5

7,500 digits of MNIST vote: 6,600 ones and 100 of each other digit. The generator draws all ten digits in turn, and
knows nothing of their frequencies. All rules have the same start, generator, guarantee and number of samples. A kind is
kept if one of the last samples shows it: its generator noted it, and a network that was trained on 10,000 real digits
reads it as this kind. (A seven may have become a one in all but the note.) The distance is that from 1,000 rare digits
that did not vote to the nearest sample. The noise is drawn from a seed: this is for data that may be looked at. The
picture shows the last samples of the first seed by three rules.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.images.digits import RULES, settings_of
from experiments.images.network import trained

from gape.cli.demos.digits import read_mnist
from gape.core.types import Points, Samples
from gape.embedders.cached import Cached
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import as_images, note_of, stack
from gape.evaluation.plots import figure
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
READ = 10_000
PICTURED, COLUMNS = ("default", "AugPE", "ranking, equal votes"), 8


Reader = Callable[[Any], Any]  # from pixels, (n, 28, 28), to digits


def unbalanced() -> tuple[Points, Points]:
    """Return the points of the digits that vote, and of rare ones that do not."""
    (images, labels), (tested, truth) = read_mnist()
    chosen = [np.flatnonzero(labels == digit)[: COMMON if digit == 1 else RARE] for digit in range(10)]
    embed = PixelEmbedder().embed
    held_out = tested[np.flatnonzero(truth != 1)[:1000]]
    return embed(as_images(images[np.concatenate(chosen)][..., None])), embed(as_images(held_out[..., None]))


def reader() -> Reader:
    """Return a network that reads digits, trained on the last 10,000 real ones for training."""
    (images, labels), _ = read_mnist()
    return trained(images[-READ:], labels[-READ:], 0)


def evolved(private: Points, rule: str, seed: int, asked: argparse.Namespace) -> tuple[Samples, int]:
    """Run once, and return the last samples, and how many votes each record had."""
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
    return samples, plan.votes_per_record


def kept(samples: Samples, read: Reader) -> str:
    """Return what the samples show, sorted, with a dot for one that is read as another digit than was noted."""
    noted = [json.loads(note_of(sample))[0] for sample in samples]
    seen = read(stack(samples)[..., 0])
    return "".join(sorted(digit if digit == str(other) else "." for digit, other in zip(noted, seen, strict=True)))


def kinds_in(shown: str) -> int:
    """Return how many kinds there are."""
    return len(set(shown) - {"."})


def scored(rare: Points, samples: Samples, votes: int, read: Reader) -> dict[str, Any]:
    """Count the kinds that are left."""
    shown = kept(samples, read)
    return {
        "kinds": kinds_in(shown),
        "distance of rare digits": mean_nearest_distance(rare, PixelEmbedder().embed(samples)),
        "votes": votes,
        "shown": shown,
    }


def draw(path: Path, panels: dict[str, tuple[Samples, str]]) -> None:
    """Draw the samples of each rule, rows of them sorted by the noted digit."""
    with figure(path, columns=len(panels), size=(3.4 * len(panels), 2.5)) as (_, axes):
        for axis, (rule, (samples, shown)) in zip(axes[0], panels.items(), strict=True):
            noted = [json.loads(note_of(sample))[0] for sample in samples]
            images = stack(samples[np.argsort(noted, kind="stable")])[..., 0]  # (m, h, w)
            rows = images.reshape(-1, COLUMNS, *images.shape[1:])
            sheet = np.concatenate([np.concatenate(row, axis=1) for row in rows])
            axis.imshow(sheet, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            kinds = kinds_in(shown)
            axis.set(title=f"{rule}: {kinds} kind{'' if kinds == 1 else 's'} of ten", xticks=[], yticks=[])


def main() -> None:
    """Run all rules, and write a line for each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--picture", type=Path, default=Path(__file__).parents[2] / "docs" / "images" / "rare.png")
    asked = parser.parse_args()
    (private, rare), read, rows = unbalanced(), reader(), list[dict[str, Any]]()
    panels: dict[str, tuple[Samples, str]] = {}
    for seed in range(asked.seeds):
        for rule in RULES:
            samples, votes = evolved(private, rule, seed, asked)
            rows.append({"rule": rule, "seed": seed, **scored(rare, samples, votes, read)})
            write_rows(asked.out, "rare", rows)
            if seed == 0 and rule in PICTURED:
                panels[rule] = samples, rows[-1]["shown"]
    draw(asked.picture, panels)


if __name__ == "__main__":
    main()
