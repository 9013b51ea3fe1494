"""The paper's example of reachability: rounds to reach a point that the generator covers thinly.

The private data is the single point x = (0, 1), PE starts at the origin with m = 1 and no noise, and a
variation at scale s^2 is drawn from N(y, s^2 / (1 + gamma) diag(1, gamma)): its effective rank towards x is
lambda = (1 + gamma) / gamma. With one voter every selection rule keeps the candidate nearest to x.
"""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, options, over_seeds, write_rows

from gape.embedders.identity import IdentityEmbedder
from gape.evaluation import plots
from gape.evaluation.plots import COLOURS
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.vectors import GaussianGenerator, StartFromSet
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate

GAMMAS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0)
TARGET = np.array([[0.0, 1.0]], dtype=np.float32)
NEAR = 0.05  # x counts as reached at this distance
SCALES = tuple(2.0**-level for level in range(17))  # s^2 = 1, 1/2, ..., 2^-16, one variation at each
CAP = 400  # rounds
SEEDS = 60


def rounds_to_reach(task: tuple[float, int]) -> tuple[int, float]:
    """Run until x is reached, or to the cap; return the rounds, 0 for never, and the last second coordinate."""
    gamma, seed = task
    generator = GaussianGenerator.diagonal(StartFromSet(np.zeros((1, 2))), (1.0, gamma))
    plan = Plan(math.inf, 1e-6, CAP, 1, scales=SCALES, seed=seed)
    parts = (generator, IdentityEmbedder(), LocalElectorate(TARGET), Ranking())
    with free_account() as account:
        for state in evolve(plan, *parts, account):
            point = state.synthetic[0]
            if np.linalg.norm(point - TARGET[0]) <= NEAR:
                return state.round, float(point[1])
    return 0, float(point[1])


def summary(gamma: float, results: list[tuple[int, float]]) -> dict[str, Any]:
    """Return the row of one gamma: the quartiles of the rounds that it takes, among the runs that arrive."""
    rounds = [turn for turn, _ in results if turn]
    quartiles = [float(q) for q in np.percentile(rounds, [25, 50, 75])] if rounds else ["never"] * 3
    return {
        "gamma": gamma,
        "lambda": (1 + gamma) / gamma if gamma else math.inf,
        "seeds": len(results),
        "reached": len(rounds),
        "rounds, lower quartile": quartiles[0],
        "rounds, median": quartiles[1],
        "rounds, upper quartile": quartiles[2],
        "largest second coordinate": max(abs(height) for _, height in results),
    }


def slope(rows: list[dict[str, Any]]) -> float:
    """Return the slope of log median rounds over log lambda, by least squares over gamma > 0."""
    reached = [row for row in rows if row["reached"]]
    x, y = (np.log([row[name] for row in reached]) for name in ("lambda", "rounds, median"))
    return float(np.polyfit(x, y, 1)[0])


def draw(out: Path, rows: list[dict[str, Any]]) -> None:
    """Draw the rounds against lambda on logarithmic axes, with slope 1 to compare."""
    reached = [row for row in rows if row["reached"]]
    x, low, middle, high = (
        np.array([row[name] for row in reached])
        for name in ("lambda", "rounds, lower quartile", "rounds, median", "rounds, upper quartile")
    )
    with plots.figure(out / "rounds.png", size=(5.4, 3.6)) as (_, axes):
        axis = axes[0, 0]
        axis.fill_between(x, low, high, color=COLOURS["GAPE"], alpha=0.2, linewidth=0, label="middle half of the runs")
        axis.plot(x, middle, color=COLOURS["GAPE"], marker="o", label=f"median, slope {slope(rows):.2f}")
        reference = middle[0] * x / x[0]
        axis.plot(x, reference, color=plots.INK, linestyle=":", label="in proportion to λ (slope 1)")
        for at, height, row in zip(x, middle, reached, strict=True):
            axis.annotate(f"γ = {row['gamma']:g}", (at, height), (4, -11), textcoords="offset points", fontsize=7.5)
        axis.set(xscale="log", yscale="log", xlabel="effective rank λ = (1 + γ) / γ", xlim=(1.7, 180))
        axis.set_ylabel(f"rounds to come within {NEAR:g} of x")
        axis.legend(loc="upper left")


def run(out: Path, seeds: int = SEEDS, jobs: int = 2) -> list[dict[str, Any]]:
    """Make the table and the figure in `out`."""
    results = over_seeds(rounds_to_reach, [(gamma, seed) for gamma in GAMMAS for seed in range(seeds)], jobs)
    rows = [summary(gamma, results[k * seeds : (k + 1) * seeds]) for k, gamma in enumerate(GAMMAS)]
    write_rows(out, "rounds", rows)
    draw(out, rows)
    print(f"slope of log rounds over log lambda: {slope(rows):.2f}")
    return rows


if __name__ == "__main__":
    chosen = options(__file__, __doc__, SEEDS)
    run(chosen.out, chosen.seeds, chosen.jobs)
