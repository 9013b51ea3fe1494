"""The ledger of a private dataset: its budget, its releases, and their noisy votes.

One SQLite file per private dataset, mode 0600. A release is charged and stored in one transaction before
anybody can see it. So even if the process is killed at any point,

- votes that anyone has seen are charged, exactly once;
- a resumed run finds the votes it has paid for, and never draws noise for them again;
- if several processes compete for the last of the budget, it is spent once.

The file contains a salted fingerprint of the dataset, never its content, and noisy votes, never exact ones.
"""

from __future__ import annotations

import itertools
import json
import math
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from gape._support.databases import closed_with, make_private, refuse_other_database
from gape._support.files import is_locked
from gape.core.errors import BudgetError, InputError, PrivacyError, RunError, in_one_line
from gape.core.types import NoisyVotes
from gape.privacy.accounting import Neighbours, Release, delta_spent, spent, stated

_FORMAT = "1"
_WAIT_SECONDS = 60.0
MOST_RELEASES = 100_000  # per run
_UNDER_WAY = "under way: run "  # prefix of a run's name: a fact with the releases it needs, and its lock
# Prefix of a run's name: a fact of older versions, which says what the run used of the data without any noise.
UNPAID = "unpaid by run "
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS releases (
    run TEXT NOT NULL,
    round INTEGER NOT NULL,
    sigma REAL NOT NULL,
    votes_per_unit INTEGER NOT NULL,
    secure INTEGER NOT NULL,
    candidates TEXT NOT NULL,
    votes BLOB NOT NULL,
    released_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    PRIMARY KEY (run, round)
);
"""


@dataclass(frozen=True)
class Budget:
    """The maximum cost of all releases about one dataset together. Infinite epsilon means no limit and no privacy."""

    epsilon: float
    delta: float
    neighbours: Neighbours = "replace"

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InputError(f"epsilon must be positive, got {self.epsilon}; use inf for a budget without privacy")
        if not 0 < self.delta < 1:
            raise InputError(
                f"delta must be between 0 and 1, got {self.delta}; 1 / (n ln n) is a usual choice for n units"
            )
        if self.neighbours not in get_args(Neighbours):
            raise InputError(f"neighbours must be 'replace' or 'add_remove', got {self.neighbours!r}; use 'replace'")

    def allows(self, releases: Sequence[Release]) -> bool:
        """Whether these releases together are certified to be (epsilon, delta)-DP."""
        return math.isinf(self.epsilon) or delta_spent(releases, self.epsilon) <= self.delta


class Ledger:
    """The budget file of one private dataset."""

    def __init__(self, path: str | Path, budget: Budget | None = None, *, keep: bool = False) -> None:
        """Open the ledger at `path`, or create it with `budget`. ":memory:" keeps it for this process only.

        With `keep` an existing ledger keeps its own budget, and the budget of a new one is provisional until it is
        changed or something is released. An empty file, left by a process that was stopped while creating a ledger,
        counts as new.
        """
        self.path = str(path)
        if self.path != ":memory:":
            self._open_file(Path(path), create=budget is not None)
        with self._usable():
            # Transactions are begun and ended explicitly, below.
            self._database = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            self._finalizer = closed_with(self, self._database)
            self._database.execute("PRAGMA synchronous = EXTRA")
            self._database.execute("PRAGMA trusted_schema = OFF")
        if budget is not None:  # otherwise the ledger exists, or the file is refused below
            with self._transaction():
                for statement in SCHEMA.split(";"):
                    self._database.execute(statement)
                self._write_first_facts(budget, provisional=keep)
        facts = self._facts()
        if facts.get("format") != _FORMAT:
            self.close()
            raise RunError(f"{self.path} is not a ledger of format {_FORMAT}; use another file")
        if absent := {"id", "salt", "epsilon", "delta", "neighbours"} - set(facts):
            self.close()
            raise RunError(f"the ledger {self.path} has no {min(absent)}; restore it from a backup")
        self.id = facts["id"]
        if budget is not None and not keep and self.budget != budget:
            has = self.budget
            self.close()
            raise BudgetError(
                f"the ledger {self.path} has the budget epsilon {has.epsilon:g}, delta {has.delta:g}, "
                f"{has.neighbours!r}, not epsilon {budget.epsilon:g}, delta {budget.delta:g}, {budget.neighbours!r}; "
                "open it without a budget, or change it with change_budget"
            )

    def close(self) -> None:
        """Close the file. Everything in it is already on disk."""
        self._finalizer()

    @property
    def mark(self) -> str:
        """The name of this ledger in statements: the beginning of its id, or empty if it exists only in memory."""
        return "" if self.path == ":memory:" else self.id[:12]

    @property
    def budget(self) -> Budget:
        """The budget in force."""
        facts = self._facts()
        try:
            neighbours = cast(Neighbours, facts["neighbours"])
            return Budget(float(facts["epsilon"]), float(facts["delta"]), neighbours)
        except (LookupError, ValueError):
            raise RunError(f"the ledger {self.path} has no valid budget; restore it from a backup") from None

    @property
    def provisional(self) -> bool:
        """Whether the budget is only that of a run that failed: nobody has set it, and nothing was released."""
        return bool(self._facts().get("provisional")) and not self.releases()

    def change_budget(self, *, epsilon: float, delta: float, provisional: bool = False) -> None:
        """Set another budget, never below what is spent. The owner of the data decides this."""
        budget = Budget(epsilon, delta, self.budget.neighbours)
        with self._transaction():
            if not budget.allows(self.releases()):
                raise BudgetError(
                    f"epsilon {epsilon:g} at delta {delta:g} is less than what is already spent, "
                    f"{stated(spent(self.releases(), delta))}, and releases cannot be taken back; set a larger budget"
                )
            facts = {"epsilon": repr(float(budget.epsilon)), "delta": repr(float(budget.delta))}
            self._set_facts(**facts, provisional="yes" if provisional else "")

    def bind(self, fingerprint: Callable[[bytes], str], unit: str) -> None:
        """Tie the ledger to a dataset at its first use; refuse any other dataset or privacy unit after that.

        `fingerprint` computes the fingerprint of the dataset under a salt, which the ledger keeps.
        """
        try:
            salt = bytes.fromhex(self._facts()["salt"])
        except (LookupError, ValueError, TypeError):
            raise RunError(f"the ledger {self.path} has no valid salt; restore it from a backup") from None
        computed = fingerprint(salt)
        with self._transaction():
            self._database.execute("INSERT OR IGNORE INTO facts VALUES ('fingerprint', ?)", (computed,))
            self._database.execute("INSERT OR IGNORE INTO facts VALUES ('unit', ?)", (unit,))
        facts = self._facts()
        if facts.get("fingerprint") != computed:
            raise PrivacyError(
                f"the ledger {self.path} belongs to another dataset; use the ledger of this dataset, or a new file if "
                "it is about other people: for anyone in both datasets the two budgets add up"
            )
        if facts.get("unit") != unit:
            kept = " ".join(str(facts.get("unit", "nothing")).split())[:40]
            raise PrivacyError(
                f"the ledger {self.path} protects each {kept}, not each {unit}; keep the privacy unit the same"
            )

    def releases(self, run: str | None = None) -> tuple[Release, ...]:
        """Return the releases so far, of one run or of all, for the accounting."""
        where, values = ("", ()) if run is None else ("WHERE run = ?", (run,))
        query = f"SELECT sigma, votes_per_unit FROM releases {where} ORDER BY run, round"  # noqa: S608  (constant)
        neighbours = self.budget.neighbours
        with self._usable(), closing(self._database.execute(query, values)) as rows:
            # Corrupt rows must not look cheap: `Release` refuses impossible numbers.
            return tuple(Release(float(sigma), neighbours, int(votes)) for sigma, votes in rows)

    def surveyed(self, run: str) -> int:
        """Return how many of a run's releases are answers to a survey: those before its first round."""
        query = "SELECT count(*) FROM releases WHERE run = ? AND round <= 0"
        with self._usable():
            (count,) = self._database.execute(query, (run,)).fetchone()
        return int(count)

    def secure(self, run: str) -> bool:
        """Whether all noise that this run has used was secure, and nothing of the data was used without any."""
        query = "SELECT min(secure) FROM releases WHERE run = ?"
        with self._usable():
            (least,) = self._database.execute(query, (run,)).fetchone()
        return (least is None or bool(least)) and not self._facts().get(UNPAID + run)

    def total(self, delta: float) -> float:
        """Return the epsilon of all releases ever made; infinite if any of them has no guarantee."""
        with self._usable():
            runs = self._database.execute("SELECT DISTINCT run FROM releases").fetchall()
        return spent(self.releases(), delta) if all(self.secure(run) for (run,) in runs) else math.inf

    def require(self, run: str, planned: Sequence[Release], budget: Budget | None = None) -> None:
        """Refuse a run whose remaining releases would exceed the ledger's budget, or `budget` if given."""
        if self._facts().get(UNPAID + run):
            raise PrivacyError(
                f"an older version has marked run {run} in the ledger {self.path} as NOT PRIVATE: it used private data "
                "without noise; do not publish its output, and start a new run in another folder"
            )
        remaining = tuple(planned)[len(self.releases(run)) :]
        self._check_budget(run, remaining, budget)

    def reserve(self, run: str, planned: Sequence[Release], lock: Path) -> None:
        """Reserve the budget that a run needs for as long as a process holds `lock`, if there is enough.

        Without this, runs that start together would each spend part of the budget, and none could finish.
        """
        alike = itertools.groupby((release.sigma, release.votes_per_unit) for release in planned)
        needs = {"planned": [[len(list(same)), *release] for release, same in alike]}
        with self._transaction():
            self.require(run, planned)
            self._set_facts(**{_UNDER_WAY + run: json.dumps({**needs, "lock": str(lock.absolute())})})

    def _reserved(self, run: str) -> tuple[Release, ...]:
        """Return the releases that other runs in progress have not made yet."""
        needed: list[Release] = []
        for name, value in self._facts().items():
            try:
                other = name.removeprefix(_UNDER_WAY)
                if other in {name, run}:
                    continue
                needs = json.loads(value)
                lock = Path(needs["lock"])
                planned = self._planned(needs)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
                raise RunError(
                    f"the ledger {self.path} has a damaged entry for a run in progress; restore it from a backup"
                ) from None
            if is_locked(lock):
                needed += planned[len(self.releases(other)) :]
        return tuple(needed)

    def _planned(self, needs: dict[str, Any]) -> list[Release]:
        """Return the planned releases of a run in progress, also as older versions wrote them."""
        alike = needs.get("planned") or [[needs["releases"], needs["sigma"], needs["votes_per_unit"]]]
        planned: list[Release] = []
        for count, sigma, votes in alike:
            release = Release(float(sigma), self.budget.neighbours, int(votes))
            planned += [release] * min(int(count), MOST_RELEASES - len(planned))
        return planned

    def stored(self, run: str, turn: int, candidates: str) -> NoisyVotes | None:
        """Return the noisy votes that this run has already paid for in this round, if any."""
        query = "SELECT candidates, votes FROM releases WHERE run = ? AND round = ?"
        with self._usable():
            row = self._database.execute(query, (run, turn)).fetchone()
        if row is None:
            return None
        if row[0] != candidates:
            raise RunError(
                f"round {turn} of run {run} was released for other candidates; restore the candidates of that round "
                "in the run folder, or start a new run"
            )
        with self._usable():
            return np.frombuffer(row[1], dtype="<i8").astype(np.int64)

    def charge(
        self, run: str, turn: int, candidates: str, release: Release, votes: NoisyVotes, *, secure: bool
    ) -> NoisyVotes:
        """Charge a release and store its noisy votes in one atomic step; return the stored votes.

        If another process has released this round of this run in the meantime, its votes are returned. `votes`,
        which nobody has seen, must then be dropped.
        """
        row = (run, turn, release.sigma, release.votes_per_unit, secure, candidates, votes.astype("<i8").tobytes())
        with self._transaction():
            earlier = self.stored(run, turn, candidates)
            if earlier is not None:
                return earlier
            self._check_budget(run, (release,))
            self._database.execute(
                "INSERT INTO releases (run, round, sigma, votes_per_unit, secure, candidates, votes) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        return votes

    def _check_budget(self, run: str, added: Sequence[Release], budget: Budget | None = None) -> None:
        budget, made, kept = budget or self.budget, self.releases(), self._reserved(run)
        if any(release.neighbours != budget.neighbours for release in added):
            raise PrivacyError(
                f"the ledger {self.path} has the neighbouring relation {budget.neighbours!r} and the run another; "
                "use the same for both"
            )
        if added and not budget.allows((*made, *kept, *added)):
            needed, used = (spent(r, budget.delta) for r in ((*made, *kept, *added), made))
            others = f", and {len(kept)} are reserved by another run in progress" if kept else ""
            more = f"{len(added)} more releases" if len(added) > 1 else "one more release"
            earlier = "one release has" if len(made) == 1 else f"{len(made)} releases have"
            raise BudgetError(
                f"{more} would bring the total of the dataset to epsilon {stated(needed)}, above its budget of "
                f"{budget.epsilon:g} at delta {budget.delta:g} ({earlier} used {stated(used)}{others}"
                "); choose a smaller epsilon or fewer rounds, or raise the budget"
            )

    @staticmethod
    def _open_file(path: Path, *, create: bool) -> None:
        if not create and not path.exists():
            raise RunError(f"there is no ledger at {path}; give a budget to create one")
        if not path.parent.is_dir():
            raise RunError(f"the folder {path.parent} of the ledger does not exist; create it first")
        make_private(path)
        refuse_other_database(path, SCHEMA, "a ledger")  # before SQLite writes to it
        if path.stat().st_mode & 0o077:
            raise PrivacyError(f"the ledger {path} is open to other users; run: chmod 600 {path}")

    def _write_first_facts(self, budget: Budget, *, provisional: bool) -> None:
        facts = {
            "format": _FORMAT,
            "id": secrets.token_hex(16),
            "salt": secrets.token_hex(32),
            "epsilon": repr(float(budget.epsilon)),
            "delta": repr(float(budget.delta)),
            "neighbours": budget.neighbours,
            "provisional": "yes" if provisional else "",
        }
        if not self._facts():
            self._set_facts(**facts)

    def _facts(self) -> dict[str, str]:
        with self._usable():
            return dict(self._database.execute("SELECT name, value FROM facts"))

    def _set_facts(self, **facts: str) -> None:
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._usable():
            # IMMEDIATE takes the write lock first, so values read inside cannot change before they are written.
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                # If the disk failed, SQLite has already rolled back, or does so when the file is next opened.
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise RunError(
                f"{self.path} cannot be used as a ledger ({in_one_line(error)}); free some space if the disk is full, "
                "otherwise restore it from a backup, or use another file"
            ) from error


@dataclass(frozen=True)
class Account:
    """The part of a ledger that belongs to one run."""

    ledger: Ledger
    run: str

    def require(self, planned: Sequence[Release]) -> None:
        """Refuse a plan whose remaining releases do not fit the budget."""
        self.ledger.require(self.run, planned)

    def stored(self, turn: int, candidates: str) -> NoisyVotes | None:
        """Return the noisy votes of this round, if they are already paid for."""
        return self.ledger.stored(self.run, turn, candidates)

    def charge(self, turn: int, candidates: str, release: Release, votes: NoisyVotes, *, secure: bool) -> NoisyVotes:
        """Charge and store a release atomically."""
        return self.ledger.charge(self.run, turn, candidates, release, votes, secure=secure)
