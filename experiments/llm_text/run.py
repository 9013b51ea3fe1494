"""Private Evolution of texts by a language model: recall and distance after every round, by epsilon and seed.

    python experiments/llm_text/run.py --private FILE --text COLUMN --prompts pubmed --generator embedded
    python experiments/llm_text/run.py --private FILE --text COLUMN --prompts pubmed --generator hf:MODEL

The private texts vote, and the same texts and a held-out part of them score: recall is the share of real texts whose
ball, reaching their 3rd nearest other real text, holds a synthetic one; distance is that to the nearest synthetic one.
Scores are computed from private data without noise. They are for research on data that needs no protection.
"""

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import write_rows

from gape.core.protocols import Embedder, Selector
from gape.core.types import Floats, Points
from gape.embedders.cached import Cached
from gape.embedders.minilm import MiniLM
from gape.embedders.sentence_transformers import SentenceTransformer
from gape.evaluation import plots
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.prompts import load
from gape.generators.resampled import ResampledText
from gape.language.embedded import EmbeddedModel
from gape.language.request import LanguageModel
from gape.language.transformers import TransformersModel
from gape.language.weights import SMOLLM2, fetch
from gape.modalities import load_texts
from gape.privacy.ledger import Account, Budget, Ledger
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate

SCALES = (0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.9)  # those of a text run at the time
NEIGHBOUR = 3  # whose distance is the radius of a ball
BLOCK = 2048


def nearest(left: Points, right: Points, rank: int) -> Floats:
    """Return the distance from each of `left` to the `rank`-th nearest of `right`, all of unit norm."""
    found = []
    for start in range(0, len(left), BLOCK):
        similar = left[start : start + BLOCK] @ right.T
        found.append(np.partition(similar, -rank, axis=1)[:, -rank])
    gaps: Floats = np.sqrt(np.maximum(2.0 - 2.0 * np.concatenate(found).astype(np.float64), 0.0))
    return gaps


class Score:
    """Recall and mean nearest distance of synthetic points against real ones."""

    def __init__(self, real: Points) -> None:
        """Find the balls; the first nearest point of each is itself."""
        self._real = real
        self._radius = nearest(real, real, NEIGHBOUR + 1)

    def of(self, synthetic: Points) -> tuple[float, float]:
        """Return both."""
        gaps = nearest(self._real, synthetic, 1)
        return float((gaps <= self._radius).mean()), float(gaps.mean())


def evolution(
    plan: Plan, model: LanguageModel, embedder: Embedder, prompts: str, words: int, points: Points, selector: Selector
) -> list[Points]:
    """Run a plan, and return the embeddings of the samples after every round, the start first."""
    embedder = Cached(embedder)
    operator = {"beginnings": 0.0, "spans": 0.5, "whole_from": math.inf}  # ends and middles, as at the time
    generator = ResampledText(model, replace(load(prompts), words=words), distinct=False, **operator)
    written = []
    with closing(Ledger(":memory:", Budget(math.inf, plan.delta))) as ledger:
        account = Account(ledger, "experiment")
        for state in evolve(plan, generator, embedder, LocalElectorate(points), selector, account):
            if state.proposal is None:
                written.append(embedder.embed(state.synthetic[: plan.samples]))
                if state.round == plan.rounds:
                    for text in state.synthetic[:3]:
                        print(f"      {text}")
    return written


def draw(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the recall of the voters round by round, a panel for each epsilon and a line for each run."""
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    rules = sorted({row["selector"] for row in rows})
    colours = dict(zip(rules, ("#009E73", "#56B4E9", "#CC79A7", "#D55E00"), strict=False))
    size = (2.6 * len(epsilons) + 0.6, 3.4)
    with plots.figure(out / "recall.png", columns=len(epsilons), size=size, sharey=True) as (fig, axes):
        for axis, epsilon in zip(axes[0], epsilons, strict=True):
            for rule in rules:
                for seed in sorted({row["seed"] for row in rows}):
                    way = [
                        float(row["recall, voting"])
                        for row in rows
                        if (row["selector"], float(row["epsilon"]), row["seed"]) == (rule, epsilon, seed)
                    ]
                    axis.plot(way, color=colours[rule], marker="o", label=rule)
            axis.set(xlabel="round", title=f"epsilon {epsilon:g}" if math.isfinite(epsilon) else "no noise")
        axes[0, 0].set_ylabel("recall of the texts that voted")
        found = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
        fig.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found))


def main() -> None:
    """Run all settings that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", required=True)
    parser.add_argument("--text")
    parser.add_argument("--generator", default="embedded")
    parser.add_argument("--embedder", default="minilm", help="or st:MODEL")
    parser.add_argument("--prompts", default="pubmed")
    parser.add_argument("--words", type=int, default=100, help="texts are cut to so many, and written so long")
    parser.add_argument("--limit", type=int, default=10**9, help="use only so many private texts")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0, math.inf])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--selectors", nargs="+", default=["gape"], help="gape, gape:SPARE or ranking")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    texts = load_texts(asked.private, asked.text).texts[: asked.limit]
    cut = np.array([" ".join(text.split()[: asked.words]) for text in texts], dtype=object)
    kind, _, name = asked.embedder.partition(":")
    embedder: Embedder = MiniLM() if kind == "minilm" else SentenceTransformer(name, batch=256)
    points = embedder.embed(cut[np.random.default_rng(0).permutation(len(cut))])
    held, voting = points[: asked.held_out], points[asked.held_out :]
    kind, _, name = asked.generator.partition(":")
    model: LanguageModel = EmbeddedModel(fetch(SMOLLM2)) if kind == "embedded" else TransformersModel(name)
    scores = {"voting": Score(voting), "held out": Score(held)}
    rows: list[dict[str, Any]] = []
    for seed in asked.seeds:
        real = voting[np.random.default_rng(seed).choice(len(voting), asked.samples, replace=False)]
        recall, distance = scores["held out"].of(real)
        print(f"seed {seed}: {asked.samples} real texts, held-out recall {recall:.3f}, distance {distance:.4f}")
        for epsilon in asked.epsilons:
            for rule in asked.selectors:
                plan = Plan(
                    epsilon, 1 / (len(voting) * math.log(len(voting))), asked.rounds, asked.samples, scales=SCALES,
                    seed=seed,
                )  # fmt: skip
                spare = float(rule.partition(":")[2] or 2.0)
                chosen = Ranking() if rule == "ranking" else Gape(math.inf, plan.sigma, spare=spare, signed=False)
                began = time.perf_counter()
                written = evolution(plan, model, embedder, asked.prompts, asked.words, voting, chosen)
                for turn, synthetic in enumerate(written):
                    row = {"selector": rule, "epsilon": epsilon, "seed": seed, "round": turn}
                    for part, score in scores.items():
                        row[f"recall, {part}"], row[f"distance, {part}"] = score.of(synthetic)
                    rows.append(row)
                took = time.perf_counter() - began
                path = " ".join(f"{row['recall, voting']:.3f}" for row in rows[-len(written) :])
                gaps = " ".join(f"{row['distance, held out']:.4f}" for row in rows[-len(written) :])
                print(
                    f"epsilon {epsilon:g}, {rule}, seed {seed}: recall {path}; held-out distance {gaps}; {took:.0f} s"
                )
    write_rows(asked.out, "rounds", rows)
    draw(asked.out, rows)


if __name__ == "__main__":
    main()
