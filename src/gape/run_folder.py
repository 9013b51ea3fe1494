"""A run on disk.

    run/
    ├── release/                    may be published once the run is complete
    │   ├── synthetic.parquet       S(T), in columns text, label and text, or sample for vectors
    │   ├── report.html             the run as a page, if it was asked for
    │   ├── privacy.json            the privacy statement, as data
    │   └── PRIVACY.txt             and in words
    └── internal/                   mode 0700
        ├── settings.json           the plan, the parts, the ledger it is charged to
        ├── lock
        └── rounds/
            ├── 000/synthetic.parquet       S(0)
            └── 001/
                ├── candidates.parquet      V(1), with parents and scales
                ├── votes.parquet           the noisy votes of V(1)
                ├── selection.json          what the selection rule says of itself
                └── synthetic.parquet       S(1), with the candidate each came from; last, so it marks the round

Every file is written whole or not at all, in this order, so what is there after a crash is a prefix of the run.
Nothing in it is private beyond what the noisy votes already paid for: no exact count, no private record.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from gape.errors import RunError
from gape.files import (
    locked,
    read_json,
    read_numbers,
    read_samples,
    read_table,
    samples_to_arrow,
    samples_to_columns,
    write_atomically,
    write_json,
    write_table,
)
from gape.plan import Plan
from gape.privacy.statement import PrivacyStatement
from gape.state import Proposal, State
from gape.types import Samples

_FORMAT = 1
# An extended run has more rounds, and the epsilon that they cost, at the same noise.
_MAY_GROW = {"rounds", "epsilon"}


class RunFolder:
    """The folder of one run; `run` is its name in the ledger."""

    def __init__(self, path: Path, run: str, plan: Plan, settings: dict[str, Any] | None = None) -> None:
        """Use `find`."""
        self.path = path
        self.run = run
        self.plan = plan
        self._settings = settings  # to be written by `prepare`; none if they are on disk already

    @classmethod
    def find(cls, path: str | Path, plan: Plan, parts: dict[str, str], ledger: str) -> RunFolder:
        """Take the folder of a new run, or that of the same run, possibly with fewer rounds. Writes nothing yet."""
        path = Path(path)
        settings_file = path / "internal" / "settings.json"
        if not settings_file.exists():
            if path.exists() and any(entry.name != "internal" for entry in path.iterdir()):
                raise RunError(f"{path} exists and is not a run folder; name a new folder")
            run = secrets.token_hex(8)
            settings = {"format": _FORMAT, "run": run, "ledger": ledger, "plan": asdict(plan), "parts": parts}
            return cls(path, run, plan, settings)
        settings = read_json(settings_file)
        try:
            stored, name = _plan_from_json(settings["plan"]), str(settings["run"])
            known = {str(key): str(part) for key, part in settings["parts"].items()}
            settings = settings | {"parts": known, "ledger": settings["ledger"]}
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RunError(
                f"{settings_file} is not that of a run ({type(error).__name__}); restore it from a copy"
            ) from error
        _refuse_other_run(path, settings, stored, plan, parts, ledger)
        extended = settings | {"plan": asdict(plan)} if plan.rounds > stored.rounds else None
        return cls(path, name, plan if extended else stored, extended)

    def prepare(self) -> None:
        """Make the folder and write down the settings, where they are new."""
        internal = self.path / "internal"
        internal.mkdir(mode=0o700, parents=True, exist_ok=True)
        internal.chmod(0o700)
        (internal / "rounds").mkdir(exist_ok=True)
        if self._settings is not None:
            write_json(internal / "settings.json", self._settings)

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes out of the folder."""
        return locked(self.path / "internal" / "lock", self.path)

    def save(self, state: State) -> None:
        """Keep what a state adds to the one before it."""
        if state.proposal is not None:
            proposal = state.proposal
            columns = {
                "sample": samples_to_arrow(proposal.samples),
                "parent": proposal.parents,
                "scale": proposal.scales,
            }
            write_table(self._round(state.round + 1) / "candidates.parquet", columns)
            return
        folder = self._round(state.round)
        columns = {"sample": samples_to_arrow(state.synthetic)}
        if state.votes is not None and state.selection is not None:
            write_table(folder / "votes.parquet", {"noisy_votes": state.votes})
            write_json(folder / "selection.json", _diagnostics(state))
            columns["candidate"] = state.selection.indices
        write_table(folder / "synthetic.parquet", columns)

    def load(self) -> State | None:
        """Return the last state that was kept, if any was."""
        rounds = sorted((self.path / "internal" / "rounds").glob("[0-9]*/synthetic.parquet"))
        if not rounds:
            return None
        last = int(rounds[-1].parent.name)
        state = State(last, synthetic=self.synthetic(last))
        following = self._round(last + 1, make=False) / "candidates.parquet"
        if not following.exists():
            return state
        table = read_table(following)
        proposal = Proposal(
            samples=read_samples(following, table),
            parents=read_numbers(following, table, "parent", np.int64),
            scales=read_numbers(following, table, "scale", np.float64),
        )
        return replace(state, proposal=proposal)

    def synthetic(self, turn: int) -> Samples:
        """Return S(t)."""
        path = self._round(turn, make=False) / "synthetic.parquet"
        return read_samples(path, read_table(path))

    def publish(self, samples: Samples, statement: PrivacyStatement) -> None:
        """Write `release/`. The statement comes first: should the writing stop there, it claims too little."""
        release = self.path / "release"
        release.mkdir(exist_ok=True)
        write_json(release / "privacy.json", asdict(statement))
        write_atomically(release / "PRIVACY.txt", (statement.text() + "\n").encode())
        write_table(release / "synthetic.parquet", samples_to_columns(samples))

    def _round(self, turn: int, *, make: bool = True) -> Path:
        folder = self.path / "internal" / "rounds" / f"{turn:03d}"
        if make:
            folder.mkdir(exist_ok=True)
        return folder


def _diagnostics(state: State) -> dict[str, Any]:
    """Everything a selection says of itself but the indices, which have a column of their own."""
    result = state.selection
    if result is None:
        return {}
    named = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "indices"}
    return {"rule": type(result).__name__, **named}


def _plan_from_json(values: dict[str, Any]) -> Plan:
    numbers = {name: float(values[name]) for name in ("epsilon", "delta", "sigma")}
    return Plan(**(values | numbers | {"scales": tuple(values["scales"])}))


def _refuse_other_run(
    path: Path, settings: dict[str, Any], stored: Plan, plan: Plan, parts: dict[str, str], ledger: str
) -> None:
    """A folder goes on with the run that it began, or not at all."""
    if settings.get("format") != _FORMAT:
        raise RunError(f"{path} was written in format {settings.get('format')!r:.40}, not {_FORMAT}; name a new folder")
    if settings["ledger"] != ledger:
        raise RunError(f"{path} is charged to another ledger; give the one it was started with")
    old, new = asdict(stored) | settings["parts"], asdict(plan) | parts
    for name in new:
        grown = name in _MAY_GROW and plan.sigma == stored.sigma and plan.rounds >= stored.rounds
        if old.get(name) != new[name] and not grown:
            raise RunError(
                f"{path} was started with {name} {old.get(name)!s:.200}, not {new[name]!s:.200}; "
                "use the same settings to resume it, or name a new folder"
            )
