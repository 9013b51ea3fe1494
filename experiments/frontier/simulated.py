"""The rules without a language model: candidates are stored texts of a model, and variations blend neighbours.

    python experiments/frontier/simulated.py --private FILE --cache DIR
    python experiments/frontier/simulated.py --private FILE --cache DIR --size small --seeds 8

Reddit posts vote; the pool is texts of the stored runs of experiments/paper_text. Near copies are allowed: a blend
has no words. The noise is drawn from a seed: this is for data that may be looked at.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import over_seeds, write_rows
from experiments.frontier.rules import Tried
from experiments.rules import with_centres

from gape.core.protocols import Candidates, InformedSelector, Selection, Selector
from gape.core.types import NoisyVotes, Points, as_samples
from gape.embedders.minilm import MiniLM
from gape.evolution.plan import Plan
from gape.metrics import recall, sinkhorn1
from gape.modalities import load_texts
from gape.runs.advice import usual_delta, votes_against
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.voting.several import several_nearest

SCALES = (0.3, 0.3, 0.3, 0.3, 0.7, 0.7, 0.7)  # shares of a neighbour in a blend


@dataclass(frozen=True)
class Size:
    """How much of everything there is."""

    samples: int
    rounds: int
    posts: int  # those that are held out included
    held_out: int
    pool: int  # texts of each stored run
    near: int  # texts that a blend may be with
    words: int


SIZES = {
    "usual": Size(300, 6, 9000, 1200, 5000, 300, 100),
    "small": Size(30, 4, 3600, 900, 1200, 100, 50),
}
POOL = ("reddit-m10000", "reddit-m10000-augpe", "reddit-m10000-augpe-votes")


class _Rank:
    """The most votes, whole or not."""

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:  # noqa: ARG002
        return Selection(np.argsort(-np.asarray(votes), kind="stable")[:size])


def _balanced(sigma: float) -> Selector:
    return Tried("balanced", sigma, SCALES, remember=True, distinct=False)


def _centres(share: float, sigma: float) -> Selector:
    return Remembering(Gape(math.inf, math.inf, spare=2.0, signed=False, centres=share), sigma)


RULES: dict[str, Callable[[float, Size], Selector]] = {
    "ranking": lambda *_: Ranking(),
    "the default before: half searched for": lambda sigma, _: Gape.without_memory(sigma),
    "ranking of believed votes": lambda sigma, _: Remembering(_Rank(), sigma),
    "chosen: believed votes, balanced": lambda sigma, _: _balanced(sigma),
    "believed votes, half searched for": lambda sigma, _: _centres(0.5, sigma),
    "believed votes, all searched for": lambda sigma, _: _centres(1.0, sigma),
    "the default before regions: believed votes, 50 searched for": lambda sigma, size: Remembering(
        with_centres(size.samples), sigma
    ),
    "the default: believed votes, ranked, with a seat for each of 50 regions": lambda sigma, _: Remembering(
        RegionalRanking(), sigma
    ),
}


def vary(samples: Points, pool: Points, near: int, rng: np.random.Generator) -> Points:
    """Return the samples, and for each scale a blend of each with a text of the pool near it."""
    nearest = np.argpartition(-(samples @ pool.T), near, axis=1)[:, :near]
    parts = [samples]
    for scale in SCALES:
        drawn = pool[nearest[np.arange(len(samples)), rng.integers(0, near, len(samples))]]
        parts.append((1 - scale) * samples + scale * drawn)
    return _unit(np.concatenate(parts))


def scored(task: tuple[str, str, str, float, int]) -> tuple[float, float]:
    """Run one rule once, and score the last samples by held-out posts: recall and W1."""
    cache, kind, name, epsilon, seed = task
    size = SIZES[kind]
    pool, private = (_unit(np.load(Path(cache) / f"{part}.npy").astype(np.float32)) for part in ("pool", "private"))
    rng, noise, split = (np.random.default_rng([seed, part]) for part in (1, 2, 3))
    order = split.permutation(len(private))
    held_out, voters = private[order[: size.held_out]], private[order[size.held_out :]]
    single = Plan(epsilon, usual_delta(len(voters)), size.rounds, size.samples).sigma
    points, parents = pool[rng.permutation(len(pool))[: size.samples * (1 + len(SCALES))]], np.arange(0)
    scales, believed = np.zeros(len(points)), None
    rule: Selector | None = None
    chosen = points
    for turn in range(size.rounds):
        votes = votes_against(single, len(voters), len(points))
        sigma = single * math.sqrt(votes)
        counts = np.bincount(several_nearest(voters, points, votes).ravel(), minlength=len(points))
        noisy = counts + np.rint(sigma * noise.normal(size=len(counts))).astype(np.int64)
        rule = rule or RULES[name](sigma, size)
        known = Candidates(as_samples([""] * len(points)), scales, None if believed is None else believed[parents])
        selection = (rule.among(known) if isinstance(rule, InformedSelector) else rule)(
            noisy, points, size.samples, rng
        )
        chosen, believed = points[selection.indices], selection.believed
        if turn < size.rounds - 1:
            points = vary(chosen, pool, size.near, rng)
            scales = np.repeat([0.0, *SCALES], size.samples)
            parents = np.tile(np.arange(size.samples), 1 + len(SCALES))
    return recall(held_out, chosen), float(sinkhorn1(held_out, chosen).value)


def _unit(points: Points) -> Points:
    unit: Points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return unit


def cut(text: object, size: Size) -> str:
    """Return the first words of a text."""
    return " ".join(str(text).split()[: size.words])


def embed(cache: Path, private: str, size: Size) -> None:
    """Embed the pool and the posts, once."""
    cache.mkdir(parents=True, exist_ok=True)
    stored = Path(__file__).parents[1] / "paper_text" / "results"
    embedder = MiniLM()
    if not (cache / "pool.npy").exists():
        texts = [pq.read_table(stored / run / "synthetic.parquet")[0].to_pylist()[: size.pool] for run in POOL]
        pool = [cut(text, size) for text in dict.fromkeys(text for part in texts for text in part)]
        np.save(cache / "pool.npy", embedder.embed(as_samples(pool)).astype(np.float16))
    if not (cache / "private.npy").exists():
        posts = [cut(text, size) for text in load_texts(private, "text").texts]
        drawn = np.random.default_rng(0).permutation(len(posts))[: size.posts]
        np.save(cache / "private.npy", embedder.embed(as_samples([posts[i] for i in drawn])).astype(np.float16))


def main() -> None:
    """Run every rule, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", choices=SIZES, default="usual")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    cache = asked.cache / asked.size
    embed(cache, asked.private, SIZES[asked.size])
    lines = [(name, epsilon) for name in RULES for epsilon in asked.epsilons]
    tasks = [(str(cache), asked.size, name, epsilon, seed) for name, epsilon in lines for seed in range(asked.seeds)]
    values = np.array(over_seeds(scored, tasks, asked.jobs)).reshape(len(RULES), -1, asked.seeds, 2).mean(axis=2)
    rows: list[dict[str, Any]] = [
        {"rule": name}
        | {
            f"{measure}, epsilon {epsilon:g}": float(values[i, j, k])
            for j, epsilon in enumerate(asked.epsilons)
            for k, measure in enumerate(("recall", "W1"))
        }
        for i, name in enumerate(RULES)
    ]
    write_rows(asked.out, "simulated" if asked.size == "usual" else f"simulated-{asked.size}", rows)


if __name__ == "__main__":
    main()
