"""How often each selection rule keeps both clusters of the paper's mixture in the plane.

The appendix "Synthetic Data Experiments" of the paper, over many seeds: without noise for several separations
R, with noise for several epsilon, and with the selected points left out of the candidates. The noise here is
seeded, so that the table can be repeated; such runs are marked as not private, which made-up data can bear.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import options, over_seeds, wilson, write_rows
from experiments.rules import DEFAULT, METHODS, PAPER, THRESHOLD_ZERO, UNSIGNED, rule

from gape.cli.demos import clusters
from gape.evaluation import plots
from gape.evaluation.plots import COLOURS, INK, MARKERS
from gape.privacy.noise import SeededNoise

SEPARATIONS = (1.4, 2.0, 3.0, 6.0, math.inf)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
SEEDS = 200
TRUNCATED = (THRESHOLD_ZERO, UNSIGNED, PAPER)  # the rules that have an R

_DASHES = {"Ranking": "--", "Subsampling": ":", "K-medoids": "-."}
_STYLES: dict[str, dict[str, Any]] = {
    **{name: {"color": COLOURS[name], "marker": MARKERS[name]} for name in _DASHES},
    THRESHOLD_ZERO: {"color": COLOURS["GAPE"], "marker": MARKERS["GAPE"]},
    UNSIGNED: {"color": INK, "marker": "v", "linestyle": "--"},
    PAPER: {"color": COLOURS["GAPE"], "marker": "P", "linestyle": ":"},
    DEFAULT: {"color": "#E69F00", "marker": "*", "linestyle": "-."},
}


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    method: str
    epsilon: float = math.inf
    separation: float = clusters.SEPARATION  # R; without effect on rules that have none
    keep: bool = True


NOISELESS = (
    *(Case(method) for method in METHODS if method not in TRUNCATED),  # tau is zero, and no vote is negative
    *(Case(THRESHOLD_ZERO, separation=separation) for separation in SEPARATIONS),
)
NOISY = tuple(Case(method, epsilon) for epsilon in EPSILONS for method in METHODS)
NOT_KEPT = (
    *(Case(method, keep=False) for method in METHODS),
    *(Case(method, 4.0, keep=False) for method in METHODS),
)
CASES = (*NOISELESS, *NOISY, *NOT_KEPT)


def keeps_both(task: tuple[Case, int]) -> bool:
    """Run one case once, and say whether both clusters are kept after the last round."""
    case, seed = task
    plan = clusters.mixture_plan(case.epsilon, seed, keep=case.keep)
    plan, selector = rule(case.method, plan, clusters.RECORDS, case.separation)
    private = clusters.mixture(np.random.default_rng(seed))
    path = clusters.trajectory(selector, private, plan, SeededNoise(seed))
    return clusters.clusters_kept(path.samples[-1]) == len(clusters.CENTRES)


def table(cases: tuple[Case, ...], seeds: int, jobs: int) -> list[dict[str, Any]]:
    """Return a row for each case: how often both clusters are kept, with Wilson's 95% interval."""
    kept = over_seeds(keeps_both, [(case, seed) for case in cases for seed in range(seeds)], jobs)
    rows = []
    for place, case in enumerate(cases):
        count = sum(kept[place * seeds : (place + 1) * seeds])
        low, high = wilson(count, seeds)
        row = {
            "method": case.method,
            "R": case.separation if case.method in TRUNCATED else "",
            "epsilon": case.epsilon,
            "selected stay candidates": "yes" if case.keep else "no",
            "seeds": seeds,
            "both kept": count,
            "share": count / seeds,
            "low": low,
            "high": high,
        }
        rows.append(row)
    return rows


def draw_trajectories(out: Path, seed: int = 0) -> None:
    """Draw the trajectory of every method without noise, as the paper does, and all side by side."""
    private = clusters.mixture(np.random.default_rng(seed))
    plan = clusters.mixture_plan(math.inf, seed)
    paths = {name: clusters.trajectory(rule, private, plan) for name, rule in clusters.selectors().items()}
    for name, path in paths.items():
        file = out / f"trajectory_{name.lower().replace('-', '_')}.png"
        plots.trajectory_figure(file, private, path, f"{name}, no noise", colour=COLOURS[name])
    plots.comparison_figure(out / "trajectories.png", private, paths, "Private Evolution on two clusters, no noise")


def draw_shares(out: Path, rows: list[dict[str, Any]]) -> None:
    """Draw the share of runs that keep both clusters, against epsilon for each method and against R for GAPE."""
    label = "share of runs that keep both clusters"
    kept = [row for row in rows if row["selected stay candidates"] == "yes"]
    by_method = {name: [row for row in kept if row["method"] == name] for name in METHODS}
    with plots.figure(out / "share_by_epsilon.png", size=(5.6, 3.4)) as (_, axes):
        axis = axes[0, 0]
        for method, lines in by_method.items():
            _draw_line(axis, method, "epsilon", [row for row in lines if row["epsilon"] in EPSILONS])
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set(xlabel="epsilon of the run", ylabel=label, ylim=(-0.04, 1.04))
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    with plots.figure(out / "share_by_separation.png", size=(5.6, 3.4)) as (_, axes):
        axis = axes[0, 0]
        for method, lines in by_method.items():
            noiseless = [row for row in lines if math.isinf(row["epsilon"])]
            if method == THRESHOLD_ZERO:
                _draw_line(axis, method, "place", [row | {"place": k} for k, row in enumerate(noiseless)])
            elif method in _DASHES:
                axis.axhline(noiseless[0]["share"], color=COLOURS[method], linestyle=_DASHES[method], label=method)
        axis.set_xticks(range(len(SEPARATIONS)), [f"{R:g}" if math.isfinite(R) else "∞" for R in SEPARATIONS])
        axis.set(xlabel="separation R of GAPE (no noise)", ylabel=label, ylim=(-0.04, 1.04))
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_line(axis: Any, method: str, x: str, rows: list[dict[str, Any]]) -> None:
    at = [row[x] for row in rows]
    style = _STYLES[method]
    low, high = ([row[name] for row in rows] for name in ("low", "high"))
    axis.plot(at, [row["share"] for row in rows], label=method, clip_on=False, **style)
    axis.fill_between(at, low, high, color=style["color"], alpha=0.12, linewidth=0)


def run(out: Path, seeds: int = SEEDS, jobs: int = 2, cases: tuple[Case, ...] = CASES) -> list[dict[str, Any]]:
    """Make the table and the figures in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    draw_trajectories(out)
    rows = table(cases, seeds, jobs)
    write_rows(out, "shares", rows)
    draw_shares(out, rows)
    return rows


if __name__ == "__main__":
    chosen = options(__file__, __doc__, SEEDS)
    run(chosen.out, chosen.seeds, chosen.jobs)
