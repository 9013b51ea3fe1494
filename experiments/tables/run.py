"""What crossing rows with one another, and more rounds, do to tables at a fixed guarantee.

    python experiments/tables/run.py --private FILE --schema experiments/tables/adult.toml

GAPE as runs on tables have it by default, but for what a line of the result says. A tenth of the records does not vote,
and scores: recall by balls to the third nearest of 2,000 of them, Sinkhorn's W1, and how far columns and pairs of
columns are apart. The noise is drawn from a seed: this is for data that may be looked at.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import over_seeds, write_rows
from experiments.rules import with_centres

from gape.core.protocols import Candidates, InformedSelector, Selection, Selector
from gape.core.types import NoisyVotes, Points
from gape.evaluation.compare import SeedMean
from gape.evolution.plan import Plan
from gape.metrics import recall, sinkhorn1
from gape.metrics.tables import column_distances, pair_distance
from gape.modalities import Rows, Schema, load_rows
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.generator import RowGenerator
from gape.runs.advice import usual_delta, votes_against
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.remembering import Remembering
from gape.voting.several import several_nearest

MEASURES = ("recall", "W1", "columns", "pairs")
SCORED = 2000
HELD_OUT = 0.1


@dataclass(frozen=True)
class Way:
    """One line of the table."""

    crossed: float = 0.9
    rounds: int = 20
    ranking: bool = False  # in place of GAPE's selection
    votes: int | None = None  # for each record; by default as many as suit the noise
    remembers: bool = False  # what earlier votes said of rows, as text runs do


WAYS = {
    "default": Way(),
    "with memory": Way(remembers=True),
    "none crossed": Way(crossed=0.0),
    "half crossed": Way(crossed=0.5),
    "10 rounds": Way(rounds=10),
    "40 rounds": Way(rounds=40),
    "ranking of the same votes": Way(ranking=True),
    "ranking, one vote (AugPE)": Way(ranking=True, votes=1),
}


@dataclass(frozen=True)
class Task:
    """One run."""

    private: str
    schema: str
    way: Way
    epsilon: float
    samples: int
    seed: int


def scored(task: Task) -> tuple[float, ...]:
    """Run once, and score the last rows by the records that did not vote."""
    schema = Schema.read(task.schema)
    rows = load_rows(task.private, schema).content
    order = np.random.default_rng([task.seed, *b"split"]).permutation(len(rows))
    out = round(HELD_OUT * len(rows))
    held_out, voters = rows[order[:out]], rows[order[out:]]
    embedder, generator = RowEmbedder(schema), RowGenerator(schema, task.way.crossed)
    private = embedder.embed(voters)
    scales = Rows.scales
    evenly = Plan(task.epsilon, usual_delta(len(voters)), task.way.rounds, task.samples).sigma
    rng, noise = (np.random.default_rng([task.seed, *name]) for name in (b"vary", b"noise"))
    chosen, believed = generator.random(task.samples, rng), None
    for _ in range(task.way.rounds):
        many = np.repeat(chosen, len(scales))
        candidates = np.concatenate([chosen, generator.vary(many, np.tile(scales, len(chosen)), rng)])
        points = embedder.embed(candidates)
        votes = task.way.votes or votes_against(evenly, len(voters), len(candidates))
        sigma = evenly * math.sqrt(votes)
        counts = np.bincount(several_nearest(private, points, votes).ravel(), minlength=len(candidates))
        noisy = counts + np.rint(sigma * noise.normal(size=len(counts))).astype(np.int64)
        parents = np.concatenate([np.arange(len(chosen)), np.repeat(np.arange(len(chosen)), len(scales))])
        known = Candidates(
            candidates,
            np.concatenate([np.zeros(len(chosen)), np.tile(scales, len(chosen))]),
            None if believed is None else believed[parents],
        )
        selection = _rule(task, sigma).among(known)(noisy, points, task.samples, rng)
        chosen, believed = candidates[selection.indices], selection.believed
    real, made = embedder.embed(held_out[:SCORED]), embedder.embed(chosen)
    bins = [schema.bins(schema.codes(each)) for each in (held_out, chosen)]
    apart = column_distances(*bins).mean(), pair_distance(*bins)
    return recall(real, made), sinkhorn1(real, made).value, *map(float, apart)


def _rule(task: Task, sigma: float) -> InformedSelector:
    if task.way.ranking:
        return _Plain(Ranking())
    if task.way.remembers:
        return Remembering(with_centres(task.samples), sigma)
    return _Plain(Gape.without_memory(sigma, task.samples))


@dataclass(frozen=True)
class _Plain:
    """A rule that looks at votes and points alone."""

    rule: Selector

    def among(self, candidates: Candidates) -> Selector:  # noqa: ARG002  (it does not look at them)
        return self.rule

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
        return self.rule(votes, points, size, rng)


def run(
    out: Path,
    private: str,
    schema: str,
    *,
    seeds: int,
    epsilons: Sequence[float],
    samples: int,
    jobs: int,
    ways: Sequence[str] = tuple(WAYS),
) -> list[dict[str, Any]]:
    """Make the table in `out`: means over seeds, with half the width of their 95% t-intervals."""
    lines = [(epsilon, name) for epsilon in epsilons for name in ways]
    tasks = [
        Task(private, schema, WAYS[name], epsilon, samples, seed) for epsilon, name in lines for seed in range(seeds)
    ]
    values = np.array(over_seeds(scored, tasks, jobs)).reshape(len(lines), seeds, len(MEASURES))
    rows = []
    for (epsilon, name), found in zip(lines, values, strict=True):
        row: dict[str, Any] = {"epsilon": epsilon, "way": name, "seeds": seeds}
        for place, measure in enumerate(MEASURES):
            estimate = SeedMean(tuple(found[:, place].tolist()))
            row |= {measure: estimate.mean, f"{measure}, ±": estimate.reach}
        rows.append(row)
    write_rows(out, "ways", rows)
    return rows


def main() -> None:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", required=True, help="file with the columns of the schema")
    parser.add_argument("--schema", required=True)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each kind, at least 2 (3)")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    run(
        asked.out,
        asked.private,
        asked.schema,
        seeds=asked.seeds,
        epsilons=asked.epsilons,
        samples=asked.samples,
        jobs=asked.jobs,
        ways=asked.ways,
    )


if __name__ == "__main__":
    main()
