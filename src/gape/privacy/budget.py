"""Which budget a dataset gets, and when it changes. This is the only place that decides it; the ledger enforces it.

The owner of the data sets a budget, for all runs together, or leaves it open. Left open, it is what the first run
needs: provisionally, until that run has released something, because a run that failed before has decided nothing.
From then on only the owner changes it.

The ledger checks every release in the transaction that charges it. Earlier checks only refuse a run that could not
finish, before it costs anything: here, before private data is embedded; in `run`, before anything is written, because
embedding can take hours in which other runs spend; when the ledger reserves the budget, atomically, so that of several
runs one wins; and in `evolve`, which can be called without the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gape.core.errors import BudgetError
from gape.privacy.accounting import Release
from gape.privacy.ledger import Budget, Ledger


@dataclass(frozen=True)
class BudgetRequest:
    """What a run asks of the budget of its data."""

    needed: Budget  # by this run alone
    granted: float | None = None  # epsilon that the owner sets for all runs together; None: left open

    @property
    def first(self) -> Budget:
        """The budget of a dataset that has none yet."""
        return self.needed if self.granted is None else replace(self.needed, epsilon=self.granted)

    def after(self, current: Budget, *, provisional: bool) -> Budget:
        """Return the budget that follows the current one. The neighbouring relation of a ledger never changes."""
        if self.granted is not None:
            return replace(current, epsilon=self.granted)
        return replace(self.needed, neighbours=current.neighbours) if provisional else current


def settle_budget(ledger: Ledger, request: BudgetRequest, run: str, planned: Sequence[Release]) -> None:
    """Give the ledger the budget that a run asks for, if all its planned releases fit; otherwise change nothing.

    `run` is the name of the run in the ledger, or empty if it has none yet.
    """
    current, provisional = ledger.budget, ledger.provisional
    wanted = request.after(current, provisional=provisional)
    try:
        ledger.require(run, planned, wanted)
    except BudgetError as error:
        raise BudgetError(
            f"{error} with budget_epsilon (--budget-epsilon), which covers all runs on the data together"
        ) from None
    left_open = request.granted is None
    if wanted != current or (provisional and not left_open):
        ledger.change_budget(epsilon=wanted.epsilon, delta=wanted.delta, provisional=left_open)
