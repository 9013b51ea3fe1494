"""Run folders as the package writes them, of whatever samples a test needs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.protocols import Selection
from gape.core.types import Samples
from gape.evolution.plan import Plan
from gape.evolution.state import Proposal, State
from gape.privacy.accounting import spent
from gape.privacy.statement import PrivacyStatement
from gape.runs.folder.rounds import RunFolder

LEDGER = "0123456789abcdef" * 2  # the id of the ledger that such runs are charged to
PARTS = {"generator": "CorpusText()", "embedder": "MiniLM()", "selector": "Ranking()"}


def plan_for(samples: Samples, epsilon: float = 2.0, rounds: int = 2) -> Plan:
    return Plan(epsilon=epsilon, delta=1e-5, rounds=rounds, samples=len(samples), scales=(0.5,))


def statement_of(plan: Plan, **changes: Any) -> PrivacyStatement:
    """What a run of this plan states, all of it paid for under secure noise, unless changes say otherwise."""
    epsilon = spent(plan.releases, plan.delta)
    stated = PrivacyStatement(
        private=bool(np.isfinite(epsilon)),
        epsilon=epsilon,
        delta=plan.delta,
        neighbours=plan.neighbours,
        unit="record",
        sigma=(plan.sigma,) * plan.rounds,
        votes_per_unit=plan.votes_per_unit,
        secure_noise=True,
        dataset_epsilon=epsilon,
        ledger=LEDGER[:12],
    )
    return replace(stated, **changes)


def finished_folder(
    path: Path, samples: Samples, plan: Plan, statement: PrivacyStatement, parts: dict[str, str] = PARTS
) -> Path:
    """A run on disk that kept these samples from its start to its end."""
    folder = RunFolder.find(path, plan, parts, LEDGER)
    folder.prepare()
    folder.save(State(0, samples))
    size = len(samples)
    twice = np.concatenate([samples, samples])
    for turn in range(1, plan.rounds + 1):
        proposal = Proposal(twice, np.tile(np.arange(size), 2), np.repeat([0.0, 0.5], size))
        folder.save(State(turn - 1, samples, proposal=proposal))
        votes = np.arange(2 * size, dtype=np.int64) - 2
        folder.save(State(turn, samples, votes=votes, selection=Selection(np.arange(size))))
    folder.publish(samples, statement)
    return path
