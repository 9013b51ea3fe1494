"""The game of the audit: canaries are in or out of the data, and votes pass through the release step of a real run.

Many canaries share a release. Each is a privacy unit with its own candidates, which nobody else votes for. That is the
worst case for it: its vote is the difference between a count of 0 and of 1. A fair coin decides for each canary whether
it is in. So for each canary, whatever the coins of the others, the release is that of one of two neighbouring datasets.
By the Neyman-Pearson lemma, the best statistic of the T rounds for one canary is the sum of its own noisy counts.

The canaries of one release count as independent trials, because each count gets its own noise; `checks` verifies that.
Steinke, Nasr & Jagielski (2023) need no such independence, but at a delta above 0 their bound loses 2 delta for each
canary over the margin of right guesses, which leaves little at the confidence required here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gape.core.protocols import Electorate
from gape.core.types import Counts, Indices, NoisyVotes, Points
from gape.evolution.plan import Plan
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import Noise
from gape.privacy.release import release_votes
from gape.voting.electorate import LocalElectorate

ElectorateMaker = Callable[..., Electorate]  # with the arguments of `LocalElectorate`
Coins = NDArray[np.bool_]  # (canaries,)

_BINS = 1_000  # approximate number of candidates per release: with more, each costs no less


@dataclass(frozen=True)
class Entries:
    """The state of the ledger after one run of a game."""

    charged: bool  # all releases, as planned
    repeated: bool  # the last round, requested again, was the same
    secure: bool


@dataclass(frozen=True)
class Game:
    """Canaries for a plan, and the candidates that they vote for. A record that is always present votes for the last.

    Candidates are points on a line. A record is in the middle of the `votes_per_record` candidates that it votes for.
    """

    plan: Plan
    canaries: int
    make: ElectorateMaker = LocalElectorate

    @classmethod
    def of(cls, plan: Plan, make: ElectorateMaker = LocalElectorate) -> Game:
        """Return a game with as many canaries as one release should have."""
        return cls(plan, max(1, _BINS // _bins_each(plan)), make)

    @property
    def candidates(self) -> Points:
        """Points on a line, (v, 1)."""
        return np.arange(self.canaries * self.width + self.plan.votes_per_record, dtype=np.float32)[:, None]

    def electorate(self, coins: Coins) -> Electorate:
        """Return the dataset with the canaries whose coin shows heads."""
        first = self._chosen(coins)[:, :: self.plan.votes_per_record]  # first candidate of each record
        points = middles(np.append(first.ravel(), self.canaries * self.width), self.plan.votes_per_record)
        if first.shape[1] == 1:
            return self.make(points, **votes_of(self.plan))
        owners = np.append(np.repeat(np.arange(len(first)), first.shape[1]), len(first))
        return self.make(points, units=owners.tolist(), **votes_of(self.plan))

    def exact(self, coins: Coins) -> Counts:
        """Return the counts of each round without noise, by construction instead of counting."""
        last = self.plan.votes_per_record
        counts = np.zeros(self.canaries * self.width + last, dtype=np.int64)
        counts[self._chosen(coins)] = 1
        counts[-last:] = 1
        return counts

    def play(self, coins: Coins, noise: Noise | None = None) -> tuple[NoisyVotes, Entries]:
        """Return the noisy votes of all rounds, (T, v), released as in a real run, with its noise unless given.

        The ledger has an infinite budget, because the audit tests the noise and not the budget.
        """
        plan, electorate, points = self.plan, self.electorate(coins), self.candidates
        with closing(Ledger(":memory:", Budget(math.inf, plan.delta, plan.neighbours))) as ledger:
            account = Account(ledger, "audit")
            rounds = range(1, plan.rounds + 1)
            votes = [release_votes(electorate, points, turn, plan.release, account, noise) for turn in rounds]
            again = release_votes(electorate, points, plan.rounds, plan.release, account, noise)
            entries = Entries(
                charged=ledger.releases("audit") == plan.releases,
                repeated=bool(np.array_equal(again, votes[-1])),
                secure=ledger.secure("audit"),
            )
        return np.stack(votes), entries

    def scores(self, votes: NoisyVotes) -> Indices:
        """Return a score per canary from the rounds, (T, v): counts of its candidates if in, minus those if out."""
        sums = votes.sum(axis=0)[: -self.plan.votes_per_record].reshape(self.canaries, self.width)
        most = self.plan.votes_per_unit
        scores: Indices = sums[:, :most].sum(axis=1) - sums[:, most:].sum(axis=1)
        return scores

    @property
    def width(self) -> int:
        """Number of candidates per canary: for its votes if it is in and, if it is replaced, for those if it is out."""
        return _bins_each(self.plan)

    def _chosen(self, coins: Coins) -> Indices:
        """Return the candidates that the units vote for, (units, votes)."""
        starts = np.arange(self.canaries) * self.width
        if self.plan.neighbours == "add_remove":
            starts = starts[coins]
        else:
            starts = starts + np.where(coins, 0, self.plan.votes_per_unit)
        chosen: Indices = starts[:, None] + np.arange(self.plan.votes_per_unit)
        return chosen


def middles(first: Indices, count: int) -> Points:
    """Return points, (n, 1), whose `count` nearest whole numbers are those from `first`, (n,), on."""
    return (first + (count - 1) / 2).astype(np.float32)[:, None]


def votes_of(plan: Plan) -> dict[str, int]:
    """Return the arguments of an electorate for the votes of a plan."""
    return {"votes_per_unit": plan.votes_per_unit, "votes_per_record": plan.votes_per_record}


def _bins_each(plan: Plan) -> int:
    # Not taken from the accounting, whose mistakes the audit should find.
    return plan.votes_per_unit * (2 if plan.neighbours == "replace" else 1)
