"""Which budget a dataset gets, and when it changes."""

from pathlib import Path

import numpy as np
import pytest

from gape.core.errors import BudgetError, PrivacyError
from gape.privacy.accounting import Release, noise_scale
from gape.privacy.budget import BudgetRequest, settle_budget
from gape.privacy.ledger import Budget, Ledger

DELTA = 1e-5
ROUNDS = 3


def planned(epsilon: float) -> tuple[Release, ...]:
    return (Release(noise_scale(epsilon, DELTA, ROUNDS)),) * ROUNDS


def request(epsilon: float, granted: float | None = None, delta: float = DELTA) -> BudgetRequest:
    return BudgetRequest(Budget(epsilon, delta), granted)


def opened(path: Path, asked: BudgetRequest) -> Ledger:
    return Ledger(path / "ledger.sqlite", asked.first, keep=True)


def settled(path: Path, epsilon: float, granted: float | None = None) -> Ledger:
    """The ledger after a run has asked for its budget, whether it then releases anything or not."""
    asked = request(epsilon, granted)
    ledger = opened(path, asked)
    settle_budget(ledger, asked, "", planned(epsilon))
    return ledger


def release(ledger: Ledger, run: str, epsilon: float, rounds: int = 1) -> None:
    for turn in range(1, rounds + 1):
        ledger.charge(run, turn, "digest", planned(epsilon)[0], np.array([1, 2]), secure=True)


def test_left_open_it_is_what_the_first_run_needs(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0)
    assert ledger.budget == Budget(2.0, DELTA)
    assert ledger.provisional


def test_a_run_that_released_nothing_decides_nothing(tmp_path: Path) -> None:
    settled(tmp_path, 2.0).close()
    ledger = settled(tmp_path, 5.0)
    assert ledger.budget.epsilon == 5.0
    assert ledger.provisional


def test_once_something_is_released_it_stays(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0)
    release(ledger, "first", 2.0)
    settle_budget(ledger, request(2.0), "first", planned(2.0))  # the same run, resumed
    assert ledger.budget.epsilon == 2.0
    with pytest.raises(
        BudgetError, match=r"with budget_epsilon \(--budget-epsilon\), which covers all runs on the data together"
    ):
        settle_budget(ledger, request(5.0), "", planned(5.0))
    assert ledger.budget == Budget(2.0, DELTA)


def test_the_owner_raises_it_for_a_second_run(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0)
    release(ledger, "first", 2.0, ROUNDS)
    settle_budget(ledger, request(2.0, granted=4.0), "", planned(2.0))
    assert ledger.budget.epsilon == 4.0
    assert not ledger.provisional


def test_what_the_owner_sets_is_not_provisional_even_before_the_first_release(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0, granted=2.0)
    assert not ledger.provisional
    with pytest.raises(BudgetError):
        settle_budget(ledger, request(3.0), "", planned(3.0))
    assert ledger.budget.epsilon == 2.0


def test_a_budget_that_was_open_is_settled_by_the_same_number(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0)
    settle_budget(ledger, request(2.0, granted=2.0), "", planned(2.0))
    assert not ledger.provisional


def test_a_run_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0)
    with pytest.raises(BudgetError):
        settle_budget(ledger, request(5.0, granted=3.0), "", planned(5.0))
    assert ledger.budget.epsilon == 2.0
    assert ledger.provisional


def test_the_owner_cannot_set_less_than_is_spent(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 4.0)
    release(ledger, "first", 4.0, ROUNDS)
    with pytest.raises(BudgetError):
        settle_budget(ledger, request(0.5, granted=1.0), "", planned(0.5))
    assert ledger.budget.epsilon == 4.0


def test_the_neighbouring_relation_never_changes(tmp_path: Path) -> None:
    ledger = settled(tmp_path, 2.0)
    sigma = noise_scale(2.0, DELTA, ROUNDS, neighbours="add_remove")
    asked = BudgetRequest(Budget(2.0, DELTA, "add_remove"))
    with pytest.raises(PrivacyError, match="neighbouring relation"):
        settle_budget(ledger, asked, "", (Release(sigma, "add_remove"),) * ROUNDS)
    assert ledger.budget.neighbours == "replace"
