"""A run from its first candidate to its published folder: the loop, the ledger and the disk together."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from gape.core.errors import PrivacyError
from gape.core.protocols import Electorate, Embedder, Generator, Selector
from gape.core.types import Samples
from gape.evolution.evolve import evolve
from gape.evolution.last_pass import LastPass
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.modalities import Modality
from gape.privacy.ledger import Account, Ledger
from gape.privacy.noise import Noise
from gape.privacy.statement import PrivacyStatement, privacy_statement
from gape.runs.folder.rounds import RunFolder


def run(
    folder: str | Path,
    plan: Plan,
    generator: Generator,
    embedder: Embedder,
    electorate: Electorate,
    select: Selector,
    ledger: Ledger,
    *,
    noise: Noise | None = None,
    progress: Callable[[State], None] | None = None,
    last_pass: LastPass | None = None,
    modality: Modality | None = None,
) -> tuple[State, PrivacyStatement]:
    """Run Private Evolution in a folder, or go on with the run that is there, and publish the result.

    The published data is (epsilon, delta)-DP as its statement says. A run that was stopped, at any instant, is resumed
    by the same call and ends as it would have; rounds that were paid for are not paid for again. A finished run is
    extended by the same call with `plan.extended(rounds)`, charged for what it adds. Where other versions of this
    package, or of those that decide bits of its result, made the run so far, a `VersionWarning` says so. No part may be
    made from the private data: only votes are paid for. With a `last_pass` texts that repeat another are rewritten
    before they are published; the state that is returned has them as they are published. The
    `modality` says what samples are; without one they are taken for texts, vectors, or rows of a table, by what they
    look like.
    """
    parts = {"generator": describe(generator), "embedder": describe(embedder), "selector": describe(select)}
    on_disk = RunFolder.find(folder, plan, parts, ledger.id, modality)
    account = Account(ledger, on_disk.run)
    account.require(on_disk.plan.releases)  # a run that is refused leaves the disk as it was
    with on_disk.locked():
        on_disk.prepare()
        ledger.reserve(on_disk.run, on_disk.plan.releases, on_disk.lock)
        state = on_disk.load()
        _refuse_forgotten(account, state, on_disk.path)
        plan = on_disk.plan
        for step in evolve(plan, generator, embedder, electorate, select, account, state=state, noise=noise):
            on_disk.save(step)
            state = step
            if progress:
                progress(step)
        if state is None:
            raise RuntimeError("the loop ended without a state")  # it yields one before its first round
        statement = privacy_statement(account, plan.delta, electorate.unit)
        if last_pass is not None:
            state = replace(state, synthetic=_rewritten(on_disk, state, last_pass))
        on_disk.publish(state.synthetic, statement)
    return state, statement


def _rewritten(folder: RunFolder, state: State, last_pass: LastPass) -> Samples:
    """Return the samples after the last pass, which is kept: a run that is published again publishes the same."""
    kept = folder.rewritten(state.round)
    if kept is None:
        kept = last_pass(state.synthetic, np.random.default_rng([folder.plan.seed, state.round, *b"last pass"]))
        folder.save_rewritten(state.round, state.synthetic, kept)
    return kept


def _refuse_forgotten(account: Account, state: State | None, folder: Path) -> None:
    """Refuse a ledger that knows of fewer releases than the folder holds: it would state too small a cost."""
    made, known = (0 if state is None else state.round), len(account.ledger.releases(account.run))
    if known < made:
        raise PrivacyError(
            f"the ledger {account.ledger.path} knows of {known} releases of {folder}, which holds {made}: it is an "
            "older copy; put the newest one back"
        )


def describe(part: object) -> str:
    """Name a part with its settings, so that a folder can refuse to go on with another one."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(part))  # an address says nothing and changes every time
