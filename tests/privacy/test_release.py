from dataclasses import dataclass, field

import numpy as np
import pytest

from gape.core.errors import BudgetError, InputError, PrivacyError, RunError
from gape.core.types import Counts, Points
from gape.privacy.accounting import Release, noise_scale
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.release import release_votes

RELEASE = Release(noise_scale(1.0, 1e-6, 2))
CANDIDATES = np.eye(4, 3, dtype=np.float32)
EXACT = np.array([70_001, 60_002, 50_003, 40_004], dtype=np.int64)


@dataclass
class FixedElectorate:
    """Returns given counts, and remembers how often it was asked."""

    counts: Counts = field(default_factory=EXACT.copy)
    dimension: int = 3
    votes_per_unit: int = 1
    unit: str = "record"
    asked: int = 0

    def fingerprint(self, salt: bytes) -> str:
        return salt.hex()

    def count(self, candidates: Points, turn: int) -> Counts:
        self.asked += 1
        return self.counts


def account(budget: Budget | None = None) -> Account:
    return Account(Ledger(":memory:", budget or Budget(1.0, 1e-6)), "run")


def test_the_release_is_noisy_charged_and_stored() -> None:
    electorate, bank = FixedElectorate(), account()
    votes = release_votes(electorate, CANDIDATES, 1, RELEASE, bank)
    assert not np.array_equal(votes, EXACT)
    assert np.abs(votes - EXACT).max() < 20 * RELEASE.sigma
    assert bank.ledger.releases() == (RELEASE,)
    assert np.array_equal(electorate.counts, EXACT)


def test_candidates_are_the_same_by_what_they_are_known_as() -> None:
    electorate, bank = FixedElectorate(), account()
    first = release_votes(electorate, CANDIDATES, 1, RELEASE, bank, None, "these")
    again = release_votes(electorate, CANDIDATES * np.float32(1 + 2**-20), 1, RELEASE, bank, None, "these")
    assert np.array_equal(first, again)
    assert electorate.asked == 1
    with pytest.raises(RunError, match="was released for other candidates"):
        release_votes(electorate, CANDIDATES, 1, RELEASE, bank, None, "those")


def test_a_round_that_was_paid_for_is_not_drawn_again() -> None:
    electorate, bank = FixedElectorate(), account()
    first = release_votes(electorate, CANDIDATES, 1, RELEASE, bank)
    again = release_votes(electorate, CANDIDATES, 1, RELEASE, bank)
    assert np.array_equal(first, again)
    assert electorate.asked == 1
    assert len(bank.ledger.releases()) == 1


def test_a_release_beyond_the_budget_never_reaches_the_private_data() -> None:
    electorate, bank = FixedElectorate(), account()
    for turn in (1, 2):
        release_votes(electorate, CANDIDATES, turn, RELEASE, bank)
    with pytest.raises(BudgetError):
        release_votes(electorate, CANDIDATES, 3, RELEASE, bank)
    assert electorate.asked == 2


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (np.full((4, 3), np.nan, dtype=np.float32), "NaN"),
        (np.full((4, 3), np.inf, dtype=np.float32), "infinite"),
        (np.zeros((0, 3), dtype=np.float32), "empty"),
        (np.zeros((4, 2), dtype=np.float32), "2 dimensions"),
        (np.zeros(4, dtype=np.float32), "2-D"),
    ],
)
def test_unusable_candidates_cost_nothing(candidates: Points, message: str) -> None:
    electorate, bank = FixedElectorate(), account()
    with pytest.raises(InputError, match=message):
        release_votes(electorate, candidates, 1, RELEASE, bank)
    assert electorate.asked == 0
    assert bank.ledger.releases() == ()


@pytest.mark.parametrize("bad", [EXACT[:3], -EXACT, EXACT.astype(np.float64)], ids=["shape", "sign", "dtype"])
def test_counts_that_cannot_be_are_refused_without_being_shown(bad: Counts) -> None:
    bank = account()
    with pytest.raises(PrivacyError) as caught:
        release_votes(FixedElectorate(counts=bad), CANDIDATES, 1, RELEASE, bank)
    assert not any(str(abs(int(count))) in str(caught.value) for count in bad)
    assert bank.ledger.releases() == ()


def test_more_votes_per_unit_than_accounted_for_are_refused() -> None:
    with pytest.raises(PrivacyError, match="accounts for 1 votes per record, but 2"):
        release_votes(FixedElectorate(votes_per_unit=2), CANDIDATES, 1, RELEASE, account())


def test_without_noise_the_votes_are_exact_and_the_ledger_knows() -> None:
    bank = account(Budget(float("inf"), 1e-6))
    votes = release_votes(FixedElectorate(), CANDIDATES, 1, Release(0.0), bank)
    assert np.array_equal(votes, EXACT)
    assert bank.ledger.releases() == (Release(0.0),)
