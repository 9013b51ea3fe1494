"""Which selection rules keep every cluster, and how near: where the theorem of cluster discovery holds, and elsewhere.

Runs are stored as they end, so an interrupted experiment goes on where it stopped. The noise here is seeded, so that
the tables can be repeated; such runs are marked as not private, which made-up data can bear.
"""

import argparse
import csv
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.cluster_discovery.covered import BELOW, COVERED, FIVE, Instance
from experiments.cluster_discovery.figures import draw_coverage, draw_covered, draw_kept, draw_least
from experiments.cluster_discovery.practical import MANY, SETTINGS, SWEEPS, Setting
from experiments.common import over_seeds, wilson, write_rows
from experiments.rules import DEFAULT, METHODS, PAPER

from gape.core.types import Floats
from gape.evaluation.plots import COLOURS
from gape.metrics.intervals import bootstrap

FIELDS = ("case", "method", "seed", "clusters", "kept", "coverage", "rounds", "lost")
Stored = dict[tuple[str, str], list[dict[str, float]]]  # by case and method


@dataclass(frozen=True)
class Task:
    """One run, and the file that takes its row."""

    case: Instance | Setting
    method: str
    seed: int
    store: Path

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells this run from the others."""
        return self.case.name, self.method, self.seed


def summary(history: Floats, bound: float) -> dict[str, float]:
    """Say what became of the clusters, by their coverage in every round, (T + 1, clusters).

    A round is lost if a cluster lies outside of the bound, after all of them were within it.
    """
    within = history.max(axis=1) <= bound
    arrival = int(np.argmax(within)) if within.any() else len(history)
    return {
        "clusters": history.shape[1],
        "kept": int((history[-1] <= bound).sum()),
        "coverage": float(history[-1].max()),
        "rounds": len(history) - 1,
        "lost": int((~within[arrival:]).sum()),
    }


def work(task: Task) -> None:
    """Run once, and add a line to the store; one write, so that lines of other processes stay whole."""
    seen = summary(task.case.run(task.method, task.seed), task.case.bound)
    cells = [f'"{task.case.name}"', f'"{task.method}"', str(task.seed), *(f"{value:.6g}" for value in seen.values())]
    file = os.open(task.store, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, (",".join(cells) + "\n").encode())
    finally:
        os.close(file)


def stored(store: Path) -> list[dict[str, str]]:
    """Read the whole lines of the store."""
    if not store.exists():
        return []
    with store.open(newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]


def tidy(store: Path, again: str | None = None) -> set[tuple[str, str, int]]:
    """Leave the whole lines in the store, sorted, but for those of the method `again`, and return whose they are."""
    store.parent.mkdir(parents=True, exist_ok=True)
    rows = sorted(
        (row for row in stored(store) if row["method"] != again),
        key=lambda row: (row["case"], row["method"], int(row["seed"])),
    )
    with store.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return {(row["case"], row["method"], int(row["seed"])) for row in rows}


def seeds_of(case: Instance | Setting, method: str) -> int:
    """Return how many runs a line of the tables has: many where a promise is tested, few where a run is long."""
    if isinstance(case, Setting):
        return 200 if case in MANY and method in (PAPER, DEFAULT) else 50
    if case.fraction < 1:
        return 5
    if method == "GAPE":
        return 200
    if case == FIVE:
        return 0 if method == "K-medoids" else 10  # it compares 3,648 places with each other in each of 231 rounds
    return 25


def methods_of(case: Instance | Setting) -> tuple[str, ...]:
    """Return the rules that a case is run with."""
    return METHODS if isinstance(case, Setting) else tuple(COLOURS)


def tasks(store: Path, most: int | None, cases: Sequence[Instance | Setting]) -> list[Task]:
    """Return all runs, each seed with all of its cases: so that whatever is stored is a fair part of the whole."""
    lines = [(case, method, seeds_of(case, method)) for case in cases for method in methods_of(case)]
    every = max(seeds for _, _, seeds in lines)
    return [
        Task(case, method, seed, store)
        for seed in range(every if most is None else min(most, every))
        for case, method, seeds in lines
        if seed < seeds
    ]


def grouped(store: Path) -> Stored:
    """Return the stored runs by case and method."""
    groups: Stored = defaultdict(list)
    for row in stored(store):
        groups[row["case"], row["method"]].append({name: float(row[name]) for name in FIELDS[2:]})
    return groups


def covered_rows(groups: Stored) -> list[dict[str, Any]]:
    """Return the table of the instances on the line."""
    rows = []
    for case in (*COVERED, *BELOW):
        for method in COLOURS:
            runs = groups.get((case.name, method), [])
            if not runs:
                continue
            whole = sum(run["kept"] == run["clusters"] for run in runs)
            low, high = wilson(whole, len(runs))
            rows.append(
                {
                    "instance": case.name,
                    "smallest cluster": case.sizes[0],
                    "theorem's least": round(case.theory.least_cluster),
                    "method": method,
                    "runs": len(runs),
                    "all clusters kept": whole,
                    "share": whole / len(runs),
                    "low": low,
                    "high": high,
                    "coverage, median": float(np.median([run["coverage"] for run in runs])),
                    "coverage, largest": max(run["coverage"] for run in runs),
                    "theorem's bound": case.bound,
                    "rounds lost": float(np.mean([run["lost"] / run["rounds"] for run in runs])),
                }
            )
    return rows


def practical_rows(groups: Stored) -> list[dict[str, Any]]:
    """Return the table of the mixtures, with bootstrap intervals over the runs."""
    rows = []
    for sweep, settings in SWEEPS.items():
        for setting in settings:
            for method in METHODS:
                runs = groups.get((setting.name, method), [])
                if not runs:
                    continue
                rng = np.random.default_rng(0)
                share = bootstrap([run["kept"] / run["clusters"] for run in runs], rng)
                error = bootstrap([run["coverage"] for run in runs], rng)
                rows.append(
                    {
                        "sweep": sweep,
                        "dimension": setting.dimension,
                        "clusters": setting.clusters,
                        "smallest cluster": setting.sizes[0],
                        "m": setting.samples,
                        "epsilon": setting.epsilon,
                        "theorem's least": setting.least_cluster,
                        "method": method,
                        "runs": len(runs),
                        "all clusters kept": sum(run["kept"] == run["clusters"] for run in runs),
                        "share kept": share.value,
                        "kept, low": share.low,
                        "kept, high": share.high,
                        "coverage": error.value,
                        "coverage, low": error.low,
                        "coverage, high": error.high,
                    }
                )
    return rows


def draw(out: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Make the tables and the figures from the stored runs."""
    groups = grouped(out / "runs.csv")
    covered, practical = covered_rows(groups), practical_rows(groups)
    if covered:
        write_rows(out, "covered", covered)
        draw_covered(out / "covered.png", COVERED, covered, groups)
    if practical:
        write_rows(out, "practical", practical)
        draw_kept(out / "kept.png", practical)
        draw_coverage(out / "coverage.png", practical)
        draw_least(out / "least.png", practical)
    return covered, practical


def run(
    out: Path,
    seeds: int | None = None,
    jobs: int = 2,
    cases: Sequence[Instance | Setting] = (*COVERED, *BELOW, *SETTINGS),
    again: str | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Make the runs that are not stored yet, and those of the method `again`, then the tables and figures in `out`."""
    store = out / "runs.csv"
    done = tidy(store, again)
    over_seeds(work, [task for task in tasks(store, seeds, cases) if task.key not in done], jobs)
    tidy(store)
    return draw(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, help="at most so many runs of each kind (200, 50, 25, 10 or 5)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--again", choices=METHODS, help="a method whose stored runs are dropped and made again")
    parser.add_argument("--draw", action="store_true", help="only the tables and figures, from the stored runs")
    chosen = parser.parse_args()
    if chosen.draw:
        draw(chosen.out)
    else:
        run(chosen.out, chosen.seeds, chosen.jobs, again=chosen.again)
