"""Recompute the tables of this experiment's README from the stored runs.

    python experiments/frontier/tables.py

A test holds the README to what this prints.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from gape.evaluation.compare import SeedMean

RESULTS = Path(__file__).parent / "results"
BEFORE = Path(__file__).parents[1] / "varied_text" / "results"
DATASETS = {"reddit": "Reddit", "pubmed": "PubMed", "yelp": "Yelp", "goemotions": "GoEmotions"}
METHODS = {
    "default": "default",
    "believed-shares": "default, shares of believed votes",
    "centres": "default before regions",
    "ranking-nucleus": "ranking, as many votes, the same sampling",
    "ranking": "ranking, as many votes, narrower sampling",
    "chosen": "chosen",
    "before": "before",
    "augpe": "AugPE",
    "subsamplepe": "SubsamplePE",
    "gape-paper": "the paper's GAPE",
}
EPSILONS = (0.5, 1.0, 4.0, 8.0)
_FIGURES = (("recall", 1), ("W1", -1), ("energy", -1), ("next-word", 1), ("stars", 1))


@dataclass(frozen=True)
class Run:
    """What a stored run ended with."""

    method: str
    epsilon: float
    seed: int
    figures: dict[str, float]


def read(folder: Path) -> list[Run]:
    """Read the runs of a folder; a file's name says what ran, where that differs from the cell."""
    return [_run(path) for path in sorted(folder.glob("*.json"))]


def _run(path: Path) -> Run:
    values = json.loads(path.read_text())
    last, scores = values["turns"][-1], values["turns"][-1]["held_out"]
    repetition = last["repetition"]
    figures = {
        "recall": scores["recall"],
        "W1": scores["sinkhorn"],
        "energy": scores.get("energy"),
        "repeat": repetition["repeating"],
        "openings": repetition["openings"],
        "pairs": repetition["pairs"],
        "lineages": last["lineages"],
        "next-word": last["next_word"],
        "stars": last["label_accuracy"],
    }
    cell = values["cell"]
    known = {name: float(value) for name, value in figures.items() if value is not None}
    return Run(path.name.partition("--")[0], float(cell["epsilon"]), int(cell["seed"]), known)


def grid(dataset: str) -> list[str]:
    """List the means over seeds of every method that ran at several epsilons, at the end of the runs."""
    runs = [*read(RESULTS / dataset), *(run for run in read(BEFORE / dataset) if run.method == "before")]
    real = [run for run in runs if run.method == "real"]
    rows = []
    for epsilon in EPSILONS:
        for method, name in METHODS.items():
            if own := [run for run in runs if run.method == method and run.epsilon == epsilon]:
                rows.append([f"epsilon {epsilon:g}, {name}", str(len(own)), *_cells(own, real)])
    rows.append(["as many real records", str(len(real)), *_cells(real, real)])
    figures = (
        "recall",
        "W1",
        "energy",
        "repeat another",
        "openings",
        "pairs",
        "of real pairs",
        "lineages",
        "next-word",
        "stars",
    )
    return _table([DATASETS[dataset], "runs", *figures], rows)


def paired(method: str, other: str) -> list[str]:
    """Compare two methods by seed: mean differences with 95% t-intervals."""
    rows = []
    for dataset, name in DATASETS.items():
        runs = [*read(RESULTS / dataset), *(run for run in read(BEFORE / dataset) if run.method == "before")]
        ours, theirs = (
            {(run.epsilon, run.seed): run.figures for run in runs if run.method == wanted} for wanted in (method, other)
        )
        for epsilon in EPSILONS:
            shared = [key for key in sorted(ours) if key in theirs and key[0] == epsilon]
            if shared:
                gains = (_gain([(ours[key], theirs[key]) for key in shared], *figure) for figure in _FIGURES)
                rows.append([f"{name}, epsilon {epsilon:g}", str(len(shared)), *gains])
    return _table(["better by", "pairs of runs", *(figure for figure, _ in _FIGURES)], rows)


def _gain(pairs: Sequence[tuple[dict[str, float], dict[str, float]]], figure: str, sign: int) -> str:
    known = [(own[figure], other[figure]) for own, other in pairs if figure in own and figure in other]
    if not known:
        return ""
    digits = 4 if figure == "energy" else 3
    gain = SeedMean(tuple(sign * (mine - its) for mine, its in known))
    return f"{gain.mean:+.{digits}f}" + (f" ± {gain.reach:.{digits}f}" if len(known) > 1 else "")


def energies() -> list[str]:
    """List the energy distance of default and ranking for docs/measured.md, as means over the seeds that both have."""
    rows = []
    for epsilon in EPSILONS:
        cells = []
        for dataset in DATASETS:
            runs = [run for run in read(RESULTS / dataset) if run.epsilon == epsilon and "energy" in run.figures]
            ours, theirs = (
                {run.seed: run.figures["energy"] for run in runs if run.method == method}
                for method in ("default", "ranking-nucleus")
            )
            seeds = sorted(set(ours) & set(theirs))
            own, other = (mean(values[seed] for seed in seeds) for values in (ours, theirs))
            cells.append(f"{own:.4f}, {other:.4f}".replace("0.", "."))
        rows.append([f"{epsilon:g}", *cells])
    return _table(["epsilon", *DATASETS.values()], rows)


def in_brief(epsilon: float) -> list[str]:
    """List recall, W1 and the share of texts that repeat another for docs/measured.md, as means over seeds."""
    names = {
        "default": "default",
        "centres": "earlier default, without regions",
        "ranking-nucleus": "ranking, same number of votes",
        "ranking": "the same, sampled more narrowly",
        "augpe": "AugPE",
        "subsamplepe": "SubsamplePE",
        "gape-paper": "the paper's GAPE",
    }
    rows = []
    for method, name in names.items():
        own = [
            [run for run in read(RESULTS / dataset) if (run.method, run.epsilon) == (method, epsilon)]
            for dataset in DATASETS
        ]
        rows.append([name, *("" if not runs else _in_brief(runs) for runs in own)])
    return _table([f"epsilon {epsilon:g}", *DATASETS.values()], rows)


def _in_brief(runs: Sequence[Run]) -> str:
    recall, w1, repeat = (mean(run.figures[figure] for run in runs) for figure in ("recall", "W1", "repeat"))
    return f"{recall:.3f}, {w1:.3f}, {repeat:.0%}".replace("0.", ".")


def single(dataset: str, epsilon: float) -> list[str]:
    """List all rules that were tried on seed 0."""
    runs = [run for run in read(RESULTS / dataset) if run.seed == 0 and run.epsilon == epsilon]
    rows = [
        [run.method, f"{run.figures['recall']:.3f}", f"{run.figures['W1']:.4f}", f"{run.figures['repeat']:.0%}",
         f"{run.figures['pairs']:.3f}", f"{run.figures['lineages']:.0f}", f"{run.figures['next-word']:.4f}"]
        for run in sorted(runs, key=lambda run: run.figures["W1"])
    ]  # fmt: skip
    return _table(
        [
            f"{DATASETS[dataset]}, epsilon {epsilon:g}",
            "recall",
            "W1",
            "repeat another",
            "pairs",
            "lineages",
            "next-word",
        ],
        rows,
    )


def _cells(runs: Sequence[Run], real: Sequence[Run]) -> list[str]:
    def average(figure: str, digits: str) -> str:
        values = [run.figures[figure] for run in runs if figure in run.figures]
        return format(mean(values), digits) if values else ""

    pairs = mean(run.figures["pairs"] for run in runs) / mean(run.figures["pairs"] for run in real)
    return [
        average("recall", ".3f"), average("W1", ".4f"), average("energy", ".4f"), average("repeat", ".0%"),
        average("openings", ".0%"), average("pairs", ".3f"), f"{pairs:.2f}", average("lineages", ".0f"),
        average("next-word", ".4f"), average("stars", ".3f"),
    ]  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


def tables() -> list[list[str]]:
    """Return all tables of the README, in order."""
    grids = [grid(dataset) for dataset in DATASETS]
    against = [paired("default", other) for other in ("centres", "ranking-nucleus", "ranking", "augpe", "before")]
    earlier = [paired("centres", other) for other in ("ranking", "augpe", "before")]
    tried = [single(*setting) for setting in (("reddit", 1.0), ("reddit", 4.0), ("pubmed", 1.0), ("yelp", 1.0))]
    return [*grids, energies(), *against, *earlier, *tried]


if __name__ == "__main__":
    print("\n\n".join("\n".join(table) for table in tables()))
