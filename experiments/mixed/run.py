"""Reviews with stars and a category, and whether the texts agree with their cells.

    python experiments/mixed/run.py records:4 labels:4 --private FILE --held-out FILE --samples 50 --out FOLDER
    python experiments/mixed/run.py records:4 records:1 --model hf:DIR --embedder st:DIR --private FILE ...

Runs variants at an epsilon, one after another, and writes one line of JSON for each round to OUT/results.jsonl as soon
as it is done. Each is scored by held-out reviews: a classifier of stars and one of categories, trained on the
embeddings of the synthetic texts, the distances of the marginals, W1 between the texts, and how many of the texts
repeat another. Beside them are the start of each run, and as many real reviews. NOT differentially private: it scores
by private reviews, which may be looked at.
"""

import argparse
import csv
import gzip
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.copies import repeats
from gape.core.protocols import Embedder
from gape.core.types import Points, Samples, as_samples
from gape.embedders.cached import Cached
from gape.embedders.privacy import for_public_texts
from gape.evolution.evolve import evolve
from gape.evolution.last_pass import LastPass
from gape.generators.labels import LabelledEmbedder, labelled
from gape.language.request import LanguageModel
from gape.metrics import classify, wasserstein1
from gape.metrics.text import total_variation
from gape.modalities import Columns
from gape.modalities.mixed.generator import MixedGenerator
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.electorate import TextElectorate
from gape.runs.embedder import candidate_embedder, make_embedder
from gape.runs.generator import make_generator, make_model, make_prompts
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings

HERE = Path(__file__).parent
WORDS = 100  # of a real review, at most


@dataclass(frozen=True)
class Variant:
    """How records are described, varied and weighed."""

    told: bool = True  # whether the schema says what stars mean, and how texts begin
    changes: dict[str, Any] = field(default_factory=dict)  # of the generator
    weight: float = 1.0  # of the text
    labels: bool = False  # texts with the stars as labels, instead of rows


VARIANTS = {
    "records": Variant(),
    "labels": Variant(labels=True),
    "untold": Variant(told=False),
    "texts-rewritten": Variant(changes={"cells_only": 0.0}),
    "cells-only": Variant(changes={"cells_only": 1.0}),
    "text-weight-4": Variant(weight=4.0),
    "text-weight-1/4": Variant(weight=0.25),
    "text-only-3/4": Variant(changes={"text_only": 0.75}),
    "text-only-1/4": Variant(changes={"text_only": 0.25}),
}


@dataclass(frozen=True)
class Reviews:
    """Texts with their stars and categories; no categories if only stars are known."""

    texts: list[str]
    stars: list[str]
    categories: list[str] | None

    @classmethod
    def read(cls, path: str, limit: int) -> "Reviews":
        """Read reviews, cut to their first words."""
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))[:limit]
        return cls(
            [" ".join(row["text"].split()[:WORDS]) for row in rows],
            [str(int(float(row["label2"].rpartition(": ")[2]))) for row in rows],
            [row["label1"].rpartition(": ")[2] for row in rows],
        )

    @classmethod
    def of(cls, samples: Samples) -> "Reviews":
        """Return the reviews of samples."""
        if samples.dtype.names:
            return cls(samples["text"].tolist(), samples["label"].tolist(), None)
        rows = [json.loads(line) for line in samples]
        return cls(
            [row["review"] for row in rows], [str(row["stars"]) for row in rows], [row["category"] for row in rows]
        )

    def take(self, indices: Sequence[int]) -> "Reviews":
        """Return some of the reviews."""
        kept = [[column[i] for i in indices] for column in (self.texts, self.stars, self.categories or self.stars)]
        return Reviews(kept[0], kept[1], None if self.categories is None else kept[2])

    def rows(self) -> list[dict[str, Any]]:
        """Return the reviews as rows of a table."""
        columns = zip(self.stars, self.categories or self.stars, self.texts, strict=True)
        return [{"stars": stars, "category": category, "review": text} for stars, category, text in columns]


@dataclass(frozen=True)
class Judge:
    """Scores reviews by held-out ones."""

    embedder: Embedder
    held_out: Reviews
    points: Points

    def __call__(self, reviews: Reviews) -> dict[str, float | None]:
        """Return the scores."""
        points = self.embedder.embed(as_samples(reviews.texts))
        stars = classify(points, reviews.stars, self.points, self.held_out.stars)
        scores: dict[str, float | None] = {
            "count": len(reviews.texts),
            "stars accuracy": stars.accuracy,
            "stars balanced": stars.balanced_accuracy,
            "stars distance": _distance(reviews.stars, self.held_out.stars),
            "W1 of texts": wasserstein1(self.points[:1000], points[:1000]),
            "repeating": float(repeats(reviews.texts).mean()),
            "words": float(np.mean([len(text.split()) for text in reviews.texts])),
        }
        if reviews.categories is not None and self.held_out.categories is not None:
            known = self.held_out.categories
            scores["category accuracy"] = classify(points, reviews.categories, self.points, known).accuracy
            scores["category distance"] = _distance(reviews.categories, known)
        return scores


def _distance(one: Sequence[str], other: Sequence[str]) -> float:
    return total_variation(Counter(one), Counter(other))


def schema_of(variant: Variant, folder: Path) -> Path:
    """Write the schema of a variant."""
    text = (HERE / "yelp.toml").read_text(encoding="utf-8")
    if not variant.told:
        parts = text.split("[stars.means]")
        text = parts[0] + "[category]" + parts[1].split("[category]")[1]
    path = folder / f"schema-{variant.told}-{variant.weight}.toml"
    path.write_text(f"{text}weight = {variant.weight}\n", encoding="utf-8")
    return path


def settings_of(variant: Variant, asked: argparse.Namespace, epsilon: float) -> Settings:
    """Return the settings of a run."""
    common: dict[str, Any] = {
        "epsilon": epsilon,
        "samples": asked.samples,
        "rounds": asked.rounds,
        "seed": asked.seed,
        "generator": asked.model,
        "embedder": asked.embedder,
        "topics": asked.topics,
    }
    if variant.labels:
        columns = {"text": "review", "label": "stars", "labels": ("1", "2", "3", "4", "5")}
        return Settings.of({**common, **columns, "domain": "customer reviews of local businesses", "words": 60})
    return Settings.of({**common, "schema": str(schema_of(variant, asked.out))})


def states(
    variant: Variant,
    settings: Settings,
    private: list[dict[str, Any]],
    model: LanguageModel,
    embedder: Embedder,
    seed: int,
) -> Iterator[tuple[str, Samples]]:
    """Yield the samples of the start and of each round, and those after the last pass."""
    records = settings.records.read(private, Columns(settings.text, settings.label, settings.user))
    settings = resolved(settings, records)
    plan = make_plan(settings)
    cached = Cached(settings.records.compared(embedder), 250_000)
    comparing = candidate_embedder(settings, cached)
    generator = make_generator(settings, model, make_prompts(settings, model, cached), cached)
    if isinstance(generator, MixedGenerator):
        generator = replace(generator, **variant.changes)
    content = (
        records.content if records.labels is None or not variant.labels else labelled(records.labels, records.content)
    )
    marked = LabelledEmbedder(cached.embedder, settings.labels) if settings.labels else cached.embedder
    electorate = TextElectorate(records, marked.embed(content), plan.votes_per_unit, plan.votes_per_record)
    select = make_selector(settings, plan)
    with closing(Ledger(":memory:", Budget(math.inf, plan.delta, plan.neighbours))) as ledger:
        account, synthetic = Account(ledger, "run"), None
        for state in evolve(plan, generator, comparing, electorate, select, account, noise=SeededNoise(seed)):
            if state.proposal is None:
                synthetic = state.synthetic
                yield f"round {state.round}" if state.round else "start", synthetic
        if synthetic is not None:
            last = LastPass(generator, comparing, max(plan.scales), wording=settings.records.wording)
            yield "published", last(synthetic, np.random.default_rng(seed))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help=f"VARIANT:EPSILON, with one of {', '.join(VARIANTS)}")
    parser.add_argument("--private", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--model", default="embedded", help="as --generator of gape run")
    parser.add_argument("--embedder", default="minilm", help="as --embedder of gape run")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=5000, help="use only so many private reviews")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--topics", nargs="+", help="of the start; by default the model is asked for them")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after that")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    private, held_out = Reviews.read(asked.private, asked.limit), Reviews.read(asked.held_out, 1500)
    plain = Settings.of({"epsilon": 1.0, "generator": asked.model, "embedder": asked.embedder})
    model, embedder = make_model(plain, asked.out / "answers"), Cached(for_public_texts(make_embedder(plain)), 250_000)
    if model is None:
        raise SystemExit("give a model that writes")
    judge = Judge(embedder, held_out, embedder.embed(as_samples(held_out.texts)))

    def note(what: dict[str, Any]) -> None:
        line = json.dumps({**what, "seconds": round(time.monotonic() - began, 1)})
        print(line, flush=True)
        with (asked.out / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    commonest = Counter(held_out.stars).most_common(1)[0][1] / len(held_out.stars)
    note({"what": "guessing", "stars accuracy": commonest})
    for seed in range(5):
        some = np.random.default_rng([seed, *b"real"]).permutation(len(private.texts))[: asked.samples]
        note({"what": "real", "seed": seed, **judge(private.take(some.tolist()))})
    for run in asked.runs:
        name, epsilon = run.partition(":")[0], float(run.partition(":")[2])
        if time.monotonic() - began > asked.seconds:
            raise SystemExit(f"no time left for {run}")
        settings = settings_of(VARIANTS[name], asked, epsilon)
        samples: Samples | None = None
        for what, samples in states(VARIANTS[name], settings, private.rows(), model, embedder, asked.seed):
            note({"what": what, "variant": name, "epsilon": epsilon, **judge(Reviews.of(samples))})
        if samples is not None and not samples.dtype.names:
            path = asked.out / f"{name.replace('/', '-')}-{epsilon:g}.jsonl"
            path.write_text("\n".join(samples.tolist()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
