"""A small run on vectors that several tests share."""

from pathlib import Path

import numpy as np

from gape.core.types import Points
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.generators.vectors import GaussianGenerator, StartFromBox
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import Noise, SeededNoise
from gape.privacy.statement import PrivacyStatement
from gape.runs.run import run
from gape.selection.local_search import Gape
from gape.voting.electorate import LocalElectorate

PLAN = Plan(epsilon=2.0, delta=1e-5, rounds=2, samples=3, scales=(0.1, 0.01), copies=2, seed=11)
BUDGET = Budget(PLAN.epsilon, PLAN.delta)
SELECT = Gape.paper(separation=3.0, threshold=0.0)
GENERATOR = GaussianGenerator.isotropic(StartFromBox((-2.0, -2.0), (2.0, 2.0)), 2)


def private_points() -> Points:
    rng = np.random.default_rng(3)
    centres = np.array([[-1.0, 0.0], [1.0, 0.5]])
    return (centres[rng.integers(0, 2, 400)] + 0.1 * rng.standard_normal((400, 2))).astype(np.float32)


def small_run(
    folder: Path, ledger: Ledger, *, plan: Plan = PLAN, noise: Noise | None = None
) -> tuple[State, PrivacyStatement]:
    """Run, resume or extend the shared small run with noise that can be repeated."""
    electorate = LocalElectorate(private_points())
    noise = noise or SeededNoise(5)
    return run(folder, plan, GENERATOR, IdentityEmbedder(), electorate, SELECT, ledger, noise=noise)
