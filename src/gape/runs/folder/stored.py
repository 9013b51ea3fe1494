"""A run folder with settings: what they allow, how the run stands, and the ledger that it is charged to.

The ledger of a file is beside the file, because the budget belongs to the data and not to a run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from gape._support.files import is_locked, require_writable_folder
from gape.core.copies import repeats
from gape.core.errors import PrivacyError, RunError
from gape.evolution.plan import Plan
from gape.language.spending import Tokens
from gape.language.stored import stored_tokens
from gape.privacy.accounting import Release, spent
from gape.privacy.budget import BudgetRequest, settle_budget
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.statement import PrivacyStatement
from gape.runs.electorate import Private, text_fingerprint, unit_of
from gape.runs.folder.layout import Layout
from gape.runs.folder.record import RunRecord, read_begun_run, read_finished, read_run
from gape.runs.folder.rounds import Begun, read_begun, read_writers
from gape.runs.folder.sealed import SealedSettings, read_sealed, write_sealed
from gape.runs.folder.versions import Versions
from gape.runs.paths import anchored
from gape.runs.reach import OUTSIDE, Use, confined
from gape.runs.settings import OPERATIONAL, Settings

LEDGER_SUFFIX = ".gape-ledger.sqlite"


@dataclass(frozen=True)
class Status:
    """The status of a run."""

    finished: bool
    own: bool  # this user wrote its settings on this machine
    running: bool  # a process is working on it now
    rounds_done: int
    rounds: int
    voting: bool  # the candidates of the next round are written
    answers: int  # of the language model, stored
    tokens: Tokens
    epsilon_spent: float | None  # by this run; None if its ledger is missing, or its path cannot be trusted
    dataset_epsilon: float | None  # by all runs on the data
    budget: Budget | None
    versions: list[Versions]  # that made it; empty before its first text, or if they were not recorded
    lineages: tuple[int, ...]  # for the start and each round: the number of initial samples that have descendants
    largest: int  # number of samples in the largest lineage
    written: dict[str, int]  # number of the last texts by each writer, if there are several
    repeating: float | None  # share of the last texts that repeat 8 words of another; None if they are not texts


@dataclass(frozen=True)
class Standing:
    """The budget of a dataset, and what is spent of it."""

    budget: Budget
    releases: tuple[Release, ...]
    epsilon: float  # of all runs on the data, at the delta of the budget

    def fits(self, plan: Plan) -> bool:
        """Whether the budget allows a new run."""
        return plan.neighbours == self.budget.neighbours and self.budget.allows((*self.releases, *plan.releases))


def ledger_of(settings: Settings) -> Standing | None:
    """Read the ledger of the data that settings name; None if there is none yet."""
    settings = settings.anchored()
    path = settings.ledger or settings.data + LEDGER_SUFFIX
    if path == ":memory:" or not Path(path).exists():
        return None
    with closing(_ledger(path)) as ledger:
        return Standing(ledger.budget, ledger.releases(), ledger.total(ledger.budget.delta))


def _run_epsilon(ledger: Ledger, run: str, delta: float) -> float:
    """Return what a run has spent; infinite if its releases have no guarantee."""
    return spent(ledger.releases(run), delta) if ledger.secure(run) else math.inf


class SettingsFolder:
    """The folder of a run with settings, existing or new."""

    def __init__(self, path: str | Path, stored: SealedSettings | None = None) -> None:
        """Use the folder `path`, without writing anything. `stored` are its settings, if they were read already."""
        self.path = Path(path)
        self.layout = Layout(self.path)
        self._stored = stored

    @classmethod
    def of(cls, run: str | Path | SettingsFolder) -> SettingsFolder:
        """Return the folder of a run: the same object if it is one already, with what it has read."""
        return run if isinstance(run, SettingsFolder) else cls(run)

    @property
    def stored(self) -> SealedSettings | None:
        """The settings of the run in the folder, read once; None if there are none."""
        if self._stored is None:
            self._stored = read_sealed(self.path)
        return self._stored

    @property
    def finished(self) -> bool:
        """Whether the run has published its result. Refuses a folder that contradicts itself."""
        record = None if self.stored is None else read_begun_run(self.path, self.stored)
        return record is not None and record.finished

    @property
    def own(self) -> bool:
        """Whether this user wrote the settings on this machine, and nobody has changed them since."""
        return self.stored is not None and self.stored.own

    @property
    def batches(self) -> int:
        """The number of batches of texts written: the start, and one per round."""
        return self.layout.written()

    def settings(self) -> Settings:
        """Return the settings of the run in the folder. Use `agreed` before they reach outside it."""
        if self.stored is None:
            raise RunError(f"{self.path} is not the folder of a run; name a folder that `gape run` wrote")
        return self.stored.settings

    def record(self) -> RunRecord:
        """Read the run, finished or not."""
        return read_run(self.path, self.stored)

    def published(self) -> tuple[RunRecord, PrivacyStatement, pa.Table]:
        """Read a finished run with its statement and its published data."""
        record, statement, table = read_finished(self.path, self._stored)
        self._stored = record.stored
        return record, statement, table

    def agreed(self, uses: Collection[Use], **given: Any) -> Settings:
        """Return the settings with which a command may reach outside the folder, for the parts it uses.

        Given values override those of the folder. If this user did not write the folder on this machine, everything
        that reaches outside must be given.
        """
        stored = self.settings()
        given = {name: anchored(name, value) for name, value in given.items() if value is not None}
        return stored.with_values(**given) if self.own else confined(self.path, stored, given, uses)

    def write(self, settings: Settings) -> None:
        """Store the settings with their seal. Creates the folder if necessary."""
        self._stored = write_sealed(self.layout, settings)

    def refuse_foreign(self) -> None:
        """Refuse a folder with other content than a run, and a new one that cannot be made."""
        try:
            occupied = self.path.exists() and (not self.path.is_dir() or any(map(self._foreign, self.path.iterdir())))
        except OSError as error:
            raise RunError(f"the folder {self.path} cannot be read ({error.strerror}); name another one") from None
        if self.layout.settings.exists():
            return
        if occupied:
            raise RunError(f"{self.path} exists and is not the folder of a run; name a new folder")
        require_writable_folder(self.path)

    def _foreign(self, entry: Path) -> bool:
        """Whether an entry cannot come from a process that was stopped before it wrote the settings."""
        return entry != self.layout.internal or any(
            not file.match(".*.tmp") and file != self.layout.schema for file in entry.iterdir()
        )

    def same_run(self, settings: Settings) -> Settings:
        """Return these settings, if the run in the folder was started with the same ones."""
        if self.stored is None:
            return settings
        stored = self.stored.settings
        if settings.topics is None:  # the model was asked for them when the run began
            settings = settings.with_values(topics=stored.topics)
        if settings.schema is not None and stored.schema not in {None, settings.schema}:
            if settings.records.describe() != stored.records.describe():
                raise RunError(f"{self.path} was started with another schema than {settings.schema}; name a new folder")
            settings = settings.with_values(schema=stored.schema)
        # Paths and addresses of someone else are replaced by the user's. That they lead to the same parts is checked by
        # the descriptions in the folder.
        may_differ = OPERATIONAL if self.own else OPERATIONAL | set(OUTSIDE)
        for name in (setting.name for setting in fields(settings)):
            old, new = getattr(stored, name), getattr(settings, name)
            if old != new and name not in may_differ:
                raise RunError(
                    f"{self.path} was started with {name} {old!r}, not {new!r}; `gape resume` keeps its settings, or "
                    "name a new folder"
                )
        return settings

    def open_ledger(self, settings: Settings, plan: Plan, private: Private) -> Ledger:
        """Open or create the ledger of the data, and refuse what it does not allow, before anything is computed."""
        path, begun = self._ledger_path(settings), self._begun
        if path != ":memory:" and Path(path).parent == self.layout.internal:
            self.write(settings)
        if begun and path != ":memory:" and not Path(path).exists():
            raise RunError(
                f"the ledger that {self.path} is charged to is not at {path}; restore it, or give its path as ledger"
            )
        request = BudgetRequest(Budget(plan.epsilon, plan.delta, plan.neighbours), settings.budget_epsilon)
        ledger = _ledger(path, request.first)
        with _closed_on_error(ledger):
            if begun and begun.ledger != ledger.id:
                raise RunError(f"{self.path} is charged to another ledger; give the one it was started with")
            try:
                ledger.bind(lambda salt: text_fingerprint(private, salt), unit_of(private))
            except PrivacyError as error:
                raise PrivacyError(f"{private.source} has changed, or is read in another way: {error}") from None
            settle_budget(ledger, request, begun.run if begun else "", plan.releases)
        return ledger

    def status(self, ledger: str | None = None) -> Status:
        """Return the status of the run. `ledger` is the path of its ledger, if the folder cannot be trusted."""
        settings = self.settings()
        record = read_begun_run(self.path, self.stored)
        begun = self._begun
        done = 0 if record is None else record.last
        answers, tokens = stored_tokens(self.layout.answers)
        path = ledger or (self._ledger_path(settings) if self.own else "")
        run_epsilon = data_epsilon = budget = None
        if path not in {"", ":memory:"} and Path(path).exists():
            with closing(_ledger(path)) as opened:
                if not begun or begun.ledger == opened.id:
                    budget = opened.budget
                    data_epsilon = opened.total(budget.delta)
                    run_epsilon = _run_epsilon(opened, begun.run, budget.delta) if begun else 0.0
        return Status(
            finished=record is not None and record.finished,
            own=self.own,
            running=is_locked(self.layout.lock),
            rounds_done=done,
            rounds=settings.rounds,
            voting=self.layout.round(done + 1).candidates.exists(),
            answers=answers,
            tokens=tokens,
            epsilon_spent=run_epsilon,
            dataset_epsilon=data_epsilon,
            budget=budget,
            versions=begun.versions if begun else [],
            lineages=() if record is None else tuple(map(len, record.families)),
            largest=0 if record is None else int(record.families[-1][0]),
            written={} if record is None else _written(record),
            repeating=_repeating(record) if record and record.modality.has_words else None,
        )

    def recorded(self, part: str) -> str | None:
        """Return the description of the generator or selector that the run inside began with, once it has begun."""
        return self._begun.parts[part] if self._begun else None

    @property
    def begun_plan(self) -> Plan | None:
        """The plan that the run inside began with; None before that."""
        return self._begun.plan if self._begun else None

    @property
    def _begun(self) -> Begun | None:
        """What the run recorded when it began; None before that."""
        return read_begun(self.path) if self.layout.is_run else None

    def _ledger_path(self, settings: Settings) -> str:
        if settings.ledger is not None:
            return settings.ledger
        return settings.data + LEDGER_SUFFIX if settings.data else str(self.layout.ledger)


def _repeating(record: RunRecord) -> float:
    return float(repeats(record.modality.wording(record.samples(record.last))).mean())


def _written(record: RunRecord) -> dict[str, int]:
    """Return the number of the last samples that each writer wrote; empty if there is one writer, or no name of it."""
    authors = read_writers(record.layout.round(record.last).synthetic)
    if authors is None or record.settings is None:
        return {}
    names = (record.settings.generator, *(record.settings.also or ()))
    counts = Counter(authors.tolist())
    if len(authors) != len(record.samples(record.last)) or not set(counts) <= set(range(len(names))):
        raise RunError(f"the writers in {record.path} are not those of its settings; restore it from a copy")
    return {name: counts[index] for index, name in enumerate(names)}


def _ledger(path: str, budget: Budget | None = None) -> Ledger:
    try:
        return Ledger(path, budget, keep=True)
    except OSError as error:
        raise RunError(f"the ledger {path} cannot be written ({error.strerror}); give another path as ledger") from None


@contextmanager
def _closed_on_error(ledger: Ledger) -> Iterator[None]:
    try:
        yield
    except BaseException:
        ledger.close()
        raise
