"""Recompute the tables of this experiment's README from the stored runs.

    python experiments/topic_survey/tables.py

A test holds the README to what this prints.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

from gape.evaluation.compare import SeedMean

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.5, 1.0, 4.0)
FIGURES = {"start recall": 1, "start W1": -1, "end recall": 1, "end W1": -1}  # with the sign of what is better
CORPORA = {"few": "four subreddits", "all": "all subreddits"}
REVIEWS = {"few": "rows of four categories", "all": "rows of all categories"}
SHARES = {"0.1": "survey of 14%", "0.3": "survey of 33%", "free": "exact and free"}
MODELS = {"reddit-few": "four subreddits, m = 500", "reddit-few-80": "four subreddits, m = 80"}
VARIANTS = {"survey": "survey of 10%", "survey-texts": "survey of 10%, by texts"}

Runs: TypeAlias = dict[tuple[str, float, int], dict[str, float]]  # figures by variant, epsilon and seed


def corpus(data: str, size: int, stored: str = "corpus") -> Runs:
    """Read the runs with a corpus of posts, or of rows with texts (`reviews`)."""
    with (RESULTS / f"{stored}.csv").open() as file:
        return {
            (row["share"], float(row["epsilon"]), int(row["seed"])): {name: float(row[name]) for name in FIGURES}
            for row in csv.DictReader(file)
            if row["data"] == data and int(row["samples"]) == size
        }


def models(dataset: str) -> Runs:
    """Read the runs with a language model."""
    runs: Runs = {}
    for path in sorted((RESULTS / dataset).glob("*.json")):
        values = json.loads(path.read_text())
        cell, turns = values["cell"], values["turns"]
        start, end = turns[0]["held_out"], turns[-1]["held_out"]
        runs[cell["method"], float(cell["epsilon"]), int(cell["seed"])] = {
            "start recall": start["recall"],
            "start W1": start["sinkhorn"],
            "end recall": end["recall"],
            "end W1": end["sinkhorn"],
        }
    return runs


def gain(runs: Runs, variant: str, without: str, epsilon: float, figure: str) -> SeedMean | None:
    """Return how much better a variant is than no survey, by seed; None if they share no seed."""
    seeds = [seed for name, own, seed in runs if (name, own) == (variant, epsilon) and (without, epsilon, seed) in runs]
    values = tuple(
        FIGURES[figure] * (runs[variant, epsilon, seed][figure] - runs[without, epsilon, seed][figure])
        for seed in seeds
    )
    return SeedMean(values) if values else None


def table(title: str, runs: Runs, variants: Mapping[str, str], without: str) -> list[str]:
    """List what runs without a survey reach, and by how much each variant is better, with 95% intervals."""
    rows = []
    for epsilon in EPSILONS:
        plain = [figures for (name, own, _), figures in runs.items() if (name, own) == (without, epsilon)]
        if not plain:
            continue
        reached = [f"{mean(figures[name] for figures in plain):.3f}" for name in FIGURES]
        rows.append([f"epsilon {epsilon:g}, no survey", str(len(plain)), *reached])
        for variant, name in variants.items():
            gains = [gain(runs, variant, without, epsilon, figure) for figure in FIGURES]
            if gains[0] is not None:
                count = str(len(gains[0].values))
                rows.append([f"epsilon {epsilon:g}, {name}: better by", count, *map(_shown, gains)])
    return _table([title, "runs", *FIGURES], rows)


def tables() -> list[list[str]]:
    """Return all tables of the README."""
    with_corpus = [
        table(f"{name}, m = {size}", corpus(data, size), SHARES, "0")
        for data, name in CORPORA.items()
        for size in (50, 200)
    ]
    with_models = [table(name, models(dataset), VARIANTS, "default") for dataset, name in MODELS.items()]
    of_rows = [table(f"{name}, m = 50", corpus(data, 50, "reviews"), SHARES, "0") for data, name in REVIEWS.items()]
    return with_corpus + with_models + of_rows


def _shown(gained: SeedMean | None) -> str:
    if gained is None:
        return ""
    return f"{gained.mean:+.3f}" + (f" ± {gained.reach:.3f}" if len(gained.values) > 1 else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


if __name__ == "__main__":
    print("\n\n".join("\n".join(table) for table in tables()))
