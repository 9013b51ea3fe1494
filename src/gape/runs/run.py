"""A run from its first candidate to its published folder: the loop, the ledger and the disk."""

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
    """Run Private Evolution in a folder, or resume the run in it, and publish the result.

    The published data is (epsilon, delta)-DP as stated. A run that was stopped at any point is resumed by the same call
    and ends as it would have ended; no round is paid for twice. The same call with `plan.extended(rounds)` extends a
    finished run and charges what it adds. If other versions of this package, or of packages that affect the result,
    made the run so far, a `VersionWarning` says so.

    No part may depend on the private data: only votes are accounted for. With a `last_pass`, texts that repeat another
    are rewritten before they are published, and the returned state contains them as published. The `modality` says what
    samples are; by default they are recognised as texts, vectors or rows.
    """
    parts = {"generator": describe(generator), "embedder": describe(embedder), "selector": describe(select)}
    on_disk = RunFolder.find(folder, plan, parts, ledger.id, modality)
    account = Account(ledger, on_disk.run)
    account.require(
        on_disk.plan.releases
    )  # before anything is written, so that a refused run leaves the disk unchanged
    with on_disk.locked():
        on_disk.prepare()
        ledger.reserve(on_disk.run, on_disk.plan.releases, on_disk.lock)
        state = on_disk.load()
        plan = on_disk.plan
        _refuse_forgotten(account, state, len(plan.answers), on_disk.path)
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
    """Return the samples after the last pass. It is stored, so that publishing again publishes the same."""
    kept = folder.rewritten(state.round)
    if kept is None:
        kept = last_pass(state.synthetic, np.random.default_rng([folder.plan.seed, state.round, *b"last pass"]))
        folder.save_rewritten(state.round, state.synthetic, kept)
    return kept


def _refuse_forgotten(account: Account, state: State | None, surveyed: int, folder: Path) -> None:
    """Refuse a ledger with fewer releases than the folder: it would state too small a cost."""
    made, known = 0 if state is None else state.round + surveyed, len(account.ledger.releases(account.run))
    if known < made:
        raise PrivacyError(
            f"the ledger {account.ledger.path} has {known} releases of {folder}, which has {made}: it is an older "
            "copy; restore the newest one"
        )


def describe(part: object) -> str:
    """Describe a part with its settings, so that a run cannot be resumed with another one."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(part))  # addresses differ between processes
