"""How the stars are told to a small model, and whether its reviews agree with them.

    python experiments/mixed/told.py value meaning both --private FILE --held-out FILE --count 100 --out FILE

Writes reviews for all stars equally often, one line of JSON per way of telling. A classifier trained on real reviews
reads the stars in each text: `correlation` is that of the given stars with the expected stars. `balanced` is the
balanced accuracy on held-out reviews of a classifier trained on the written ones. NOT differentially private.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.mixed.run import HERE, Reviews

from gape.core.types import Floats, Points, as_samples
from gape.embedders.minilm import MiniLM
from gape.generators.asking import ask, random_draft
from gape.generators.prompts import Prompts, generic, topic_lists
from gape.language.embedded import EmbeddedModel
from gape.language.weights import SMOLLM2, fetch
from gape.metrics import classify
from gape.metrics.usefulness import _logistic_regression
from gape.modalities.mixed.schema import MixedSchema

_PLACES = ("the lowest", "the second lowest", "in the middle", "the second highest", "the highest")


def prompts_for(way: str, stars: str, category: str, plain: Prompts, schema: MixedSchema) -> Prompts:
    """Return the prompts that tell the stars in one of the ways."""
    told, place = schema.telling["stars"], _PLACES[int(stars) - 1]
    lines = {
        "value": f"stars: {stars}\ncategory: {category}",
        "place": f"stars: {stars} ({place} of 1 to 5)\ncategory: {category}",
        "meaning": f"category: {category}\n{told.means[stars]}",
        "both": f"category: {category}\n{told.means[stars]}",
    }
    openings = told.openings[stars] if way == "both" else plain.openings
    return replace(plain, cells=lines[way], openings=openings)


def expected_stars(real: Points, stars: list[str], points: Points) -> Floats:
    """Return the stars that a classifier trained on real reviews expects of texts."""
    centre = real.mean(axis=0)
    size = np.sqrt(((real - centre) ** 2).sum(axis=1).mean())
    targets = np.array([int(value) - 1 for value in stars])
    weights, biases = _logistic_regression((real - centre) / size, targets, 5, 1e-3)
    logits = (points - centre) / size @ weights + biases
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected: Floats = shares @ np.arange(1, 6) / shares.sum(axis=1)
    return expected


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="+", choices=("value", "place", "meaning", "both"))
    parser.add_argument("--private", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    schema = MixedSchema.read(HERE / "yelp.toml")
    plain = generic("customer reviews of local businesses", topic_lists()["reviews"], 60)
    embedder, model = MiniLM(), EmbeddedModel(fetch(SMOLLM2))
    private, held_out = Reviews.read(asked.private, 5000), Reviews.read(asked.held_out, 1500)
    real, tested = (embedder.embed(as_samples(side.texts)) for side in (private, held_out))
    categories = sorted(set(private.categories or ()))
    for way in asked.ways:
        rng, began = np.random.default_rng(1), time.monotonic()
        stars = [str(index % 5 + 1) for index in range(asked.count)]
        drawn = rng.choice(categories, asked.count)
        drafts = [
            random_draft(prompts_for(way, value, category, plain, schema), 1.0, rng, opened=True)
            for value, category in zip(stars, drawn, strict=True)
        ]
        texts = ask(model, drafts)
        written = [index for index, text in enumerate(texts) if text is not None]
        points = embedder.embed(as_samples([texts[index] for index in written]))
        given = [stars[index] for index in written]
        expected = expected_stars(real, private.stars, points)
        line = {
            "told": way,
            "texts": len(written),
            "correlation": float(np.corrcoef([int(value) for value in given], expected)[0, 1]),
            "balanced": classify(points, given, tested, held_out.stars).balanced_accuracy,
            "seconds": round(time.monotonic() - began),
        }
        print(json.dumps(line), flush=True)
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
