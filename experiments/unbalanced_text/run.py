"""Who keeps rare kinds of texts, where most of the private ones are of another kind.

    python experiments/unbalanced_text/run.py --kind pubmed FILE abstract 0.9 --kind reddit FILE text 0.08 \
        --kind yelp FILE text 0.02

The public corpus has as many texts of each kind, for nobody knows what the private ones are. Every method starts from
the same texts and votes. Scores are by private texts that do not vote, as many of each kind, kind by kind. Seeded noise
and scores by private texts: this is NOT private, and for data that may be looked at.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.ahead.run import Shelf
from experiments.common import free_account, write_rows
from experiments.corpus_text.run import Looked, embedded, load

from gape.core.errors import InputError
from gape.core.types import Points
from gape.embedders.minilm import MiniLM
from gape.evaluation import plots
from gape.evaluation.compare import SeedMean
from gape.evaluation.plots import COLOURS, GREY, MARKERS
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.metrics import recall, sinkhorn1
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.runs.presets import PRESETS
from gape.runs.resolve import VARIATIONS
from gape.runs.selector import make_selector
from gape.runs.settings import Settings
from gape.voting.electorate import LocalElectorate

METHODS = {"subsamplepe": "Subsampling", "augpe": "Ranking", "gape": "GAPE"}  # and whose colour they have
LABELS = {"subsamplepe": "SubsamplePE", "augpe": "AugPE", "gape": "GAPE"}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 100.0)
SEEDS = 5

Scores = Mapping[tuple[str, float], Sequence[Mapping[str, float]]]  # by method and epsilon, of every seed


@dataclass(frozen=True)
class Kind:
    """Texts of one kind: those that may vote or score, by their embeddings, (n, d), and those of the corpus."""

    name: str
    share: float  # of those that vote
    private: Points
    corpus: tuple[str, ...]
    points: Points  # of the corpus


@dataclass(frozen=True)
class Sizes:
    """How many texts vote, how many of each kind score, and how a run goes on with them."""

    voters: int = 5000
    scoring: int = 500  # of each kind
    samples: int = 200  # m
    rounds: int = 10  # T


def split(kinds: Sequence[Kind], sizes: Sizes, seed: int) -> tuple[Points, list[Points]]:
    """Draw who votes, by the shares of the kinds, and who scores, of each kind."""
    voters, scoring = [], []
    for place, kind in enumerate(kinds):
        order = np.random.default_rng([seed, place, *b"split"]).permutation(len(kind.private))
        wanted = round(kind.share * sizes.voters)
        if wanted + sizes.scoring > len(order):
            raise InputError(f"{kind.name} has {len(order)} private texts, not {wanted + sizes.scoring}; ask for fewer")
        voters.append(kind.private[order[:wanted]])
        scoring.append(kind.private[order[wanted : wanted + sizes.scoring]])
    return np.concatenate(voters), scoring


def scored(
    kinds: Sequence[Kind], shelf: Shelf, sizes: Sizes, method: str, epsilon: float, seed: int
) -> dict[str, float]:
    """Run a method once; recall and the share of the samples for each kind, and W1 to all at their shares."""
    voters, scoring = split(kinds, sizes, seed)
    scales, copies = VARIATIONS["corpus"]
    preset = PRESETS[method]
    plan = Plan(
        epsilon,
        usual_delta(len(voters)),
        sizes.rounds,
        sizes.samples,
        scales=scales,
        copies=copies,
        seed=seed,
        keep=preset.get("keep", True),
    )
    settings = Settings(epsilon=epsilon, selector=preset.get("selector", "gape"), generator="corpus:public")
    with free_account() as account:
        parts = shelf, shelf.embedder, LocalElectorate(voters), make_selector(settings, plan)
        *_, last = evolve(plan, *parts, account, noise=SeededNoise(seed))
    points = shelf.embedder.embed(last.synthetic)
    found = {}
    for kind, some in zip(kinds, scoring, strict=True):
        found[f"recall, {kind.name}"] = recall(some, points)
        found[f"share, {kind.name}"] = float(np.isin(last.synthetic, np.array(kind.corpus, dtype=object)).mean())
    largest = max(kind.share for kind in kinds)
    mixed = [some[: round(kind.share / largest * len(some))] for kind, some in zip(kinds, scoring, strict=True)]
    found["W1"] = sinkhorn1(np.concatenate(mixed), points).value
    return found


def table(found: Scores) -> list[dict[str, Any]]:
    """Return a row for each epsilon and score: the means, and how much more GAPE has than AugPE with its interval."""
    rows = []
    for epsilon in dict.fromkeys(epsilon for _, epsilon in found):
        for name in found["gape", epsilon][0]:
            values = {method: [run[name] for run in found[method, epsilon]] for method in METHODS}
            gains = SeedMean(tuple(ours - theirs for ours, theirs in zip(values["gape"], values["augpe"], strict=True)))
            means = {LABELS[method]: SeedMean(tuple(each)).mean for method, each in values.items()}
            rows.append(
                {"epsilon": epsilon, "score": name, **means}
                | {"GAPE less AugPE": gains.mean, "give or take": gains.reach, "seeds": len(gains.values)}
            )
    return rows


def draw(out: Path, kinds: Sequence[Kind], found: Scores) -> None:
    """Draw recall of every kind, and how many samples are of it, over epsilon."""
    epsilons = list(dict.fromkeys(epsilon for _, epsilon in found))
    with plots.figure(out / "kinds.png", rows=2, columns=len(kinds), size=(3.0 * len(kinds), 5.0), sharex=True) as (
        drawn,
        axes,
    ):
        for column, kind in enumerate(kinds):
            for row, what in enumerate(("recall", "share")):
                axis = axes[row, column]
                for method, colour in METHODS.items():
                    runs = [
                        SeedMean(tuple(run[f"{what}, {kind.name}"] for run in found[method, epsilon]))
                        for epsilon in epsilons
                    ]
                    means = [each.mean for each in runs]
                    reach = [[each.mean - each.lowest for each in runs], [each.highest - each.mean for each in runs]]
                    style = {"color": COLOURS[colour], "marker": MARKERS[colour], "capsize": 2, "label": LABELS[method]}
                    axis.errorbar(epsilons, means, yerr=reach, **style)
                if what == "share":
                    axis.axhline(kind.share, color=GREY, linestyle=":", label="of those that vote")
                axis.set_xscale("log")
                axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
                axis.tick_params(axis="x", which="minor", bottom=False)
            axes[0, column].set_title(f"{kind.name}, {kind.share:.0%} of those that vote")
            axes[1, column].set_xlabel("epsilon")
        axes[0, 0].set_ylabel("recall of those that do not vote")
        axes[1, 0].set_ylabel("share of the samples")
        handles, labels = axes[1, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def run(out: Path, kinds: Sequence[Kind], sizes: Sizes, epsilons: Sequence[float], seeds: int) -> list[dict[str, Any]]:
    """Make the table and the figure in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    corpus = [text for kind in kinds for text in kind.corpus]
    points = np.concatenate([kind.points for kind in kinds])
    shelf = Shelf(tuple(corpus), Looked({text: place for place, text in enumerate(corpus)}, points))
    found = {}
    for epsilon in epsilons:
        for method in METHODS:
            found[method, epsilon] = [scored(kinds, shelf, sizes, method, epsilon, seed) for seed in range(seeds)]
            means = {
                name: f"{np.mean([run[name] for run in found[method, epsilon]]):.4f}"
                for name in found[method, epsilon][0]
            }
            print(f"{method}, epsilon {epsilon:g}: {means}", flush=True)
    runs = [
        {"method": LABELS[method], "epsilon": epsilon, "seed": seed, **scores}
        for (method, epsilon), some in found.items()
        for seed, scores in enumerate(some)
    ]
    write_rows(out, "runs", runs)
    rows = table(found)
    write_rows(out, "kinds", rows)
    draw(out, kinds, found)
    return rows


def main() -> None:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kind", nargs=4, action="append", required=True, metavar=("NAME", "FILE", "COLUMN", "SHARE"), help="texts"
    )
    parser.add_argument("--public", type=int, default=2000, help="texts of each kind in the corpus (2,000)")
    parser.add_argument("--words", type=int, default=60, help="cut every text to so many words (60)")
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps the embeddings; those of private texts are private"
    )
    parser.add_argument("--voters", type=int, default=Sizes.voters)
    parser.add_argument("--scoring", type=int, default=Sizes.scoring, help="texts of each kind that score (500)")
    parser.add_argument("--samples", type=int, default=Sizes.samples)
    parser.add_argument("--rounds", type=int, default=Sizes.rounds)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each kind, at least 2 ({SEEDS})")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    embedder, kinds = MiniLM(), []
    for name, file, column, share in asked.kind:
        texts = list(dict.fromkeys(load(Path(file), column, asked.words)))
        wanted = asked.public + asked.scoring + round(float(share) * asked.voters)
        order = np.random.default_rng(0).permutation(len(texts))[:wanted]
        chosen = tuple(texts[place] for place in order)
        points = embedded(chosen, embedder, asked.cache)
        kinds.append(Kind(name, float(share), points[asked.public :], chosen[: asked.public], points[: asked.public]))
    sizes = Sizes(asked.voters, asked.scoring, asked.samples, asked.rounds)
    run(asked.out, kinds, sizes, asked.epsilons, asked.seeds)


if __name__ == "__main__":
    main()
