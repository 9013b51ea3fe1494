"""The paper's two-dimensional experiment: two clusters, nine to one, that ranking and subsampling fail to keep.

The "private" data is drawn here from a seed, so the figures may show it. Figures of real private data must not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gape.core.errors import RunError
from gape.core.protocols import Selector
from gape.core.types import Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evaluation.plots import COLOURS, Trajectory, comparison_figure, require_matplotlib, trajectory_figure
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.generators.vectors import GaussianGenerator, StartFromSet
from gape.privacy.accounting import spent
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import Noise
from gape.privacy.statement import PrivacyStatement
from gape.runs.run import run
from gape.selection.kmedoids import KMedoids
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.voting.electorate import LocalElectorate

RECORDS = 2000  # n
DELTA = 1 / (RECORDS * math.log(RECORDS))
CENTRES = np.array([[-1.0, 0.0], [1.0, 0.0]])
START = np.array([[0.0, -2.0], [0.0, 0.0], [0.0, 2.0]])  # S(0), m = 3
SEPARATION = 3.0  # R; the clusters are 2 apart, and from R = 3 on the small one is hardly ever dropped

_SHARES = (0.9, 0.1)
_SPREAD = 0.1
_STEP = 0.1
_NEAR = 0.5  # a cluster counts as kept if a sample is closer than this to its centre


def mixture(rng: np.random.Generator) -> Points:
    """Draw the private data, (2000, 2), from 0.9 N((-1, 0), 0.1^2 I) + 0.1 N((1, 0), 0.1^2 I)."""
    cluster = rng.choice(len(CENTRES), size=RECORDS, p=_SHARES)
    return (CENTRES[cluster] + _SPREAD * rng.standard_normal((RECORDS, 2))).astype(np.float32)


def mixture_plan(epsilon: float, seed: int, rounds: int = 20, *, keep: bool = True) -> Plan:
    """Return the paper's settings: m = 3, T = 20, and two variations N(y, 0.1^2 I) per point, beside the point."""
    # A scale is the total variance over all coordinates, so 0.1^2 in each of two makes 0.02.
    scale = 2 * _STEP**2
    return Plan(epsilon, DELTA, rounds, len(START), scales=(scale,), copies=2, keep=keep, seed=seed)


def mixture_generator() -> GaussianGenerator:
    """Return the generator that starts at (0, -2), (0, 0), (0, 2) and varies a point by an isotropic Gaussian."""
    return GaussianGenerator.isotropic(StartFromSet(START), 2)


def selectors(separation: float = SEPARATION, threshold: float = 0.0) -> dict[str, Selector]:
    """Return the selection rules that the paper compares, by name; k-medoids is its simplified GAPE."""
    return {
        "Ranking": Ranking(),
        "Subsampling": Subsampling(),
        "K-medoids": KMedoids(),
        "GAPE": Gape.paper(separation, threshold),
    }


def trajectory(selector: Selector, private: Points, plan: Plan, noise: Noise | None = None) -> Trajectory:
    """Run a plan on the mixture with its own in-memory ledger, and return what each round selects."""
    electorate = LocalElectorate(private, votes_per_unit=plan.votes_per_unit, votes_per_record=plan.votes_per_record)
    parts = (mixture_generator(), IdentityEmbedder(), electorate, selector)
    with closing(Ledger(":memory:", Budget(math.inf, plan.delta))) as ledger:
        return Trajectory.of(evolve(plan, *parts, Account(ledger, "demo"), noise=noise))


def clusters_kept(samples: Samples) -> int:
    """Count the clusters with a sample within 0.5 of their centre."""
    gaps = np.linalg.norm(samples[:, None] - CENTRES, axis=2)
    return int((gaps.min(axis=0) < _NEAR).sum())


@dataclass(frozen=True)
class DemoRun:
    """One method of the demo: the clusters it kept, its cost, and its figure."""

    method: str
    trajectory: Trajectory
    statement: PrivacyStatement
    figure: Path

    @property
    def clusters_kept(self) -> int:
        """Number of the two clusters that the final samples cover."""
        return clusters_kept(self.trajectory.samples[-1])


@dataclass(frozen=True)
class DemoResult:
    """The runs of the demo, all on one dataset, and their total privacy cost."""

    runs: tuple[DemoRun, ...]
    dataset_epsilon: float
    delta: float
    comparison: Path


def run_clusters(
    folder: str | Path,
    epsilon: float = 4.0,
    seed: int = 0,
    rounds: int = 20,
    progress: Callable[[str, State], None] | None = None,
) -> DemoResult:
    """Run ranking, subsampling and GAPE on the mixture, each at `epsilon`, and draw their trajectories.

    All three read the same dataset, so they share a ledger whose budget is just enough for all their releases. The
    dataset pays for the three together, which is more than `epsilon`. The noise is secure, so a second demo with the
    same seed has the same data and different votes. `progress` is called with every state.
    """
    require_matplotlib()
    plan = mixture_plan(epsilon, seed, rounds)
    chosen = {name: rule for name, rule in selectors().items() if name != "K-medoids"}
    folder = _new_folder(folder)
    private = mixture(np.random.default_rng(seed))
    budget = Budget(spent(plan.releases * len(chosen), plan.delta), plan.delta)
    with closing(Ledger(folder / "ledger.sqlite", budget)) as ledger:
        runs = [_run_method(folder, method, plan, private, chosen[method], ledger, progress) for method in chosen]
        total = ledger.total(plan.delta)
    comparison = folder / "comparison.png"
    title = f"Private Evolution on two clusters, {rounds} rounds, {runs[-1].statement.headline}"
    comparison_figure(comparison, private, {demo_run.method: demo_run.trajectory for demo_run in runs}, title)
    return DemoResult(tuple(runs), total, plan.delta, comparison)


def _run_method(
    folder: Path,
    method: str,
    plan: Plan,
    private: Points,
    selector: Selector,
    ledger: Ledger,
    progress: Callable[[str, State], None] | None,
) -> DemoRun:
    states: list[State] = []

    def note(state: State) -> None:
        states.append(state)
        if progress:
            progress(method, state)

    parts = (mixture_generator(), IdentityEmbedder(), LocalElectorate(private), selector)
    _, statement = run(folder / method.lower(), plan, *parts, ledger, progress=note)
    figure = folder / f"{method.lower()}.png"
    path = Trajectory.of(states)
    trajectory_figure(figure, private, path, f"{method}: {statement.headline}", colour=COLOURS[method])
    return DemoRun(method, path, statement, figure)


def _new_folder(folder: str | Path) -> Path:
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise RunError(f"the folder {folder} cannot be created ({error.strerror}); choose another one") from error
    if occupied:
        raise RunError(f"the folder {folder} must be empty and is not; choose a new folder or delete this one")
    return folder
