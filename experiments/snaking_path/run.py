"""The paper's example of a generator on which Private Evolution stalls: a path that winds through the plane.

PE starts at the loose end of a vertical segment. Every short step along the path leads up that segment, away
from data that lies to the right, although the path goes on to the data. A round Gaussian with the same total
variance arrives.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, options, over_seeds, write_rows

from gape.core.protocols import Generator
from gape.core.types import Floats, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evaluation import plots
from gape.evaluation.plots import COLOURS
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.vectors import GaussianGenerator, SnakingPath, StartFromSet
from gape.selection.local_search import Gape
from gape.voting.electorate import LocalElectorate

PATH = SnakingPath(segments=6, height=4.0, gap=1.0)
DATA = {"next segment": (1.0, 0.0), "end of the path": (5.0, 0.0)}  # PE starts at (0, 0)
RECORDS, SPREAD = 200, 0.1
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)  # s, the standard deviation of the arc length of a step
GENERATORS = ("snaking path", "round Gaussian")
COPIES = 8  # variations a round
ROUNDS = 60
NEAR = 0.5  # from the centre of the data: arrived; from the start: stayed there
SEEDS = 20


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    generator: str
    data: str
    step: float  # s

    def make_generator(self) -> Generator:
        """Return the generator, which starts at the loose end of the first segment."""
        if self.generator == "snaking path":
            return PATH
        return GaussianGenerator.isotropic(StartFromSet(PATH.at(np.zeros(1))), 2)


def distances_to_data(task: tuple[Case, int]) -> tuple[Floats, Samples]:
    """Run once; return the distance of the nearest sample to the centre of the data in every round, and S(T)."""
    case, seed = task
    rng = np.random.default_rng(seed)
    centre = np.array(DATA[case.data])
    private = (centre + SPREAD * rng.standard_normal((RECORDS, 2))).astype(np.float32)
    plan = Plan(math.inf, 1e-6, ROUNDS, 1, scales=(case.step**2,), copies=COPIES, seed=seed)
    parts = (case.make_generator(), IdentityEmbedder(), LocalElectorate(private), Gape.paper(math.inf, 0.0))
    with free_account() as account:
        samples = [state.synthetic for state in evolve(plan, *parts, account) if state.proposal is None]
    return np.array([np.linalg.norm(s - centre, axis=1).min() for s in samples]), samples[-1]


def draw(out: Path, cases: list[Case], distances: Floats, lasts: list[list[Samples]]) -> None:
    """Draw the path with where PE ends at s = 0.5, and the median distance to the data over the rounds."""
    place = {(case.generator, case.data, case.step): k for k, case in enumerate(cases)}
    colours = {"snaking path": COLOURS["Ranking"], "round Gaussian": COLOURS["GAPE"]}
    end = "end of the path"
    with plots.figure(out / "snake.png", columns=2, size=(8.6, 3.5)) as (fig, axes):
        left, right = axes[0]
        left.plot(*PATH.at(np.linspace(0, PATH.length, 3001)).T, color="#BDBDBD", linewidth=2.5, zorder=1)
        rng = np.random.default_rng(0)
        private = np.array(DATA[end]) + SPREAD * rng.standard_normal((RECORDS, 2))
        left.scatter(*private.T, s=5, color=plots.INK, alpha=0.5, linewidth=0, zorder=2, label="private data (made up)")
        for name, marker in (("round Gaussian", "o"), ("snaking path", "s")):
            final = np.concatenate(lasts[place[name, end, 0.5]])
            label = f"after {ROUNDS} rounds, {name}"
            style = {"color": colours[name], "edgecolor": "white", "linewidth": 0.6}
            left.scatter(*final.T, s=36, marker=marker, zorder=3, label=label, **style)
        left.scatter(0, 0, s=150, marker="o", facecolor="none", edgecolor=plots.INK, zorder=4, label="start")
        left.set(aspect="equal", xlim=(-0.5, 5.6), ylim=(-0.5, 4.4), title="what the path can write, and where PE ends")
        for name in GENERATORS:
            for step, dashes in ((0.5, "-"), (4.0, "--")):
                middle = np.median(distances[place[name, end, step]], axis=0)
                right.plot(middle, color=colours[name], linestyle=dashes, label=f"{name}, s = {step:g}")
        right.set(xlabel="round", ylabel="median distance to the data", xlim=(0, ROUNDS), ylim=(-0.15, 5.4))
        right.set_title("distance over the rounds, by the size s of a step")
        right.legend(loc="upper right", bbox_to_anchor=(1.0, 0.9))
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=8)


def run(out: Path, seeds: int = SEEDS, jobs: int = 2) -> list[dict[str, Any]]:
    """Make the table and the figure in `out`."""
    cases = [Case(name, data, step) for data in DATA for name in GENERATORS for step in STEPS]
    results = over_seeds(distances_to_data, [(case, seed) for case in cases for seed in range(seeds)], jobs)
    distances = np.array([run for run, _ in results]).reshape(len(cases), seeds, ROUNDS + 1)
    lasts = [[last for _, last in results[k * seeds : (k + 1) * seeds]] for k in range(len(cases))]
    rows = []
    for case, runs, last in zip(cases, distances, lasts, strict=True):
        row = {
            "data": case.data,
            "generator": case.generator,
            "step s": case.step,
            "seeds": seeds,
            "distance at the start": float(np.median(runs[:, 0])),
            "median distance at the end": float(np.median(runs[:, -1])),
            "stayed at the start": sum(bool(np.linalg.norm(s, axis=1).max() <= NEAR) for s in last),
            "arrived": int((runs[:, -1] <= NEAR).sum()),
        }
        rows.append(row)
    write_rows(out, "distances", rows)
    draw(out, cases, distances, lasts)
    return rows


if __name__ == "__main__":
    chosen = options(__file__, __doc__, SEEDS)
    run(chosen.out, chosen.seeds, chosen.jobs)
