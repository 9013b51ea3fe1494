import os
import sqlite3
from contextlib import closing
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np
import pytest

from gape._support.files import locked
from gape.core.errors import BudgetError, InputError, PrivacyError, RunError
from gape.privacy.accounting import Release, noise_scale, spent
from gape.privacy.ledger import Account, Budget, Ledger

BUDGET = Budget(1.0, 1e-6)
FIVE = Release(noise_scale(1.0, 1e-6, 5))  # five of these fit the budget
VOTES = np.array([3, -1, 4], dtype=np.int64)


def charge(ledger: Ledger, run: str, turn: int, release: Release = FIVE) -> np.ndarray:
    return ledger.charge(run, turn, "candidates", release, VOTES, secure=True)


def test_a_ledger_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    Ledger(path, BUDGET).close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(PrivacyError, match="chmod 600"):
        Ledger(path)


def test_what_is_charged_is_stored_and_returned_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", BUDGET)
    assert ledger.stored("a", 1, "candidates") is None
    charge(ledger, "a", 1)
    ledger.close()
    reopened = Ledger(tmp_path / "ledger")
    assert np.array_equal(reopened.stored("a", 1, "candidates"), VOTES)  # type: ignore[arg-type]
    assert reopened.releases() == (FIVE,)
    assert reopened.budget == BUDGET


def test_a_round_is_charged_once_and_later_votes_for_it_are_dropped() -> None:
    ledger = Ledger(":memory:", BUDGET)
    charge(ledger, "a", 1)
    returned = ledger.charge("a", 1, "candidates", FIVE, VOTES + 100, secure=True)
    assert np.array_equal(returned, VOTES)
    assert len(ledger.releases()) == 1


def test_stored_votes_are_refused_for_other_candidates() -> None:
    ledger = Ledger(":memory:", BUDGET)
    charge(ledger, "a", 1)
    with pytest.raises(RunError, match="other candidates"):
        ledger.stored("a", 1, "others")
    with pytest.raises(RunError, match="other candidates"):
        ledger.charge("a", 1, "others", FIVE, VOTES, secure=True)


def test_the_release_that_exceeds_the_budget_is_refused_with_the_figures() -> None:
    ledger = Ledger(":memory:", BUDGET)
    for turn in range(1, 6):
        charge(ledger, "a", turn)
    with pytest.raises(BudgetError, match=r"epsilon 1\.1\d*, above its budget of 1 at delta 1e-06 \(5 releases"):
        charge(ledger, "b", 1)
    assert len(ledger.releases()) == 5


def test_a_run_that_will_exceed_the_budget_is_refused_before_it_starts() -> None:
    ledger = Ledger(":memory:", BUDGET)
    Account(ledger, "a").require((FIVE,) * 5)
    with pytest.raises(BudgetError, match="6 more releases"):
        Account(ledger, "a").require((FIVE,) * 6)


def test_a_resumed_run_needs_budget_only_for_what_it_adds() -> None:
    ledger = Ledger(":memory:", BUDGET)
    for turn in range(1, 4):
        charge(ledger, "a", turn)
    ledger.require("a", (FIVE,) * 5)
    with pytest.raises(BudgetError):
        ledger.require("b", (FIVE,) * 5)
    with pytest.raises(BudgetError):
        ledger.require("a", (FIVE,) * 6)
    ledger.change_budget(epsilon=2.0, delta=1e-6)
    ledger.require("a", (FIVE,) * 6)


def test_runs_with_other_noise_add_up() -> None:
    ledger = Ledger(":memory:", BUDGET)
    coarse = Release(5 * FIVE.sigma)
    charge(ledger, "a", 1)
    charge(ledger, "b", 1, coarse)
    assert set(ledger.releases()) == {FIVE, coarse}
    assert ledger.releases("b") == (coarse,)
    assert spent(ledger.releases(), 1e-6) > spent([FIVE], 1e-6)


def test_no_noise_fits_an_infinite_budget_only() -> None:
    none = Release(0.0)
    with pytest.raises(BudgetError, match="epsilon inf"):
        charge(Ledger(":memory:", BUDGET), "a", 1, none)
    charge(Ledger(":memory:", Budget(float("inf"), 1e-6)), "a", 1, none)


def test_the_budget_cannot_be_set_below_what_is_spent() -> None:
    ledger = Ledger(":memory:", BUDGET)
    charge(ledger, "a", 1)
    with pytest.raises(BudgetError, match="cannot be taken back"):
        ledger.change_budget(epsilon=0.01, delta=1e-6)
    assert ledger.budget == BUDGET


def test_another_budget_for_an_existing_ledger_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger", BUDGET).close()
    Ledger(tmp_path / "ledger", BUDGET).close()
    with pytest.raises(BudgetError, match="change_budget"):
        Ledger(tmp_path / "ledger", Budget(2.0, 1e-6))


def test_a_unit_that_was_overwritten_is_refused_in_one_sentence() -> None:
    ledger = Ledger(":memory:", BUDGET)
    ledger.bind(lambda _: "one", "record")
    ledger._database.execute("UPDATE facts SET value = ? WHERE name = 'unit'", (b"\x00re\ncord",))
    with pytest.raises(PrivacyError, match=r"protects each .*, not each record"):
        ledger.bind(lambda _: "one", "record")


def test_a_ledger_belongs_to_one_dataset_and_one_unit() -> None:
    ledger = Ledger(":memory:", BUDGET)
    ledger.bind(lambda salt: f"one {salt.hex()}", "record")
    ledger.bind(lambda salt: f"one {salt.hex()}", "record")
    with pytest.raises(PrivacyError, match="another dataset"):
        ledger.bind(lambda salt: f"two {salt.hex()}", "record")
    with pytest.raises(PrivacyError, match="protects each record, not each user"):
        ledger.bind(lambda salt: f"one {salt.hex()}", "user")


def test_two_ledgers_of_one_dataset_cannot_be_linked(tmp_path: Path) -> None:
    salts = []
    for name in "ab":
        Ledger(tmp_path / name, BUDGET).bind(lambda salt: salts.append(salt) or salt.hex(), "record")  # type: ignore[func-returns-value]
    assert salts[0] != salts[1]
    assert min(map(len, salts)) == 32


def test_neighbours_must_be_those_of_the_ledger() -> None:
    ledger = Ledger(":memory:", BUDGET)
    with pytest.raises(PrivacyError, match="'replace'"):
        charge(ledger, "a", 1, Release(100.0, "add_remove"))


def test_missing_foreign_or_unreachable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no ledger"):
        Ledger(tmp_path / "none")
    with pytest.raises(RunError, match="does not exist"):
        Ledger(tmp_path / "no" / "folder", BUDGET)
    foreign = tmp_path / "foreign"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        database.execute("INSERT INTO facts VALUES ('something', 'else')")
    database.close()
    foreign.chmod(0o600)
    with pytest.raises(RunError, match="not a ledger"):
        Ledger(foreign)


@pytest.mark.parametrize("bad", [(0.0, 1e-6), (-1.0, 1e-6), (float("nan"), 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_impossible_budgets_are_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(InputError):
        Budget(*bad)


def _race(path: Path, run: str, barrier: object, granted: object) -> None:
    ledger = Ledger(path)
    barrier.wait()  # type: ignore[attr-defined]
    try:
        charge(ledger, run, 1)
    except BudgetError:
        return
    granted.put(run)  # type: ignore[attr-defined]


def test_eight_processes_racing_for_five_releases_get_five(tmp_path: Path, processes: ForkServerContext) -> None:
    path = tmp_path / "ledger"
    Ledger(path, BUDGET).close()
    barrier, granted = processes.Barrier(8), processes.Queue()
    racers = [processes.Process(target=_race, args=(path, f"run {i}", barrier, granted)) for i in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(120)
    assert [racer.exitcode for racer in racers] == [0] * 8
    winners = {granted.get(timeout=10) for _ in range(5)}
    assert granted.empty()
    ledger = Ledger(path)
    assert len(winners) == 5
    assert len(ledger.releases()) == 5
    assert spent(ledger.releases(), 1e-6) <= 1.0


@pytest.mark.parametrize("value", ["", "[]", "{}", '{"lock": 3}', '{"lock": "x", "releases": "a"}', "[" * 10**5])
def test_a_ledger_that_says_nonsense_of_another_run_is_refused(tmp_path: Path, value: str) -> None:
    ledger = Ledger(tmp_path / "ledger", Budget(1.0, 1e-6))
    with closing(sqlite3.connect(tmp_path / "ledger")) as database, database:
        database.execute("INSERT INTO facts VALUES ('under way: run other', ?)", (value,))
    with pytest.raises(RunError, match="has a damaged entry for a run in progress"):
        ledger.require("mine", [Release(100.0)])


def test_a_ledger_with_a_fact_without_a_name_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", Budget(1.0, 1e-6))
    with closing(sqlite3.connect(tmp_path / "ledger")) as database, database:
        database.execute("INSERT INTO facts VALUES (NULL, '{}')")
    with pytest.raises(RunError, match="has a damaged entry for a run in progress"):
        ledger.require("mine", [Release(100.0)])


def test_what_a_process_does_not_hold_is_not_kept_from_others(tmp_path: Path) -> None:
    ledger, planned = Ledger(tmp_path / "ledger", Budget(1.0, 1e-6)), [Release(noise_scale(1.0, 1e-6, 1))]
    lock = tmp_path / "lock"
    with locked(lock, tmp_path):
        ledger.reserve("one", planned, lock)
        ledger.require("one", planned)
        with pytest.raises(BudgetError, match=r"one more release would bring .* and 1 are reserved by another run in"):
            ledger.require("two", planned)
    ledger.require("two", planned)
    os.mkfifo(tmp_path / "pipe")
    ledger.reserve("three", planned, tmp_path / "pipe")  # nobody waits for a pipe
    ledger.require("two", planned)
