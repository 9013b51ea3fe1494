"""The tables of the README, from the stored runs.

python experiments/mixed/tables.py
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.mixed.grid import SHARES

_COMPARED = 3  # lines of a table with one row
RESULTS = Path(__file__).parent / "results"
Line: TypeAlias = dict[str, Any]

REVIEWS = {
    "stars accuracy": "stars, accuracy",
    "stars balanced": "stars, balanced",
    "stars distance": "stars, distance",
    "category accuracy": "category, accuracy",
    "category distance": "category, distance",
    "W1 of texts": "W1 of texts",
    "repeating": "repeating",
}
CELLS = {
    "column distance": "columns, distance",
    "column pair distance": "pairs, distance",
    "W1": "W1",
    "word distance": "words, distance",
    "mean length": "words of a text",
    "repeating": "repeating",
}
OTHERS = {
    "pubmed": {"journal by texts": "journal, accuracy", "kind by texts": "kind, accuracy", **CELLS},
    "chats": {"forum by texts": "forum, accuracy", **CELLS},
}
NAMES = {
    "weight-1/4": "texts weigh 1/4",
    "weight-1/2": "texts weigh 1/2",
    "weight-2": "texts weigh 2",
    "weight-4": "texts weigh 4",
    "text-only-1/4": "a quarter keeps the cells",
    "text-only-3/4": "three quarters keep the cells",
    "texts-rewritten": "a changed cell always rewrites texts",
    "texts-kept": "a changed cell never rewrites texts",
    "cells-1/6": "a sixth of s of the cells changes",
    "cells-2/3": "two thirds of s of the cells change",
}


def read(name: str) -> list[Line]:
    """Return the lines of a stored file."""
    return [json.loads(line) for line in (RESULTS / name).read_text(encoding="utf-8").splitlines()]


def reviews() -> list[Line]:
    """Return the lines of all runs of 500 reviews."""
    return [line for line in (*read("yelp-500.jsonl"), *read("grid.jsonl")) if "dataset" not in line]


def chosen(lines: Sequence[Line], what: str, **wanted: object) -> list[Line]:
    """Return the lines of a state of some runs."""
    return [line for line in lines if line["what"] == what and all(line.get(key) == wanted[key] for key in wanted)]


def figure(lines: Sequence[Line], key: str) -> str:
    """Return the mean of a figure, and its standard deviation if there are several runs; empty if it is not known."""
    values = [line[key] for line in lines if key in line]
    if not values:
        return ""
    digits = 0 if key == "mean length" else 3
    mean = _short(float(np.mean(values)), digits)
    return mean if len(values) == 1 else f"{mean} ± {_short(float(np.std(values, ddof=1)), digits)}"


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0") if digits else f"{value:.0f}"


def table(columns: dict[str, str], rows: Sequence[tuple[str, Sequence[Line]]], *, counted: bool = True) -> list[str]:
    """Return a table in Markdown with the number of runs in each row."""
    head = ["", *(["runs"] if counted else []), *columns.values()]
    body = [
        [name, *([str(len(lines))] if counted else []), *(figure(lines, key) for key in columns)]
        for name, lines in rows
        if lines
    ]
    return [_joined(head), _joined(["---"] * len(head)), *map(_joined, body)]


def _joined(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def yelp() -> list[str]:
    """Tabulate the runs at both epsilons beside real reviews."""
    lines, rows = reviews(), list[tuple[str, list[Line]]]()
    rows.append(("guessing the commonest", chosen(lines, "guessing")))
    for variant, name in (
        ("records", "**records**"),
        ("strict", "strict stars"),
        ("untold", "untold"),
        ("stars", "stars alone"),
        ("stars-untold", "stars alone, untold"),
        ("stars-strict", "stars alone, strict"),
        ("stars-strict-untold", "stars alone, strict, untold"),
        ("labels", "labels"),
    ):
        rows.append((f"start of {name.strip('*')}", chosen(lines, "start", variant=variant, epsilon=4.0)))
        rows += [
            (f"{name}, epsilon {epsilon:g}", chosen(lines, "published", variant=variant, epsilon=epsilon))
            for epsilon in (4.0, 1.0)
        ]
    rows.append(("500 real reviews", chosen(lines, "real")))
    return table(REVIEWS, rows)


def weights() -> list[str]:
    """Tabulate the weights and shares at epsilon 4, beside the default."""
    lines = reviews()
    of: Callable[[str], list[Line]] = lambda name: chosen(lines, "published", variant=name, epsilon=4.0)  # noqa: E731
    return table(REVIEWS, [("**default**", of("records")), *((NAMES[name], of(name)) for name in SHARES)])


def cpu() -> list[str]:
    """Tabulate the runs of 50 records on a CPU."""
    lines = read("yelp-cpu.jsonl")
    rows = [("start", chosen(lines, "start", epsilon=4.0))]
    rows += [(f"epsilon {epsilon:g}", chosen(lines, "published", epsilon=epsilon)) for epsilon in (4.0, 1.0)]
    return table(REVIEWS, [*rows, ("50 real reviews", chosen(read("yelp-50.jsonl"), "real"))])


def strict() -> list[str]:
    """Tabulate the runs of 30 records with the stars alone, strict or not, beside labels."""
    lines, rows = read("yelp-30.jsonl"), list[tuple[str, list[Line]]]()
    for variant, name in (("stars-strict", "stars, strict"), ("stars", "stars"), ("labels", "labels")):
        rows.append((f"start of {name}", chosen(lines, "start", variant=variant)))
        rows.append((name, chosen(lines, "published", variant=variant)))
    return table(REVIEWS, [*rows, ("30 real reviews", chosen(lines, "real"))])


def others(name: str) -> list[str]:
    """Tabulate the runs on another dataset."""
    lines = [line for line in (*read("guessing.jsonl"), *read("grid.jsonl")) if line.get("dataset") == name]
    rows = [("guessing the commonest", chosen(lines, "guessing")), ("start", chosen(lines, "start")[:1])]
    rows += [(f"epsilon {epsilon:g}", chosen(lines, "published", epsilon=epsilon)) for epsilon in (4.0, 1.0)]
    return table(OTHERS[name], [*rows, ("500 real ones", chosen(lines, "real")[:1])], counted=False)


def tables() -> list[list[str]]:
    """Return all tables that have rows to compare."""
    made = (yelp(), weights(), cpu(), strict(), *(others(name) for name in OTHERS))
    return [rows for rows in made if len(rows) > _COMPARED]


if __name__ == "__main__":
    print("\n\n".join("\n".join(rows) for rows in tables()))
