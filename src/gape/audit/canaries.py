"""The game of the audit: canaries are in or out of the data, and votes pass through the release step of a real run.

Many canaries share a release. Each is a privacy unit with its own candidates, which nobody else votes for. That is the
worst case for it: its vote is the difference between a count of 0 and of 1. If the plan has a survey, its answers are
alone in their bins, too. A fair coin decides for each canary whether it is in. So for each canary, whatever the coins
of the others, the release is that of one of two neighbouring datasets.
By the Neyman-Pearson lemma, the best statistic of all releases for one canary is the sum of its own noisy counts.

The canaries of one release count as independent trials, because each count gets its own noise; `checks` verifies that.
Steinke, Nasr & Jagielski (2023) need no such independence, but at a delta above 0 their bound loses 2 delta for each
canary over the margin of right guesses, which leaves little at the confidence required here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape.core.protocols import Electorate
from gape.core.types import Counts, Indices, NoisyVotes, Points, Samples, as_samples
from gape.evolution.plan import Plan
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import Noise
from gape.privacy.release import release_answers, release_votes
from gape.voting.electorate import LocalElectorate

ElectorateMaker = Callable[..., Electorate]  # with the arguments of `LocalElectorate`
Coins = NDArray[np.bool_]  # (canaries,)

_BINS = 1_000  # approximate number of candidates per release: with more, each costs no less


@dataclass(frozen=True)
class Entries:
    """The state of the ledger after one run of a game."""

    charged: bool  # all releases, as planned
    repeated: bool  # the last release, requested again, was the same
    secure: bool


@dataclass(frozen=True)
class CanaryQuestions:
    """A release of a survey in which the answers of a record are `per_record` bins in a row. A record is the first."""

    per_record: int
    bins: int

    @property
    def digest(self) -> str:
        """Identify the questions."""
        return f"canaries {self.per_record} {self.bins}"

    def encode(self, content: Samples | None, points: Points) -> Indices:  # noqa: ARG002  (the content tells)
        """Return the first bin of each record, (n,)."""
        return np.array([int(sample) for sample in (content if content is not None else ())], dtype=np.int64)

    def tally(self, encoded: Indices) -> Counts:
        """Count the answers, (bins,)."""
        return np.bincount(_from(encoded, self.per_record).ravel(), minlength=self.bins).astype(np.int64)


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
        return np.arange(self._bins, dtype=np.float32)[:, None]

    def electorate(self, coins: Coins) -> Electorate:
        """Return the dataset with the canaries whose coin shows heads."""
        starts = self._starts(coins)
        votes = _from(starts[:-1], self.plan.votes_per_unit)
        first = votes[:, :: self.plan.votes_per_record]  # first candidate of each record
        points = middles(np.append(first.ravel(), starts[-1]), self.plan.votes_per_record)
        owners = np.append(np.repeat(np.arange(len(first)), first.shape[1]), len(first))
        parts: dict[str, Any] = votes_of(self.plan)
        if first.shape[1] > 1:
            parts["units"] = owners.tolist()
        if self.plan.answers:
            parts["content"] = as_samples([str(starts[owner]) for owner in owners])
        return self.make(points, **parts)

    def exact(self, coins: Coins) -> Counts:
        """Return the counts of each release without noise, (releases, v), by construction instead of counting."""
        starts, plan = self._starts(coins), self.plan
        counts = np.zeros((len(plan.releases), self._bins), dtype=np.int64)
        for number, count in enumerate((*plan.answers, *[plan.votes_per_unit] * plan.rounds)):
            counts[number, _from(starts[:-1], count)] = 1
            last = count if number < len(plan.answers) else plan.votes_per_record
            counts[number, starts[-1] + np.arange(last)] = 1
        return counts

    def play(self, coins: Coins, noise: Noise | None = None) -> tuple[NoisyVotes, Entries]:
        """Return the noisy counts of all releases, (releases, v), made as in a real run, with its noise unless given.

        The ledger has an infinite budget, because the audit tests the noise and not the budget.
        """
        plan, electorate, points = self.plan, self.electorate(coins), self.candidates
        with closing(Ledger(":memory:", Budget(math.inf, plan.delta, plan.neighbours))) as ledger:
            account = Account(ledger, "audit")

            def released(turn: int) -> NoisyVotes:
                if turn > 0:
                    return release_votes(electorate, points, turn, plan.release, account, noise, before=plan.survey)
                survey = plan.survey[: len(plan.survey) + turn]
                questions = CanaryQuestions(survey[-1].votes_per_unit, self._bins)
                return release_answers(electorate, questions, turn, survey, account, noise)

            votes = [released(turn) for turn in range(1 - len(plan.answers), plan.rounds + 1)]
            again = released(plan.rounds)
            entries = Entries(
                charged=ledger.releases("audit") == plan.releases,
                repeated=bool(np.array_equal(again, votes[-1])),
                secure=ledger.secure("audit"),
            )
        return np.stack(votes), entries

    def scores(self, votes: NoisyVotes) -> Indices:
        """Return a score per canary from all releases, (releases, v): its counts if in, minus those if out."""
        plan, most = self.plan, _most(self.plan)
        scores = np.zeros(self.canaries, dtype=votes.dtype)
        for number, count in enumerate((*plan.answers, *[plan.votes_per_unit] * plan.rounds)):
            own = votes[number, : self.canaries * self.width].reshape(self.canaries, self.width)
            scores += own[:, :count].sum(axis=1) - own[:, most : most + count].sum(axis=1)
        return scores

    @property
    def width(self) -> int:
        """Number of bins per canary: for its votes if it is in and, if it is replaced, for those if it is out."""
        return _bins_each(self.plan)

    @property
    def shifts(self) -> int:
        """Number of counts that one canary moves by one, over all releases."""
        return self.plan.counted * self.width // _most(self.plan)

    @property
    def _bins(self) -> int:
        return self.canaries * self.width + max(self.plan.votes_per_record, *self.plan.answers, 1)

    def _starts(self, coins: Coins) -> Indices:
        """Return the first bin of each unit, (units + 1,). The last is that of the record that is always present."""
        starts = np.arange(self.canaries) * self.width
        here = starts[coins] if self.plan.neighbours == "add_remove" else starts + np.where(coins, 0, _most(self.plan))
        return np.append(here, self.canaries * self.width)


def middles(first: Indices, count: int) -> Points:
    """Return points, (n, 1), whose `count` nearest whole numbers are those from `first`, (n,), on."""
    return (first + (count - 1) / 2).astype(np.float32)[:, None]


def votes_of(plan: Plan) -> dict[str, int]:
    """Return the arguments of an electorate for the votes of a plan."""
    return {"votes_per_unit": plan.votes_per_unit, "votes_per_record": plan.votes_per_record}


def _from(starts: Indices, count: int) -> Indices:
    """Return `count` bins from each start on, (n, count)."""
    bins: Indices = starts[:, None] + np.arange(count)
    return bins


def _most(plan: Plan) -> int:
    """Return the largest number of counts that a unit adds to in one release."""
    return max((*plan.answers, *([plan.votes_per_unit] if plan.rounds else [])))


def _bins_each(plan: Plan) -> int:
    # Not taken from the accounting, whose mistakes the audit should find.
    return _most(plan) * (2 if plan.neighbours == "replace" else 1)
