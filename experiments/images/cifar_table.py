"""The tables of CIFAR-10 for the pages, from the stored runs: means over seeds, with 95% intervals.

python experiments/images/cifar_table.py
"""

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from gape.evaluation.compare import SeedMean

STORED = Path(__file__).parent / "results" / "cifar.csv"
VOTES = STORED.with_name("cifar_votes.csv")
DIGITS = {"FID": 1, "accuracy": 3, "right labels": 2, "recall": 2, "W1": 4}
NAMES = {"one vote": "GAPE, one vote", "AugPE": "AugPE (ranking, one vote)", "default, 8 votes": "GAPE, 8 votes"}


def values(epsilon: str, rule: str, measure: str, stored: Path = STORED) -> SeedMean:
    """Return a measure of a rule, seed by seed."""
    with stored.open() as file:
        rows = [row for row in csv.DictReader(file) if (row["epsilon"], row["rule"]) == (epsilon, rule)]
    return SeedMean(tuple(float(row[measure]) for row in sorted(rows, key=lambda row: int(row["seed"]))))


def lines(stored: Path = STORED) -> list[str]:
    """Return a table."""
    with stored.open() as file:
        kinds = dict.fromkeys((row["epsilon"], row["rule"]) for row in csv.DictReader(file))
    table = [
        "| epsilon | Rule | FID | Accuracy | Right labels | Recall | W1 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for epsilon, rule in sorted(kinds, key=lambda kind: float(kind[0])):
        cells = [_cell(values(epsilon, rule, measure, stored), digits) for measure, digits in DIGITS.items()]
        table.append(f"| {epsilon} | {NAMES.get(rule, rule)} | {' | '.join(cells)} |")
    return table


def _cell(found: SeedMean, digits: int) -> str:
    mean, reach = (f"{value:.{digits}f}" for value in (found.mean, found.reach))
    return f"{mean.removeprefix('0')} ± {reach.removeprefix('0')}"


if __name__ == "__main__":
    print("\n".join([*lines(), "", *lines(VOTES)]))
