"""The paper's example of vote dilution: how long two clusters, 70% and 30%, survive each selection rule.

Two well-separated clusters hold 70% and 30% of the data; m = 3 samples start from the ideal two and one, each
writes two variations, and no variation moves between clusters. Votes are counted in two ways: split evenly
within each cluster, as the example supposes, and by nearest candidate, as they really are.
"""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, options, over_seeds, wilson, write_rows

from gape.core.protocols import Selector
from gape.core.types import Counts, Points
from gape.embedders.identity import IdentityEmbedder
from gape.evaluation import plots
from gape.evaluation.plots import COLOURS, MARKERS
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.vectors import GaussianGenerator, StartFromSet
from gape.selection.kmedoids import KMedoids
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.voting.electorate import LocalElectorate

MAJORITY, MINORITY = 700, 300
CENTRE = 5.0  # the clusters lie at (-5, 0) and (5, 0)
SPREAD = 0.1
START = np.array([[-5.05, 0.0], [-4.95, 0.0], [5.0, 0.0]])
SCALE = 0.02  # s^2: 0.1 in each coordinate, a hundredth of the way between the clusters
ROUNDS = 20
SHOWN = (1, 2, 5, 10, 20)
SEEDS = 300
VOTES = ("even", "nearest")
SELECTORS: dict[str, Selector] = {
    "Ranking": Ranking(),
    "Subsampling": Subsampling(),
    "K-medoids": KMedoids(),
    "GAPE": Gape.paper(2 * CENTRE, 0.0),
}


class EvenElectorate(LocalElectorate):
    """The example's idealised votes: those of each cluster are split evenly among the candidates in it."""

    def count(self, candidates: Points, turn: int) -> Counts:  # noqa: ARG002  (the same in every round)
        """Split the votes; where a cluster has no candidate left, they go to the other cluster."""
        right = candidates[:, 0] > 0
        counts = np.zeros(len(candidates), dtype=np.int64)
        for votes, side in ((MAJORITY, ~right), (MINORITY, right)):
            members = np.flatnonzero(side if side.any() else ~side)
            counts[members] += votes // len(members)
            counts[members[: votes % len(members)]] += 1
        return counts


def survival(task: tuple[str, str, int]) -> list[bool]:
    """Run once, and say after which rounds both clusters have a sample."""
    method, votes, seed = task
    rng = np.random.default_rng(seed)
    centres = np.repeat([[-CENTRE, 0.0], [CENTRE, 0.0]], [MAJORITY, MINORITY], axis=0)
    private = (centres + SPREAD * rng.standard_normal(centres.shape)).astype(np.float32)
    electorate = EvenElectorate(private) if votes == "even" else LocalElectorate(private)
    generator = GaussianGenerator.isotropic(StartFromSet(START), 2)
    plan = Plan(math.inf, 1e-6, ROUNDS, len(START), scales=(SCALE,), copies=2, keep=False, seed=seed)
    with free_account() as account:
        states = list(evolve(plan, generator, IdentityEmbedder(), electorate, SELECTORS[method], account))
    right = [state.synthetic[:, 0] > 0 for state in states if state.proposal is None]
    return [bool(side.any() and not side.all()) for side in right]


def predicted(method: str, votes: str, turn: int) -> float | str:
    """Return the probability that both clusters are alive after `turn` rounds, where it is known.

    Each of three draws of subsampling falls on the majority with probability 0.7, however votes are split within the
    clusters: in a round the minority is lost with probability 0.7^3 = 0.343, the majority with 0.3^3 = 0.027. Of
    evenly split votes four variations hold 0.7 / 4 each and two hold 0.3 / 2, which is less: ranking drops them.
    """
    if method == "Subsampling":
        return float((1 - 0.7**3 - 0.3**3) ** turn)
    if method == "Ranking" and votes == "even":
        return 0.0
    return ""


def draw(out: Path, shares: dict[tuple[str, str], Any]) -> None:
    """Draw the share of runs in which both clusters are alive, against rounds."""
    titles = {"even": "votes split evenly in each cluster", "nearest": "votes by nearest candidate"}
    with plots.figure(out / "survival.png", columns=2, size=(8.2, 3.5), sharey=True) as (fig, axes):
        turns = np.arange(ROUNDS + 1)
        for axis, votes in zip(axes[0], VOTES, strict=True):
            for method in SELECTORS:
                shift = {"K-medoids": 2}.get(method, 0)  # where lines coincide, their markers take turns
                style = {"color": COLOURS[method], "marker": MARKERS[method], "markevery": (shift, 4)}
                axis.plot(turns, shares[method, votes], label=method, clip_on=False, **style)
            axis.plot(turns, 0.63**turns, color=plots.INK, linestyle=":", label="subsampling, by theory: $0.63^t$")
            axis.set(title=titles[votes], xlabel="round t", xlim=(0, ROUNDS), ylim=(-0.03, 1.03))
            axis.set_xticks(range(0, ROUNDS + 1, 5))
        axes[0, 0].set_ylabel("share of runs with both clusters alive")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)


def run(out: Path, seeds: int = SEEDS, jobs: int = 2) -> list[dict[str, Any]]:
    """Make the table and the figure in `out`."""
    cases = [(method, votes) for votes in VOTES for method in SELECTORS]
    alive = over_seeds(survival, [(*case, seed) for case in cases for seed in range(seeds)], jobs)
    counts = np.array(alive).reshape(len(cases), seeds, ROUNDS + 1).sum(axis=1)
    rows = []
    for (method, votes), count in zip(cases, counts, strict=True):
        for turn in SHOWN:
            low, high = wilson(int(count[turn]), seeds)
            row = {
                "votes": votes,
                "method": method,
                "round": turn,
                "seeds": seeds,
                "alive": int(count[turn]),
                "share": count[turn] / seeds,
                "low": low,
                "high": high,
                "by theory": predicted(method, votes, turn),
            }
            rows.append(row)
    write_rows(out, "survival", rows)
    draw(out, {case: count / seeds for case, count in zip(cases, counts, strict=True)})
    return rows


if __name__ == "__main__":
    chosen = options(__file__, __doc__, SEEDS)
    run(chosen.out, chosen.seeds, chosen.jobs)
