"""What a text run has on disk beside its rounds.

    run/internal/
    ├── settings.toml       every choice of the run, in full; no secrets
    ├── schema.toml         of a table, what its columns can hold, as it was when the run began
    └── answers.sqlite      what the language model answered, before anybody used it

and the ledger of the data: beside the data, since the budget belongs to the data and not to a run of it.
"""

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gape.data import Schema
from gape.errors import BudgetError, PrivacyError, RunError
from gape.export import read_finished
from gape.files import is_locked, read_json, refuse_links, write_atomically
from gape.language.spending import Tokens
from gape.language.stored import stored_tokens
from gape.plan import Plan
from gape.privacy.accounting import Release, spent
from gape.privacy.ledger import Budget, Ledger
from gape.private import Private, text_fingerprint, unit_of
from gape.run_folder import Versions, read_versions
from gape.settings import OPERATIONAL, Settings, read_toml

LEDGER_SUFFIX = ".gape-ledger.sqlite"


@dataclass(frozen=True)
class Status:
    """How a run stands."""

    finished: bool
    running: bool  # in some process, now
    rounds_done: int
    rounds: int
    voting: bool  # the candidates of the next round are there
    answers: int  # of the language model, stored
    tokens: Tokens
    epsilon_spent: float | None  # by this run; None where its ledger is not there
    dataset_epsilon: float | None  # by all runs on the data
    budget: Budget | None
    versions: list[Versions]  # that made it; none before its first text, or where they were not kept


@dataclass(frozen=True)
class Standing:
    """How the data stands with its ledger."""

    budget: Budget
    releases: tuple[Release, ...]
    epsilon: float  # of all runs on the data, at the delta of the budget

    def fits(self, plan: Plan) -> bool:
        """Whether the budget allows a new run."""
        return plan.neighbours == self.budget.neighbours and self.budget.allows((*self.releases, *plan.releases))


def ledger_of(settings: Settings) -> Standing | None:
    """Look into the ledger of the data that settings name; None if there is none yet."""
    path = settings.ledger or settings.data + LEDGER_SUFFIX
    if path == ":memory:" or not Path(path).exists():
        return None
    with closing(_ledger(path)) as ledger:
        return Standing(ledger.budget, ledger.releases(), ledger.total(ledger.budget.delta))


def _run_epsilon(ledger: Ledger, run: str, delta: float) -> float:
    """What a run has spent; infinite where its releases have no guarantee."""
    return spent(ledger.releases(run), delta) if ledger.secure(run) and not ledger.unpaid(run) else math.inf


class TextFolder:
    """The folder of a text run, there or yet to be made."""

    def __init__(self, path: str | Path) -> None:
        """Look at the folder `path`; writes nothing."""
        self.path = Path(path)
        self._internal = self.path / "internal"
        self._settings = self._internal / "settings.toml"
        self._schema = self._internal / "schema.toml"
        self._begun = self._internal / "settings.json"  # of the run inside
        self.answers = self._internal / "answers.sqlite"

    @property
    def finished(self) -> bool:
        """Whether the run has published what its last round selected."""
        try:
            read_finished(self.path)
        except RunError:
            return False
        return True

    @property
    def batches(self) -> int:
        """How often texts were written: for the start, and for each round."""
        rounds = self._internal / "rounds"
        return int((rounds / "000" / "synthetic.parquet").exists()) + len(list(rounds.glob("*/candidates.parquet")))

    def settings(self) -> Settings:
        """Return the settings of the run that is there."""
        if not self._settings.exists():
            raise RunError(f"{self.path} holds no text run; name the folder of one")
        refuse_links(self.path)
        settings = Settings.of(read_toml(self._settings))
        return settings if settings.schema is None else settings.with_values(schema=str(self._schema.absolute()))

    def write(self, settings: Settings) -> None:
        """Keep the settings, making the folder if it is not there."""
        self._internal.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._internal.chmod(0o700)
        if settings.schema is not None and not self._schema.exists():
            write_atomically(self._schema, Path(settings.schema).read_bytes())
        write_atomically(self._settings, settings.as_toml().encode())

    def refuse_foreign(self) -> None:
        """Refuse a folder that holds something else than a text run."""
        try:
            occupied = self.path.exists() and (not self.path.is_dir() or any(map(self._foreign, self.path.iterdir())))
        except OSError as error:
            raise RunError(f"the folder {self.path} cannot be read ({error.strerror}); name another one") from None
        if occupied and not self._settings.exists():
            raise RunError(f"{self.path} exists and is not the folder of a text run; name a new folder")

    def _foreign(self, entry: Path) -> bool:
        """Whether an entry is more than what a process leaves that was stopped before it had written the settings."""
        return entry != self._internal or any(
            not each.match(".*.tmp") and each != self._schema for each in entry.iterdir()
        )

    def same_run(self, settings: Settings) -> Settings:
        """Return settings to go on with: these, if a run that is there was started with the same."""
        if not self._settings.exists():
            return settings
        stored = self.settings()
        if settings.topics is None:  # asked of the model in the first part of the run
            settings = settings.with_values(topics=stored.topics)
        if settings.schema is not None and stored.schema is not None:
            if Schema.read(settings.schema) != Schema.read(stored.schema):
                raise RunError(f"{self.path} was started with another schema than {settings.schema}; name a new folder")
            settings = settings.with_values(schema=stored.schema)
        for each in fields(settings):
            old, new = getattr(stored, each.name), getattr(settings, each.name)
            if old != new and each.name not in OPERATIONAL:
                raise RunError(
                    f"{self.path} was started with {each.name} {old!r}, not {new!r}; use the same settings to go on "
                    "with it, or name a new folder"
                )
        return settings

    def open_ledger(self, settings: Settings, plan: Plan, private: Private) -> Ledger:
        """Open or make the ledger of the data, and refuse what it does not allow, before anything is computed."""
        path = self._ledger_path(settings)
        if path != ":memory:" and Path(path).parent == self._internal:
            self.write(settings)
        budget = Budget(settings.budget_epsilon or plan.epsilon, plan.delta, plan.neighbours)
        if self._run and path != ":memory:" and not Path(path).exists():
            raise RunError(
                f"the ledger that {self.path} is charged to is not at {path}; put it back there, or say where it is as "
                "ledger"
            )
        ledger = _ledger(path, budget)
        with _closed_on_error(ledger):
            if self._run and not self._is_charged_to(ledger):
                raise RunError(f"{self.path} is charged to another ledger; give the one it was started with")
            try:
                ledger.bind(lambda salt: text_fingerprint(private, salt), unit_of(private))
            except PrivacyError as error:
                raise PrivacyError(f"{private.source} has changed, or is read in another way: {error}") from None
            wanted, open_still = ledger.budget, ledger.provisional
            if settings.budget_epsilon is not None:
                wanted = replace(wanted, epsilon=settings.budget_epsilon)
            elif open_still:  # of an earlier run that came to nothing
                wanted = replace(budget, neighbours=wanted.neighbours)
            try:
                ledger.require(self._run or "", plan.releases, wanted)
            except BudgetError as error:
                raise BudgetError(f"{error} by budget_epsilon, which is for all runs on the data together") from None
            if wanted != ledger.budget or (open_still and settings.budget_epsilon is not None):
                ledger.change_budget(
                    epsilon=wanted.epsilon, delta=wanted.delta, provisional=settings.budget_epsilon is None
                )
        return ledger

    def status(self) -> Status:
        """Say how the run stands."""
        settings = self.settings()
        rounds = self._internal / "rounds"
        done = max(0, len(list(rounds.glob("*/synthetic.parquet"))) - 1)
        answers, tokens = stored_tokens(self.answers)
        path = self._ledger_path(settings)
        run_epsilon = data_epsilon = budget = None
        if path != ":memory:" and Path(path).exists():
            with closing(_ledger(path)) as ledger:
                if not self._run or self._is_charged_to(ledger):
                    budget = ledger.budget
                    data_epsilon = ledger.total(budget.delta)
                    run_epsilon = _run_epsilon(ledger, self._run, budget.delta) if self._run else 0.0
        return Status(
            finished=self.finished,
            running=is_locked(self._internal / "lock"),
            rounds_done=done,
            rounds=settings.rounds,
            voting=(rounds / f"{done + 1:03d}" / "candidates.parquet").exists(),
            answers=answers,
            tokens=tokens,
            epsilon_spent=run_epsilon,
            dataset_epsilon=data_epsilon,
            budget=budget,
            versions=read_versions(self._begun) if self._begun.exists() else [],
        )

    @property
    def _run(self) -> str | None:
        """The name of the run in the ledger, once it has one."""
        return str(read_json(self._begun)["run"]) if self._begun.exists() else None

    def _is_charged_to(self, ledger: Ledger) -> bool:
        return bool(read_json(self._begun)["ledger"] == ledger.id)

    def _ledger_path(self, settings: Settings) -> str:
        if settings.ledger is not None:
            return settings.ledger
        return settings.data + LEDGER_SUFFIX if settings.data else str(self._internal / "ledger.sqlite")


def _ledger(path: str, budget: Budget | None = None) -> Ledger:
    try:
        return Ledger(path, budget, keep=True)
    except OSError as error:
        raise RunError(f"the ledger {path} cannot be written ({error.strerror}); name another place for it") from None


@contextmanager
def _closed_on_error(ledger: Ledger) -> Iterator[None]:
    try:
        yield
    except BaseException:
        ledger.close()
        raise
