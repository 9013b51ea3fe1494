"""Checking the books of a run: its plan, its ledger, the rounds on disk and the statement must agree.

The ledger is read with plain SQL and never written, so the audit does not rely on the code that keeps it, and does not
disturb a run in progress.
"""

from __future__ import annotations

import itertools
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
    """A release as recorded in the ledger."""

    turn: int
    release: Release
    secure: bool  # as the ledger records it: secure noise, and nothing of the data used without any
    votes: NoisyVotes


@dataclass(frozen=True)
class RunAudit:
    """The result of checking the books of a run."""

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
        """Return the result in a sentence or two."""
        made = f"{self.releases} of {len(self.plan.releases)}"
        releases = f"{made} releases were made, which cost epsilon {stated(self.epsilon)}"
        claim = f"the claim is {stated(self.plan.epsilon)} at delta {stated(self.plan.delta, 3)}"
        if self.passed:
            stage = "statement, plan and ledger agree" if self.finished else "plan and ledger agree so far"
            return f"The books are in order: {stage}; {releases}, and {claim}."
        failed = ", ".join(check.name for check in self.checks if not check.passed)
        return (
            f"THE BOOKS ARE NOT IN ORDER, see {failed}; {releases}, and {claim}. Do not rely on this run's guarantee."
        )


def audit_run(run: str | Path, ledger: str | Path | None = None) -> RunAudit:
    """Recompute what a run must have recorded to keep its promise, and compare. The run may be unfinished.

    The plan's sigma is derived from its epsilon and delta. Each release in the ledger must have that sigma, the plan's
    votes per unit and neighbouring relation, and a secure source, once per round. Votes on disk must be those in the
    ledger, and a statement must claim what the ledger adds up to. `ledger` is the path of the ledger, if the settings
    do not give it.
    """
    run = Path(run)
    layout = Layout(run)
    if not layout.is_run:
        raise RunError(f"{run} is not the folder of a run; name a folder that `gape run` wrote")
    on_disk = SettingsFolder(run)
    folder = _check_folder(on_disk)
    begun = read_begun(run)
    name, ledger_id, plan = begun.run, begun.ledger, begun.plan
    facts, books = _read_ledger(Path(ledger) if ledger else _ledger_path(on_disk))
    entries = books.get(name, [])
    total = _total(books, plan.delta)
    checks = [
        folder,
        _check_identity(ledger_id, facts),
        check_accounts(plan) if math.isfinite(plan.epsilon) else _no_claim(),
        _check_sigma(plan, entries),
        _check_unit(plan, facts, entries),
        _check_releases(plan, entries),
        _check_votes(layout, plan, entries),
        _check_source(entries),
        _check_budget(facts, books),
    ]
    has_statement = layout.statement.exists()
    if has_statement:
        checks.append(_check_statement(layout, plan, facts, entries, total))
    cost = spent([entry.release for entry in entries], plan.delta)
    return RunAudit(plan, len(entries), cost, has_statement and len(entries) == len(plan.releases), tuple(checks))


def _check_folder(on_disk: SettingsFolder) -> Check:
    """Check the folder against itself, like every command does."""
    try:
        read_begun_run(on_disk.path, on_disk.stored)
    except ContradictionError as error:
        return Check("folder", passed=False, finding=str(error))
    return Check("folder", passed=True, finding="plan, settings, statement and lineage agree")


def _ledger_path(on_disk: SettingsFolder) -> Path:
    """Return the ledger's path from the settings of a run, if this user wrote them."""
    run = on_disk.path
    if on_disk.stored is None:
        raise InputError(f"{run} does not record where its ledger is; give its path as ledger")
    settings = on_disk.agreed(["ledger", "data"])
    if settings.ledger == ":memory:":
        raise InputError(f"the ledger of {run} was kept in memory and is gone; there are no books to audit")
    return Path(settings.ledger or (settings.data + LEDGER_SUFFIX if settings.data else on_disk.layout.ledger))


def _read_ledger(path: Path) -> tuple[dict[str, str], dict[str, list[Entry]]]:
    """Return the facts of a ledger and the entries of each run, in order."""
    if not path.exists():
        raise RunError(f"there is no ledger at {path}; give its current path as ledger")
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
        raise RunError(f"{path} cannot be read as a ledger ({error}); restore it from a backup") from error
    return facts, books


def _check_identity(started_with: str, facts: dict[str, str]) -> Check:
    same = started_with == facts.get("id")
    finding = "the run was started with this ledger" if same else "the run was started with another ledger"
    return Check("ledger", same, finding)


def _no_claim() -> Check:
    return Check("accounts", passed=False, finding="epsilon inf claims no privacy: the run is NOT PRIVATE")


def _check_sigma(plan: Plan, entries: list[Entry]) -> Check:
    """Compare each release with the plan, and the plan with the noise that its claim requires."""
    needed = noise_scale(plan.epsilon, plan.delta, 1, neighbours=plan.neighbours, votes_per_unit=plan.counted)
    sigmas = sorted({entry.release.sigma for entry in entries})
    wrong = [entry.turn for entry in entries if entry.release.sigma != plan.sigma]
    seen = " and ".join(f"{sigma:g}" for sigma in sigmas) or "none yet"
    finding = f"derived from the claim {needed:g}, planned {plan.sigma:g}, recorded {seen}"
    if wrong:
        finding += f"; not as planned in {_rounds_in_words(wrong)}"
    return Check("sigma", not wrong, finding)


def _check_unit(plan: Plan, facts: dict[str, str], entries: list[Entry]) -> Check:
    counts = [entry.release.votes_per_unit for entry in entries]
    planned = [release.votes_per_unit for release in plan.releases]
    passed = facts["neighbours"] == plan.neighbours and all(a == b for a, b in zip(counts, planned, strict=False))
    seen, meant = (_in_order(each) or "none yet" for each in (counts, planned))
    sides = (("ledger", facts["neighbours"], seen), ("plan", plan.neighbours, meant))
    finding = "; ".join(f"{name}: neighbouring relation {how}, votes per unit {votes}" for name, how, votes in sides)
    return Check("unit", passed, finding)


def _in_order(counts: list[int]) -> str:
    return ", ".join(str(count) for count, _ in itertools.groupby(counts))


def _check_releases(plan: Plan, entries: list[Entry]) -> Check:
    turns = [entry.turn for entry in entries]
    first = 1 - len(plan.answers)  # a survey comes before round 1
    passed = turns == list(range(first, first + len(turns))) and len(turns) <= len(plan.releases)
    survey = f" and a survey of {len(plan.answers)}" if plan.answers else ""
    finding = f"{len(turns)} releases in the ledger for {plan.rounds} rounds{survey} planned"
    return Check("releases", passed, finding if passed else f"{finding}, for {_rounds_in_words(turns)}")


def _check_votes(layout: Layout, plan: Plan, entries: list[Entry]) -> Check:
    """Compare the votes on disk with those that were charged; others would be a second draw, or not paid for."""
    charged = {entry.turn: entry.votes for entry in entries}
    kept = {turn: layout.round(turn).votes for turn in layout.voted()}
    kept |= {number - len(plan.answers): layout.round(0).answers(number) for number in layout.answered()}
    wrong = [turn for turn in kept if turn not in charged or not _same_votes(kept[turn], charged[turn])]
    what = "releases" if plan.answers else "rounds"
    finding = f"the votes of {len(kept)} {what} on disk are those in the ledger"
    if wrong:
        finding = (
            f"the votes on disk of {_rounds_in_words(wrong)} are not those in the ledger: released and not charged"
        )
    return Check("votes", not wrong, finding)


def _same_votes(file: Path, charged: NoisyVotes) -> bool:
    table = read_table(file)
    return table.column_names == ["noisy_votes"] and np.array_equal(table["noisy_votes"].to_numpy(), charged)


def _check_source(entries: list[Entry]) -> Check:
    wrong = [entry.turn for entry in entries if not entry.secure]
    if wrong:
        finding = (
            f"noise from a known seed, or private data used without noise, in {_rounds_in_words(wrong)}: NOT PRIVATE"
        )
        return Check("source", passed=False, finding=finding)
    return Check("source", passed=True, finding="all noise is recorded as from a secure source")


def _total(books: dict[str, list[Entry]], delta: float) -> float:
    """Return the cost of everything in the ledger; infinite if a release has no guarantee."""
    if not all(entry.secure for entries in books.values() for entry in entries):
        return math.inf
    return spent([entry.release for entries in books.values() for entry in entries], delta)


def _check_budget(facts: dict[str, str], books: dict[str, list[Entry]]) -> Check:
    epsilon, delta = float(facts["epsilon"]), float(facts["delta"])
    total = _total(books, delta)
    passed = total <= epsilon * (1 + EPSILON_TOLERANCE)
    finding = f"all runs on the data have spent {stated(total)} of a budget of {epsilon:g}"
    return Check("budget", passed, f"{finding} at delta {stated(delta, 3)}")


def _check_statement(layout: Layout, plan: Plan, facts: dict[str, str], entries: list[Entry], total: float) -> Check:
    """Compare the statement, its figures and its text, with the ledger."""
    try:
        statement = read_statement(layout.statement)
    except RunError:
        return Check("statement", passed=False, finding="it is damaged, or claims more than the releases it lists")
    complete = layout.round(plan.rounds).synthetic.exists()
    covered = (
        entries if complete else entries[: len(statement.sigma)]
    )  # an extended run keeps its statement until it ends
    wrong = _misstated(statement, covered, facts["neighbours"], plan.delta, total)
    if statement.ledger != facts.get("id", "")[:12]:
        wrong.append("ledger")
    if not statement.is_stored_as(read_bounded(layout.words)):
        wrong.append("PRIVACY.txt")
    if wrong:
        finding = f"the statement does not agree with the ledger: {', '.join(wrong)}"
    elif not statement.private:
        finding = "the statement itself says NOT PRIVATE, correctly"
    else:
        finding = f"it states epsilon {stated(statement.epsilon)} for {len(statement.sigma)} releases, as recomputed"
    return Check("statement", statement.private and not wrong, finding)


def _misstated(
    statement: PrivacyStatement, covered: list[Entry], neighbours: str, delta: float, total: float
) -> list[str]:
    """Return the names of the fields in which a statement differs from the entries that it covers."""
    releases = [entry.release for entry in covered]
    cost = spent(releases, delta)
    secure = all(entry.secure for entry in covered)
    most = total * (1 + EPSILON_TOLERANCE)  # other runs may have spent more since
    agrees = {
        "sigma": statement.sigma == tuple(release.sigma for release in releases),
        "neighbours": statement.neighbours == neighbours,
        "votes_per_unit": [release.votes_per_unit for release in statement.releases]
        == [release.votes_per_unit for release in releases],
        "answers": len(statement.answers) == sum(entry.turn <= 0 for entry in covered),
        "secure_noise": statement.secure_noise == secure,
        "epsilon": _close(statement.epsilon, cost),
        "delta": statement.delta == delta,
        "dataset_epsilon": cost * (1 - EPSILON_TOLERANCE) <= statement.dataset_epsilon <= most,
        "private": statement.private == (secure and math.isfinite(cost)),
    }
    return [name for name, right in agrees.items() if not right]


def _close(claimed: float, derived: float) -> bool:
    return claimed == derived or math.isclose(claimed, derived, rel_tol=EPSILON_TOLERANCE)


def _rounds_in_words(turns: list[int]) -> str:
    return f"{'round' if len(turns) == 1 else 'rounds'} {', '.join(map(str, turns))}"
