"""How near each selection rule brings texts of a public corpus to private ones that did not vote.

A fifth of the private texts is held out. The others vote among texts of the corpus, as in `gape run --generator
corpus:FILE`, and the held-out ones score the start and every round. The noise here is seeded, so that the table can be
repeated, and private texts score: neither is private, so this is for data that may be looked at.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, over_seeds, write_rows

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Embedder, Selector
from gape.core.types import Floats, Points, Samples
from gape.embedders.minilm import MiniLM
from gape.evaluation import plots
from gape.evaluation.plots import COLOURS, GREY, INK
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.modalities import load_texts
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.runs.resolve import VARIATIONS
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.voting.electorate import LocalElectorate

EPSILONS = (1.0, 4.0, math.inf)
METHODS = ("Ranking", "Subsampling", "GAPE", "GAPE, signed")
CERTIFIED = "GAPE, signed, certified"  # minutes a run; without noise nothing is negative, and it is GAPE
SEEDS = 3
HELD_OUT = 0.2  # of the private texts
NEIGHBOUR = 3  # a ball reaches to so many-th nearest other held-out text

_STYLES = {
    "Ranking": {"color": COLOURS["Ranking"], "marker": "s"},
    "Subsampling": {"color": COLOURS["Subsampling"], "marker": "D"},
    "GAPE": {"color": COLOURS["GAPE"], "marker": "o"},
    "GAPE, signed": {"color": INK, "marker": "^", "linestyle": "--"},
    CERTIFIED: {"color": COLOURS["K-medoids"], "marker": "v", "linestyle": "--"},
}


@dataclass(frozen=True, eq=False)
class Data:
    """The private texts by their embeddings, (n, d), and the public ones with theirs, (N, d)."""

    private: Points
    corpus: tuple[str, ...]
    points: Points

    def split(self, seed: int) -> tuple[Points, Points]:
        """Divide the private texts into those that vote and those held out."""
        order = np.random.default_rng([seed, *b"split"]).permutation(len(self.private))
        held_out = round(HELD_OUT * len(order))
        if held_out <= NEIGHBOUR:
            raise InputError(f"{len(order)} private texts are too few to hold some out; give at least 20")
        return self.private[order[held_out:]], self.private[order[:held_out]]


@dataclass(frozen=True)
class Looked:
    """An embedder of the corpus alone, by looking up what is there already."""

    places: dict[str, int]
    points: Points

    def embed(self, samples: Samples) -> Points:
        """Return the rows of known texts."""
        return self.points[[self.places[text] for text in samples]]


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    method: str
    epsilon: float
    samples: int = 200  # m
    rounds: int = 5  # T

    def plan(self, units: int, seed: int) -> Plan:
        """The plan of one run, with the default scales of a corpus."""
        scales, copies = VARIATIONS["corpus"]
        delta = usual_delta(units)
        return Plan(self.epsilon, delta, self.rounds, self.samples, scales=scales, copies=copies, seed=seed)

    def selector(self, sigma: float) -> Selector:
        """The selection rule; GAPE as a text run has it by default, or signed, with the flow held or to the optimum."""
        rules: dict[str, Selector] = {
            "Ranking": Ranking(),
            "Subsampling": Subsampling(),
            "GAPE": Gape(math.inf, threshold=sigma, spare=2.0, signed=False),
            "GAPE, signed": Gape(math.inf, threshold=sigma, certify=False, spare=2.0),
            CERTIFIED: Gape(math.inf, threshold=sigma, certify=True, spare=2.0),
        }
        return rules[self.method]


@dataclass(frozen=True)
class Score:
    """How well texts stand for the held-out ones."""

    recall: float  # share of held-out texts with one of them in their ball
    distance: float  # from a held-out text to the nearest of them, on average
    different: int  # how many of them differ


def score(held_out: Points, points: Points) -> Score:
    """Score texts by recall based on the data: its balls lie round held-out texts, so that nothing far away counts."""
    radii = np.partition(distances(held_out, held_out), NEIGHBOUR, axis=1)[:, NEIGHBOUR]  # place 0 is the text itself
    nearest: Floats = distances(held_out, points).min(axis=1)
    return Score(float(np.mean(nearest <= radii)), float(nearest.mean()), len(np.unique(points, axis=0)))


def follow(task: tuple[Data, Case, int]) -> list[Score]:
    """Run one case once, and return the scores of the start and of every round."""
    data, case, seed = task
    voters, held_out = data.split(seed)
    embedder = Looked({text: place for place, text in enumerate(data.corpus)}, data.points)
    plan = case.plan(len(voters), seed)
    with free_account() as account:
        states = evolve(
            plan,
            CorpusText(data.corpus, embedder),
            embedder,
            LocalElectorate(voters),
            case.selector(plan.sigma),
            account,
            noise=SeededNoise(seed),
        )
        return [score(held_out, embedder.embed(state.synthetic)) for state in states if state.proposal is None]


def compared(data: Data, samples: int, seed: int) -> dict[str, Score]:
    """Score what needs no evolution: as many real texts as there are samples, and the corpus as a whole."""
    voters, held_out = data.split(seed)
    real = np.random.default_rng([seed, *b"real"]).permutation(len(voters))[:samples]
    return {"Real texts": score(held_out, voters[real]), "Whole corpus": score(held_out, data.points)}


def table(found: Mapping[tuple[str, float | str], Sequence[Score]]) -> list[dict[str, Any]]:
    """Return a row for each method and epsilon, with the mean over seeds and the range."""
    rows = []
    for (method, epsilon), scores in found.items():
        recalls, gaps = [each.recall for each in scores], [each.distance for each in scores]
        row = {
            "texts": method,
            "epsilon": epsilon,
            "seeds": len(scores),
            "recall": float(np.mean(recalls)),
            "lowest": min(recalls),
            "highest": max(recalls),
            "mean nearest distance": float(np.mean(gaps)),
            "different texts": float(np.mean([each.different for each in scores])),
        }
        rows.append(row)
    return rows


def draw(out: Path, ways: Mapping[Case, Sequence[Sequence[Score]]], real: Sequence[Score]) -> None:
    """Draw recall round by round, a panel for each epsilon: the mean over seeds, and every seed as a dot."""
    epsilons = sorted({case.epsilon for case in ways})
    size = (2.6 * len(epsilons) + 0.6, 3.4)
    with plots.figure(out / "recall.png", columns=len(epsilons), size=size, sharey=True) as (fig, axes):
        for axis, epsilon in zip(axes[0], epsilons, strict=True):
            for case, runs in ways.items():
                if case.epsilon != epsilon:
                    continue
                recalls = np.array([[each.recall for each in run] for run in runs])  # (seeds, T + 1)
                turns, style = np.arange(recalls.shape[1]), _STYLES[case.method]
                axis.plot(turns, recalls.mean(axis=0), label=case.method, **style)
                axis.scatter(np.tile(turns, len(recalls)), recalls, s=5, color=style["color"], alpha=0.4, linewidth=0)
            level = float(np.mean([each.recall for each in real]))
            axis.axhline(level, color=GREY, linestyle=":", label="as many real texts")
            axis.set(xlabel="round", title=f"epsilon {epsilon:g}" if math.isfinite(epsilon) else "no noise")
            axis.set_xticks(turns)
        axes[0, 0].set_ylabel("recall of held-out private texts")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def load(file: Path, text: str | None, words: int) -> tuple[str, ...]:
    """Read the texts of a file, each cut to so many words, joined by single spaces."""
    return tuple(" ".join(each.split()[:words]) for each in load_texts(file, text).texts)


def embedded(texts: Sequence[str], embedder: Embedder, cache: Path | None) -> Points:
    """Embed texts, or read their embeddings, (n, d), from the folder `cache`, where they are kept by content.

    Embeddings of private texts are private: what they say can be guessed from them.
    """
    if cache is None:
        return embedder.embed(np.array(texts, dtype=object))
    content = sha256(repr((embedder, texts)).encode(errors="backslashreplace")).hexdigest()
    file = cache / f"{content[:24]}.npz"
    if file.exists():
        with np.load(file) as kept:
            points: Points = kept["points"]
            return points
    points = embedder.embed(np.array(texts, dtype=object))
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    np.savez(file, points=points)
    return points


def run(
    out: Path,
    data: Data,
    seeds: int = SEEDS,
    jobs: int = 2,
    *,
    samples: int = 200,
    rounds: int = 5,
    certify: bool = False,
) -> list[dict[str, Any]]:
    """Make the tables and the figure in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    kinds = [(method, epsilon) for epsilon in EPSILONS for method in METHODS]
    if certify:
        kinds += [(CERTIFIED, epsilon) for epsilon in EPSILONS if math.isfinite(epsilon)]
    cases = [Case(method, epsilon, samples, rounds) for method, epsilon in kinds]
    runs = over_seeds(follow, [(data, case, seed) for case in cases for seed in range(seeds)], jobs)
    ways = {case: runs[place * seeds : (place + 1) * seeds] for place, case in enumerate(cases)}
    others = [compared(data, samples, seed) for seed in range(seeds)]
    found: dict[tuple[str, float | str], Sequence[Score]] = {
        ("Random start", ""): [way[0] for way in runs[:seeds]],  # the same for every method and epsilon
        **{(case.method, case.epsilon): [way[-1] for way in each] for case, each in ways.items()},
        **{(name, ""): [each[name] for each in others] for name in others[0]},
    }
    rows = table(found)
    write_rows(out, "scores", rows)
    by_round = [
        {"texts": case.method, "epsilon": case.epsilon, "seed": seed}
        | {f"recall in round {turn}": each.recall for turn, each in enumerate(way)}
        for case, some in ways.items()
        for seed, way in enumerate(some)
    ]
    write_rows(out, "rounds", by_round)
    draw(out, ways, [each["Real texts"] for each in others])
    return rows


def main() -> None:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--private", type=Path, required=True, help="file of private texts")
    parser.add_argument("--corpus", type=Path, required=True, help="file of public texts")
    parser.add_argument("--text", help="column of the texts, in both files")
    parser.add_argument("--words", type=int, default=60, help="most words of a text (60)")
    parser.add_argument("--cache", type=Path, help="folder to keep embeddings in, those of the private texts too")
    parser.add_argument("--certify", action="store_true", help="also signed GAPE to the optimum, minutes a run")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each kind ({SEEDS})")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    chosen = parser.parse_args()
    private, corpus = (load(file, chosen.text, chosen.words) for file in (chosen.private, chosen.corpus))
    embedder = MiniLM()
    data = Data(embedded(private, embedder, chosen.cache), corpus, embedded(corpus, embedder, chosen.cache))
    run(chosen.out, data, chosen.seeds, chosen.jobs, certify=chosen.certify)


if __name__ == "__main__":
    main()
