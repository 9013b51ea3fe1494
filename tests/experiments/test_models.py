"""The README of experiments/models says what its stored runs say."""

import csv
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "experiments" / "models"


def test_the_table_is_that_of_the_stored_runs() -> None:
    readme = (FOLDER / "README.md").read_text()
    with (FOLDER / "results" / "quality.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    shown = [line for line in readme.splitlines() if line.startswith(("| SmolLM2", "| Qwen"))]
    figures = ("W1, start", "W1, end", "recall, start", "recall, end", "tokens", "minutes")
    assert [line.split(" | ")[2:] for line in shown] == [
        [*(run[figure] for figure in figures[:-1]), f"{run['minutes']} |"] for run in runs
    ]
