"""The game that the audit plays: canaries in or out, through the release step of a real run.

Many canaries share a release. Each is a privacy unit with candidates of its own, which nobody else votes for, the worst
case for it: its vote is the difference between a count of 0 and of 1. A fair coin decides for each canary whether it is
in, so that for each of them, whatever the coins of the others, the release is one of two neighbouring datasets. What
its T rounds give away about it is the sum of its own noisy counts, by the theorem of Neyman and Pearson.

The canaries of one release are counted as independent trials, since every count gets noise of its own; `checks` looks
whether it does. Steinke, Nasr & Jagielski (2023) need no such independence, but at a delta above 0 their bound loses 2
delta for every canary over the margin of right guesses, which leaves little at the confidence wanted here.
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

ElectorateMaker = Callable[..., Electorate]  # takes what `LocalElectorate` takes
Coins = NDArray[np.bool_]  # (canaries,)

_BINS = 1_000  # candidates of a release, about: more of them cost no less each


@dataclass(frozen=True)
class Entries:
    """What one run of a game left in its ledger."""

    charged: bool  # every release, as planned
    repeated: bool  # the last round, asked for again, was the same
    secure: bool


@dataclass(frozen=True)
class Game:
    """Canaries for a plan, and the candidates that they vote for; a record that is always there votes for the last.

    Candidates are points on a line. A record stands in the middle of the `votes_per_record` that it votes for.
    """

    plan: Plan
    canaries: int
    make: ElectorateMaker = LocalElectorate

    @classmethod
    def of(cls, plan: Plan, make: ElectorateMaker = LocalElectorate) -> Game:
        """Take as many canaries as one release should have."""
        return cls(plan, max(1, _BINS // _bins_each(plan)), make)

    @property
    def candidates(self) -> Points:
        """Points on a line, (v, 1)."""
        return np.arange(self.canaries * self.width + self.plan.votes_per_record, dtype=np.float32)[:, None]

    def electorate(self, coins: Coins) -> Electorate:
        """Return the dataset in which the canaries whose coin shows heads are in."""
        first = self._places(coins)[:, :: self.plan.votes_per_record]  # candidates of every record
        points = middles(np.append(first.ravel(), self.canaries * self.width), self.plan.votes_per_record)
        if first.shape[1] == 1:
            return self.make(points, **votes_of(self.plan))
        owners = np.append(np.repeat(np.arange(len(first)), first.shape[1]), len(first))
        return self.make(points, units=owners.tolist(), **votes_of(self.plan))

    def exact(self, coins: Coins) -> Counts:
        """Return what the counts must be without noise, in every round: by construction, not by counting."""
        each = self.plan.votes_per_record
        counts = np.zeros(self.canaries * self.width + each, dtype=np.int64)
        counts[self._places(coins)] = 1
        counts[-each:] = 1
        return counts

    def play(self, coins: Coins, noise: Noise | None = None) -> tuple[NoisyVotes, Entries]:
        """Return the noisy votes of all rounds, (T, v), released as in a real run, by its noise unless told otherwise.

        The ledger has room for anything: what is to be seen is what the noise hides, not what the budget refuses.
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
        """Sum what the rounds, (T, v), say for each canary: counts of its candidates if in, less those if out."""
        mine = votes.sum(axis=0)[: -self.plan.votes_per_record].reshape(self.canaries, self.width)
        most = self.plan.votes_per_unit
        scores: Indices = mine[:, :most].sum(axis=1) - mine[:, most:].sum(axis=1)
        return scores

    @property
    def width(self) -> int:
        """Candidates of one canary: those of its votes if it is in and, where it is replaced, those if it is out."""
        return _bins_each(self.plan)

    def _places(self, coins: Coins) -> Indices:
        """Candidates that the units vote for, (units, votes)."""
        starts = np.arange(self.canaries) * self.width
        if self.plan.neighbours == "add_remove":
            starts = starts[coins]
        else:
            starts = starts + np.where(coins, 0, self.plan.votes_per_unit)
        places: Indices = starts[:, None] + np.arange(self.plan.votes_per_unit)
        return places


def middles(first: Indices, each: int) -> Points:
    """Return points, (n, 1), whose `each` nearest whole numbers are those from `first`, (n,), on."""
    return (first + (each - 1) / 2).astype(np.float32)[:, None]


def votes_of(plan: Plan) -> dict[str, int]:
    """What an electorate is told of the votes of a plan."""
    return {"votes_per_unit": plan.votes_per_unit, "votes_per_record": plan.votes_per_record}


def _bins_each(plan: Plan) -> int:
    # Not taken from the accounting, whose mistakes are to be found.
    return plan.votes_per_unit * (2 if plan.neighbours == "replace" else 1)
