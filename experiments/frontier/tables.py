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
DATASETS = {"reddit": "Reddit", "pubmed": "PubMed", "yelp": "Yelp"}


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


def grid() -> list[str]:
    """Compare the chosen rule with the default of before, AugPE and real records, at the end of the runs."""
    rows = []
    for dataset, name in DATASETS.items():
        runs, before = read(RESULTS / dataset), read(BEFORE / dataset)
        real = [run for run in runs if run.method == "real"]
        for epsilon in (1.0, 4.0):
            chosen, old, augpe = (
                [run for run in some if run.method == method and run.epsilon == epsilon]
                for some, method in ((runs, "chosen"), (before, "before"), (runs, "augpe"))
            )
            for label, some in (("chosen", chosen), ("before", old), ("AugPE", augpe)):
                rows.append([f"{name}, epsilon {epsilon:g}, {label}", str(len(some)), *_cells(some, real)])
        rows.append([f"{name}, as many real records", str(len(real)), *_cells(real, real)])
    return _table(
        [
            "",
            "runs",
            "recall",
            "W1",
            "repeat another",
            "openings",
            "pairs",
            "of real pairs",
            "lineages",
            "next-word",
            "stars",
        ],
        rows,
    )


def paired() -> list[str]:
    """Compare the chosen rule with the default of before by seed: mean differences with 95% t-intervals."""
    rows = []
    for dataset, name in DATASETS.items():
        chosen = {(run.epsilon, run.seed): run for run in read(RESULTS / dataset) if run.method == "chosen"}
        old = {(run.epsilon, run.seed): run for run in read(BEFORE / dataset) if run.method == "before"}
        for epsilon in (1.0, 4.0):
            shared = [key for key in sorted(chosen) if key in old and key[0] == epsilon]
            row = [f"{name}, epsilon {epsilon:g}", str(len(shared))]
            for figure, sign in (("recall", 1), ("W1", -1), ("next-word", 1), ("stars", 1)):
                if any(figure not in chosen[key].figures for key in shared):
                    row.append("")
                    continue
                gain = SeedMean(
                    tuple(sign * (chosen[key].figures[figure] - old[key].figures[figure]) for key in shared)
                )
                reach = f" ± {gain.reach:.3f}" if len(shared) > 1 else ""
                row.append(f"{gain.mean:+.3f}{reach}")
            rows.append(row)
    return _table(["better by", "pairs of runs", "recall", "W1", "next-word", "stars"], rows)


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
        average("recall", ".3f"), average("W1", ".4f"), average("repeat", ".0%"), average("openings", ".0%"),
        average("pairs", ".3f"), f"{pairs:.2f}", average("lineages", ".0f"), average("next-word", ".4f"),
        average("stars", ".3f"),
    ]  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


def tables() -> list[list[str]]:
    """Return all tables of the README, in order."""
    return [grid(), paired(), single("reddit", 1.0), single("reddit", 4.0), single("pubmed", 1.0)]


if __name__ == "__main__":
    print("\n\n".join("\n".join(table) for table in tables()))
