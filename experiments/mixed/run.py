"""Reviews with stars and a category, and whether the texts agree with their cells; `grid.py` runs it.

Each round is scored by held-out reviews: a classifier of stars and one of categories, trained on the embeddings of the
synthetic texts, the distances of the marginals, W1 between the texts, and how many of the texts repeat another. Beside
them are the start of each run, and as many real reviews. NOT differentially private: it scores by private reviews,
which may be looked at.
"""

import argparse
import csv
import gzip
import json
import math
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
from gape.evolution.evolve import evolve
from gape.evolution.last_pass import LastPass
from gape.language.request import LanguageModel
from gape.metrics import classify, wasserstein1
from gape.metrics.text import total_variation
from gape.modalities import Columns, contents_of
from gape.modalities.mixed.generator import MixedGenerator
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.electorate import TextElectorate
from gape.runs.generator import make_generator, make_prompts
from gape.runs.labels import candidate_embedder, embed_private
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
    category: bool = True  # whether the schema has it
    labels: bool = False  # texts with the stars as labels, instead of rows
    strict: bool = False  # rows whose stars are strict


VARIANTS = {
    "records": Variant(),
    "labels": Variant(labels=True),
    "strict": Variant(strict=True),
    "stars-strict": Variant(category=False, strict=True),
    "stars-strict-untold": Variant(category=False, told=False, strict=True),
    "untold": Variant(told=False),
    "stars": Variant(category=False),
    "stars-untold": Variant(category=False, told=False),
    "weight-1/4": Variant(weight=0.25),
    "weight-1/2": Variant(weight=0.5),
    "weight-2": Variant(weight=2.0),
    "weight-4": Variant(weight=4.0),
    "text-only-1/4": Variant(changes={"text_only": 0.25}),
    "text-only-3/4": Variant(changes={"text_only": 0.75}),
    "texts-rewritten": Variant(changes={"cells_only": 0.0}),
    "texts-kept": Variant(changes={"cells_only": 1.0}),
    "cells-1/6": Variant(changes={"cell_share": 1 / 6}),
    "cells-2/3": Variant(changes={"cell_share": 2 / 3}),
}


@dataclass(frozen=True)
class Reviews:
    """Texts with their stars and categories; no categories if only stars are known."""

    texts: list[str]
    stars: list[str]
    categories: list[str] | None

    @classmethod
    def read(cls, path: Path, limit: int) -> "Reviews":
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
        """Return the reviews of samples: texts with labels, or rows."""
        if samples.dtype.names and not samples["text"][0].startswith('{"stars": '):
            return cls(samples["text"].tolist(), samples["label"].tolist(), None)
        rows = [json.loads(line) for line in contents_of(samples)]
        categories = [row["category"] for row in rows] if "category" in rows[0] else None
        return cls([row["review"] for row in rows], [str(row["stars"]) for row in rows], categories)

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
    if not variant.category:
        text = text.split("[category]")[0] + "[review]" + text.split("[review]")[1]
    path = folder / f"schema-{variant.told}-{variant.category}-{variant.weight}.toml"
    path.write_text(f"{text}weight = {variant.weight}\n", encoding="utf-8")
    return path


def settings_of(variant: Variant, asked: argparse.Namespace, epsilon: float, seed: int) -> Settings:
    """Return the settings of a run."""
    common: dict[str, Any] = {
        "epsilon": epsilon,
        "samples": asked.samples,
        "rounds": asked.rounds,
        "seed": seed,
        "generator": asked.model,
        "embedder": asked.embedder,
        "topics": asked.topics,
    }
    if variant.labels:
        columns = {"text": "review", "label": "stars", "labels": ("1", "2", "3", "4", "5")}
        return Settings.of({**common, **columns, "domain": "customer reviews of local businesses", "words": 60})
    strict = {"label": "stars"} if variant.strict else {}
    return Settings.of({**common, **strict, "schema": str(schema_of(variant, asked.out))})


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
    points = embed_private(settings, cached.embedder, records.content, records.labels)
    electorate = TextElectorate(records, points, plan.votes_per_unit, plan.votes_per_record)
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


@dataclass(frozen=True)
class Yelp:
    """Runs on the reviews, and their scores."""

    asked: argparse.Namespace
    model: LanguageModel
    embedder: Embedder
    private: Reviews
    judge: Judge

    @classmethod
    def of(cls, asked: argparse.Namespace, model: LanguageModel, embedder: Embedder) -> "Yelp":
        """Read the reviews."""
        private = Reviews.read(asked.data / "yelp_augpe_dev.csv.gz", asked.limit)
        held_out = Reviews.read(asked.data / "yelp_augpe_test.csv.gz", 1500)
        return cls(
            asked, model, embedder, private, Judge(embedder, held_out, embedder.embed(as_samples(held_out.texts)))
        )

    def real(self) -> Iterator[dict[str, Any]]:
        """Yield the scores of guessing, and of as many real reviews."""
        commonest = Counter(self.judge.held_out.stars).most_common(1)[0][1] / len(self.judge.held_out.stars)
        yield {"what": "guessing", "stars accuracy": commonest}
        for seed in range(5):
            some = np.random.default_rng([seed, *b"real"]).permutation(len(self.private.texts))[: self.asked.samples]
            yield {"what": "real", "seed": seed, **self.judge(self.private.take(some.tolist()))}

    def run(self, name: str, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
        """Yield the scores of the start, of each round, and of what is published."""
        variant, samples = VARIANTS[name], None
        settings = settings_of(variant, self.asked, epsilon, seed)
        for what, samples in states(variant, settings, self.private.rows(), self.model, self.embedder, seed):
            yield {
                "what": what,
                "variant": name,
                "epsilon": epsilon,
                "seed": seed,
                **self.judge(Reviews.of(samples)),
            }
        if samples is not None and not variant.labels:
            path = self.asked.out / f"{name.replace('/', '-')}-{epsilon:g}-{seed}.jsonl"
            path.write_text("\n".join(contents_of(samples)) + "\n", encoding="utf-8")
