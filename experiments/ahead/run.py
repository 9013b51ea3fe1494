"""GAPE with a corpus and one vote per record beside AugPE, at every epsilon, scored by private texts that did not vote.

`votes.py` has the default, which casts several votes. A fifth of the private texts is held out. The others vote among
texts of a public corpus, with seeded noise so that the table can be repeated; both methods start from the same texts
and split. Neither the seeds nor the scores are private: this is for data that may be looked at.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.corpus_text.run import Data, Looked, embedded, load

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, Points, Samples
from gape.embedders.minilm import MiniLM
from gape.evaluation import plots
from gape.evaluation.compare import SeedMean
from gape.evaluation.plots import COLOURS
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.metrics import mean_nearest_distance, recall, sinkhorn1
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.runs.resolve import VARIATIONS
from gape.runs.selector import make_selector
from gape.runs.settings import Settings
from gape.voting.electorate import LocalElectorate

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 100.0)
SELECTORS = {"AugPE": "ranking", "GAPE": "gape"}
SEEDS = 10
MEASURES = {"recall": 1, "mean nearest distance": -1, "Sinkhorn W1": -1}  # and which way is better


class Shelf(CorpusText):
    """A corpus whose neighbours are sorted once for all runs; it draws as `CorpusText` does."""

    @cached_property
    def _order(self) -> Indices:
        away = distances(self._points, self._points)
        np.fill_diagonal(away, np.inf)
        order: Indices = np.argsort(away, axis=1, kind="stable")
        return order

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Draw one neighbour of every sample, all of which are texts of the corpus."""
        ranks = rng.integers(np.ceil(float(len(self._corpus) - 1) ** scales).astype(np.int64))
        return self._corpus[self._order[self._own(samples), ranks]]


@dataclass(frozen=True)
class Case:
    """One run, less its seed."""

    method: str
    epsilon: float
    samples: int  # m
    rounds: int  # T


def scored(data: Data, shelf: Shelf, case: Case, seed: int) -> dict[str, float]:
    """Run one case once, and score its last samples by the held-out texts."""
    voters, held_out = data.split(seed)
    scales, copies = VARIATIONS["corpus"]
    delta = usual_delta(len(voters))
    plan = Plan(case.epsilon, delta, case.rounds, case.samples, scales=scales, copies=copies, seed=seed)
    settings = Settings(epsilon=case.epsilon, selector=SELECTORS[case.method], generator="corpus:public")
    select = make_selector(settings, plan)
    with free_account() as account:
        parts = shelf, shelf.embedder, LocalElectorate(voters), select
        *_, last = evolve(plan, *parts, account, noise=SeededNoise(seed))
    return scores(held_out, shelf.embedder.embed(last.synthetic))


def scores(held_out: Points, points: Points) -> dict[str, float]:
    """Return the measures of points by the held-out texts."""
    values = recall(held_out, points), mean_nearest_distance(held_out, points), sinkhorn1(held_out, points).value
    return dict(zip(MEASURES, values, strict=True))


def table(found: Mapping[tuple[str, float], Sequence[dict[str, float]]]) -> list[dict[str, Any]]:
    """Return a row for each epsilon and measure: both means, and how much better GAPE is, with its 95% t-interval."""
    rows = []
    for epsilon in dict.fromkeys(epsilon for _, epsilon in found):
        for measure, sign in MEASURES.items():
            theirs, ours = (np.array([run[measure] for run in found[name, epsilon]]) for name in SELECTORS)
            gain = SeedMean(tuple(sign * (ours - theirs)))
            means = {"AugPE": float(theirs.mean()), "GAPE": float(ours.mean())}
            rows.append(
                {"epsilon": epsilon, "measure": measure, **means}
                | {"better by": gain.mean, "give or take": gain.reach, "seeds": len(gain.values)}
            )
    return rows


def against(runs: Sequence[dict[str, float]], before: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the means of runs with the same seeds as others, and how much better they are, with 95% t-intervals."""
    row: dict[str, float] = {}
    for measure, sign in MEASURES.items():
        values, others = (np.array([run[measure] for run in some]) for some in (runs, before))
        gain = SeedMean(tuple(sign * (values - others)))
        row |= {measure: float(values.mean()), f"{measure}, better by": gain.mean, f"{measure}, ±": gain.reach}
    return row


def draw(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Draw by how much GAPE is better at every epsilon, a panel for each measure."""
    with plots.figure(out / "ahead.png", columns=len(MEASURES), size=(9.0, 3.0)) as (_, axes):
        for axis, measure in zip(axes[0], MEASURES, strict=True):
            some = [row for row in rows if row["measure"] == measure]
            values = [[row[name] for row in some] for name in ("epsilon", "better by", "give or take")]
            axis.errorbar(values[0], values[1], yerr=values[2], color=COLOURS["GAPE"], marker="o", capsize=2)
            axis.axhline(0.0, color=COLOURS["Ranking"])
            axis.set(xscale="log", xlabel="epsilon", title=measure)
        axes[0, 0].set_ylabel("GAPE better than AugPE by")


def run(
    out: Path,
    data: Data,
    seeds: int = SEEDS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    samples: int = 200,
    rounds: int = 10,
) -> list[dict[str, Any]]:
    """Make the table and the figure in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    cases = [Case(method, epsilon, samples, rounds) for epsilon in epsilons for method in SELECTORS]
    shelf = Shelf(data.corpus, Looked({text: place for place, text in enumerate(data.corpus)}, data.points))
    found = {}
    for case in cases:
        found[case.method, case.epsilon] = [scored(data, shelf, case, seed) for seed in range(seeds)]
        means = {name: f"{np.mean([run[name] for run in found[case.method, case.epsilon]]):.4f}" for name in MEASURES}
        print(case, means, flush=True)
    rows = table(found)
    write_rows(out, "ahead", rows)
    draw(out, rows)
    return rows


def options(description: str | None, seeds: int, epsilons: Sequence[float]) -> argparse.ArgumentParser:
    """Return what reads the files, and what is run on them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=Path, required=True, help="file of private texts")
    parser.add_argument("--corpus", type=Path, required=True, help="file of public texts")
    parser.add_argument("--text", help="column of the texts, in both files")
    parser.add_argument("--words", type=int, default=60, help="cut every text to so many words (60)")
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps the embeddings; those of private texts are private"
    )
    parser.add_argument("--seeds", type=int, default=seeds, help=f"runs of each kind, at least 2 ({seeds})")
    parser.add_argument("--epsilons", type=float, nargs="+", default=epsilons)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return parser


def read(chosen: argparse.Namespace) -> Data:
    """Read and embed both files."""
    embedder = MiniLM()
    private, corpus = (load(file, chosen.text, chosen.words) for file in (chosen.private, chosen.corpus))
    corpus = tuple(dict.fromkeys(corpus))
    return Data(embedded(private, embedder, chosen.cache), corpus, embedded(corpus, embedder, chosen.cache))


def sizes(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return how large the runs are."""
    return {"epsilons": chosen.epsilons, "samples": chosen.samples, "rounds": chosen.rounds}


def main() -> None:
    """Read the options, and run."""
    chosen = options(__doc__, SEEDS, EPSILONS).parse_args()
    run(chosen.out, read(chosen), chosen.seeds, **sizes(chosen))


if __name__ == "__main__":
    main()
