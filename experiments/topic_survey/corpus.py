"""What a survey of topics before the first round buys with a public corpus, at the same total epsilon.

    python experiments/topic_survey/corpus.py --private FILE --cache DIR
    python experiments/topic_survey/corpus.py --reviews FOLDER --cache DIR

Of 14,000 Reddit posts cut to 100 words, 5,000 are the corpus. Of the others all are private, or those of four
subreddits; a fifth does not vote and scores the start and the end. With --reviews, the same is done with 5,600 Yelp
reviews cut to 20 words, as rows with stars and a category, and `few` are those of four categories. The rows `free` have
exact answers that cost nothing, which no run can have: what the best survey could buy. The noise is seeded: for data
that may be looked at.
"""

import argparse
import gzip
import json
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, over_seeds, write_rows
from experiments.mixed.run import HERE, Reviews
from experiments.topic_survey.run import FEW

from gape.core.protocols import Generator
from gape.core.types import Points, Samples, as_samples
from gape.embedders.minilm import MiniLM
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.generators.topic_survey import TopicSurvey, times_for
from gape.metrics import recall, sinkhorn1
from gape.modalities.mixed import MixedEmbedder, MixedSchema
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.runs.resolve import VARIATIONS
from gape.selection.local_search import Gape
from gape.voting.electorate import LocalElectorate

POSTS, CORPUS, ROUNDS, HELD_OUT, WORDS = 14_000, 5_000, 6, 0.2, 100
SAMPLES = (50, 200)
SHARES = (0.0, 0.1, 0.3)
EPSILONS = (0.5, 1.0, 4.0)
FREE = "free"
SCHEMA = HERE / "yelp.toml"
REVIEWS, REVIEW_WORDS = 5_600, 20
FEW_CATEGORIES = {"Beauty & Spas", "Health & Medical", "Hotels & Travel", "Shopping"}


@dataclass(frozen=True)
class Numbered:
    """An embedder of posts that are given by their numbers."""

    points: Points

    def embed(self, samples: Samples) -> Points:
        """Return the rows of these posts."""
        return self.points[[int(sample) for sample in samples]]


def followed(task: tuple[str, str, int, float, float | str, int]) -> dict[str, Any]:
    """Run once, and score the start and the end by held-out posts."""
    folder, data, size, epsilon, share, seed = task
    points, few = _embedded(folder)
    order = np.random.default_rng([seed, *b"posts"]).permutation(len(points))
    corpus, private = np.split(order, [round(CORPUS / POSTS * len(points))])
    private = private[few[private]] if data == "few" else private
    held_out, voting = np.split(private, [round(HELD_OUT * len(private))])
    scales, copies = VARIATIONS["corpus"]
    plan = Plan(epsilon, usual_delta(len(voting)), ROUNDS, size, scales=scales, copies=copies, seed=seed)
    embedder = Numbered(points)
    survey = TopicSurvey(CorpusText([str(number) for number in corpus], embedder), embedder)
    generator: Generator = survey.writer
    if share == FREE:
        question = survey.questions((), 0.0, 1)
        generator = survey.informed((question.tally(points[voting]),), 0.0)
    elif isinstance(share, float) and share:
        plan, generator = replace(plan, answers=(times_for(share, ROUNDS),), sigma=-1.0), survey
    select = Gape.for_corpus(plan.sigma)
    with free_account() as account:
        states = [
            embedder.embed(state.synthetic)
            for state in evolve(
                plan, generator, embedder, LocalElectorate(points[voting]), select, account, noise=SeededNoise(seed)
            )
            if state.proposal is None
        ]
    known = {"data": data, "samples": size, "epsilon": epsilon, "share": share, "seed": seed, "sigma": plan.sigma}
    for name, samples in (("start", states[0]), ("end", states[-1])):
        known[f"{name} recall"] = recall(points[held_out], samples)
        known[f"{name} W1"] = float(sinkhorn1(points[held_out], samples).value)
    return known


@cache
def _embedded(folder: str) -> tuple[Points, np.ndarray[Any, np.dtype[np.bool_]]]:
    return np.load(Path(folder) / "points.npy"), np.load(Path(folder) / "few.npy")


def embed(folder: Path, private: str) -> None:
    """Embed the posts, once."""
    if (folder / "points.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(private, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    drawn = [rows[index] for index in np.random.default_rng(0).permutation(len(rows))[:POSTS]]
    np.save(folder / "few.npy", np.array([row["subreddit"] in FEW for row in drawn]))
    texts = [" ".join(row["text"].split()[:WORDS]) for row in drawn]
    np.save(folder / "points.npy", MiniLM().embed(as_samples(texts)))


def embed_reviews(folder: Path, reviews: Path) -> None:
    """Embed reviews as rows with stars and a category, once."""
    if (folder / "points.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    both = [Reviews.read(reviews / f"yelp_augpe_{name}.csv.gz", REVIEWS // 2) for name in ("dev", "test")]
    rows = [row for side in both for row in side.rows()]
    schema = MixedSchema.read(SCHEMA)
    lines = [
        schema.row([int(row["stars"]), row["category"], " ".join(row["review"].split()[:REVIEW_WORDS])], "a review")
        for row in rows
    ]
    np.save(folder / "few.npy", np.array([row["category"] in FEW_CATEGORIES for row in rows]))
    np.save(folder / "points.npy", MixedEmbedder(schema, MiniLM()).embed(as_samples(lines)))


def main() -> None:
    """Run everything, and write a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--private")
    data.add_argument("--reviews", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    if asked.reviews is None:
        embed(asked.cache, asked.private)
    else:
        embed_reviews(asked.cache, asked.reviews)
    name, sizes = ("corpus", SAMPLES) if asked.reviews is None else ("reviews", SAMPLES[:1])
    rows: list[dict[str, Any]] = []
    for seed in range(asked.seeds):
        tasks = [
            (str(asked.cache), data, size, epsilon, share, seed)
            for data in ("few", "all")
            for size in sizes
            for epsilon in EPSILONS
            for share in (*SHARES, FREE)
        ]
        rows += over_seeds(followed, tasks, asked.jobs)
        write_rows(asked.out, name, rows)


if __name__ == "__main__":
    main()
