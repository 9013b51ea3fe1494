"""The books of a run, checked: the plan, the ledger, the rounds on disk and the statement must tell one story.

The ledger is read by plain SQL and never written, so that the audit does not rest on the code that keeps it, and a run
that goes on meanwhile is not disturbed.
"""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gape._support.databases import reading, refuse_other_database
from gape._support.files import read_bounded, read_table
from gape.audit.checks import Check, check_accounts
from gape.core.errors import InputError, RunError
from gape.core.types import NoisyVotes
from gape.evolution.plan import Plan
from gape.privacy.accounting import Release, noise_scale, spent, stated
from gape.privacy.ledger import SCHEMA, UNPAID
from gape.privacy.statement import PrivacyStatement
from gape.runs.folder.layout import Layout
from gape.runs.folder.record import EPSILON_TOLERANCE, ContradictionError, read_begun_run, read_statement
from gape.runs.folder.rounds import read_begun
from gape.runs.folder.stored import LEDGER_SUFFIX, SettingsFolder


@dataclass(frozen=True)
class Entry:
    """A release as the ledger has it."""

    turn: int
    release: Release
    secure: bool  # as the ledger records it: secure noise, and nothing of the data used without any
    votes: NoisyVotes


@dataclass(frozen=True)
class RunAudit:
    """What the books of a run have shown."""

    plan: Plan
    releases: int
    epsilon: float  # of the releases made, at the plan's delta
    finished: bool
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether everything agrees and the run is private."""
        return all(check.passed for check in self.checks)

    def text(self) -> str:
        """Say it in a sentence or two."""
        made = f"{self.releases} of {self.plan.rounds} releases were made, which cost epsilon {stated(self.epsilon)}"
        claim = f"claimed is {stated(self.plan.epsilon)} at delta {stated(self.plan.delta, 3)}"
        if self.passed:
            stage = "statement, plan and ledger agree" if self.finished else "plan and ledger agree so far"
            return f"The books are in order: {stage}; {made}, and {claim}."
        failed = ", ".join(check.name for check in self.checks if not check.passed)
        return f"THE BOOKS ARE NOT IN ORDER, see {failed}; {made}, and {claim}. Do not rely on this run's guarantee."


def audit_run(run: str | Path, ledger: str | Path | None = None) -> RunAudit:
    """Derive again what a run must have recorded to keep its promise, and compare; finished or not, text or vectors.

    The plan's sigma is derived from its epsilon and delta; every release in the ledger must have that sigma, the plan's
    votes per unit and neighbours and a secure source, once a round; votes on disk must be those in the ledger; and a
    statement must claim what the ledger amounts to. `ledger` says where it lies, if the settings do not.
    """
    run = Path(run)
    layout = Layout(run)
    if not layout.is_run:
        raise RunError(f"{run} is not the folder of a run that has begun; name the folder that the run was made in")
    folder = _check_folder(run)
    begun = read_begun(run)
    name, ledger_id, plan = begun.run, begun.ledger, begun.plan
    facts, books = _read_ledger(Path(ledger) if ledger else _ledger_path(run))
    mine = books.get(name, [])
    total = _total(books, plan.delta)
    checks = [
        folder,
        _check_identity(ledger_id, facts),
        check_accounts(plan) if math.isfinite(plan.epsilon) else _no_claim(),
        _check_sigma(plan, mine),
        _check_unit(plan, facts, mine),
        _check_rounds(plan, mine),
        _check_votes(layout, mine),
        _check_source(mine),
        _check_budget(facts, books),
    ]
    told = layout.statement.exists()
    if told:
        checks.append(_check_statement(layout, plan, facts, mine, total))
    cost = spent([entry.release for entry in mine], plan.delta)
    return RunAudit(plan, len(mine), cost, told and len(mine) == plan.rounds, tuple(checks))


def _check_folder(run: Path) -> Check:
    """The folder against itself, as every command checks it."""
    try:
        read_begun_run(run)
    except ContradictionError as error:
        return Check("folder", passed=False, finding=str(error))
    return Check("folder", passed=True, finding="plan, settings, statement and lineage tell one story")


def _ledger_path(run: Path) -> Path:
    """Where a text run says its ledger is, if this user wrote that."""
    on_disk = SettingsFolder(run)
    if not on_disk.layout.settings.exists():
        raise InputError(f"{run} does not say where its ledger is; name it as ledger")
    settings = on_disk.agreed(["ledger", "data"])
    if settings.ledger == ":memory:":
        raise InputError(f"the ledger of {run} was kept in memory and is gone; there are no books to audit")
    return Path(settings.ledger or (settings.data + LEDGER_SUFFIX if settings.data else on_disk.layout.ledger))


def _read_ledger(path: Path) -> tuple[dict[str, str], dict[str, list[Entry]]]:
    """Return the facts of a ledger and the entries of every run, in their order."""
    if not path.exists():
        raise RunError(f"there is no ledger at {path}; name the place where it lies now as ledger")
    books: dict[str, list[Entry]] = {}
    refuse_other_database(path, SCHEMA, "a ledger")
    try:
        with closing(reading(path)) as database:
            facts = dict(database.execute("SELECT name, value FROM facts"))
            query = "SELECT run, round, sigma, votes_per_unit, secure, votes FROM releases ORDER BY run, round"
            for run, turn, sigma, votes_per_unit, secure, votes in database.execute(query):
                release = Release(sigma, facts["neighbours"], votes_per_unit)
                paid = bool(secure) and not facts.get(UNPAID + run)
                entry = Entry(turn, release, paid, np.frombuffer(votes, dtype="<i8").astype(np.int64))
                books.setdefault(run, []).append(entry)
    except (sqlite3.Error, LookupError, InputError) as error:
        raise RunError(f"{path} cannot be read as a ledger ({error}); restore it from a copy") from error
    return facts, books


def _check_identity(started_with: str, facts: dict[str, str]) -> Check:
    same = started_with == facts.get("id")
    said = "the ledger is the one that the run was started with" if same else "the run was started with another ledger"
    return Check("ledger", same, said)


def _no_claim() -> Check:
    return Check("accounts", passed=False, finding="epsilon inf claims no privacy: the run is NOT PRIVATE")


def _check_sigma(plan: Plan, mine: list[Entry]) -> Check:
    """Every release against the plan, and the plan against what its claim needs."""
    needed = noise_scale(
        plan.epsilon, plan.delta, plan.rounds, neighbours=plan.neighbours, votes_per_unit=plan.votes_per_unit
    )
    sigmas = sorted({entry.release.sigma for entry in mine})
    wrong = [entry.turn for entry in mine if entry.release.sigma != plan.sigma]
    seen = " and ".join(f"{sigma:g}" for sigma in sigmas) or "none yet"
    finding = f"derived from the claim {needed:g}, planned {plan.sigma:g}, recorded {seen}"
    if wrong:
        finding += f"; other than planned in {_rounds(wrong)}"
    return Check("sigma", not wrong, finding)


def _check_unit(plan: Plan, facts: dict[str, str], mine: list[Entry]) -> Check:
    votes = sorted({entry.release.votes_per_unit for entry in mine})
    passed = facts["neighbours"] == plan.neighbours and votes in ([], [plan.votes_per_unit])
    seen = f"ledger: neighbours by {facts['neighbours']}, votes per unit {', '.join(map(str, votes)) or 'none yet'}"
    return Check("unit", passed, f"{seen}; plan: neighbours by {plan.neighbours}, votes per unit {plan.votes_per_unit}")


def _check_rounds(plan: Plan, mine: list[Entry]) -> Check:
    turns = [entry.turn for entry in mine]
    passed = turns == list(range(1, len(turns) + 1)) and len(turns) <= plan.rounds
    finding = f"{len(turns)} releases in the ledger for {plan.rounds} rounds planned"
    return Check("releases", passed, finding if passed else f"{finding}, for {_rounds(turns)}")


def _check_votes(layout: Layout, mine: list[Entry]) -> Check:
    """Votes on disk must be those that were charged: others would be a second draw, or were never paid for."""
    charged = {entry.turn: entry.votes for entry in mine}
    kept = {turn: layout.round(turn).votes for turn in layout.voted()}
    wrong = [turn for turn in kept if turn not in charged or not _same(kept[turn], charged[turn])]
    finding = f"the votes of {len(kept)} rounds on disk are those in the ledger"
    if wrong:
        finding = f"the votes on disk of {_rounds(wrong)} are not those in the ledger: released and not charged"
    return Check("votes", not wrong, finding)


def _same(file: Path, charged: NoisyVotes) -> bool:
    table = read_table(file)
    return table.column_names == ["noisy_votes"] and np.array_equal(table["noisy_votes"].to_numpy(), charged)


def _check_source(mine: list[Entry]) -> Check:
    wrong = [entry.turn for entry in mine if not entry.secure]
    if wrong:
        finding = f"noise from a known seed, or private data used without noise, in {_rounds(wrong)}: NOT PRIVATE"
        return Check("source", passed=False, finding=finding)
    return Check("source", passed=True, finding="all noise is recorded as from a secure source")


def _total(books: dict[str, list[Entry]], delta: float) -> float:
    """What everything in the ledger adds up to; infinite where a release has no guarantee."""
    if not all(entry.secure for entries in books.values() for entry in entries):
        return math.inf
    return spent([entry.release for entries in books.values() for entry in entries], delta)


def _check_budget(facts: dict[str, str], books: dict[str, list[Entry]]) -> Check:
    epsilon, delta = float(facts["epsilon"]), float(facts["delta"])
    total = _total(books, delta)
    passed = total <= epsilon * (1 + EPSILON_TOLERANCE)
    finding = f"all runs on the data have spent {stated(total)} of a budget of {epsilon:g}"
    return Check("budget", passed, f"{finding} at delta {stated(delta, 3)}")


def _check_statement(layout: Layout, plan: Plan, facts: dict[str, str], mine: list[Entry], total: float) -> Check:
    """The statement, in figures and in words, must say what the ledger amounts to."""
    try:
        statement = read_statement(layout.statement)
    except RunError:
        return Check("statement", passed=False, finding="it is damaged, or claims more than the releases it tells of")
    complete = layout.round(plan.rounds).synthetic.exists()
    told = mine if complete else mine[: len(statement.sigma)]  # an extended run keeps its statement until it ends
    wrong = _misstated(statement, told, facts["neighbours"], plan.delta, total)
    if statement.ledger != facts.get("id", "")[:12]:
        wrong.append("ledger")
    if read_bounded(layout.words) != statement.text() + "\n":
        wrong.append("PRIVACY.txt")
    if wrong:
        finding = f"the statement does not say what the ledger does: {', '.join(wrong)}"
    elif not statement.private:
        finding = "the statement says NOT PRIVATE itself, and is right"
    else:
        finding = f"it states epsilon {stated(statement.epsilon)} for {len(statement.sigma)} releases, as derived anew"
    return Check("statement", statement.private and not wrong, finding)


def _misstated(
    statement: PrivacyStatement, told: list[Entry], neighbours: str, delta: float, total: float
) -> list[str]:
    """Name what a statement says otherwise than the entries that it tells of."""
    releases = [entry.release for entry in told]
    cost = spent(releases, delta)
    secure = all(entry.secure for entry in told)
    most = total * (1 + EPSILON_TOLERANCE)  # other runs may have spent more since
    agrees = {
        "sigma": statement.sigma == tuple(each.sigma for each in releases),
        "neighbours": statement.neighbours == neighbours,
        "votes_per_unit": statement.votes_per_unit == max((each.votes_per_unit for each in releases), default=1),
        "secure_noise": statement.secure_noise == secure,
        "epsilon": _close(statement.epsilon, cost),
        "delta": statement.delta == delta,
        "dataset_epsilon": cost * (1 - EPSILON_TOLERANCE) <= statement.dataset_epsilon <= most,
        "private": statement.private == (secure and math.isfinite(cost)),
    }
    return [name for name, right in agrees.items() if not right]


def _close(claimed: float, derived: float) -> bool:
    return claimed == derived or math.isclose(claimed, derived, rel_tol=EPSILON_TOLERANCE)


def _rounds(turns: list[int]) -> str:
    return f"round{'s' * (len(turns) != 1)} {', '.join(map(str, turns))}"
