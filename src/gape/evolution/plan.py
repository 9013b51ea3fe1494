"""The public parameters of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gape.core.errors import InputError
from gape.privacy.accounting import Neighbours, Release, noise_scale, spent
from gape.privacy.ledger import MOST_RELEASES


@dataclass(frozen=True)
class Plan:
    """The parameters of a run: all public, and everything that its privacy depends on.

    `sigma` is derived from epsilon, delta, neighbours and the counts per unit unless it is given. In each round
    every one of the `samples` gets `copies` variations at each of the `scales` (the paper's s^2), and with `keep` it
    stays a candidate itself. A record votes for its `votes_per_record` nearest candidates, and a privacy unit casts at
    most `votes_per_unit` votes in total. Without `vary_start` the initial samples themselves are the candidates of the
    first round, so `initial` should then be as large as the number of candidates of a round. With a survey there may be
    no rounds: the samples are then those that the survey leads to.
    """

    epsilon: float
    delta: float
    rounds: int  # T
    samples: int  # m
    scales: tuple[float, ...] = (1.0,)
    copies: int = 1
    keep: bool = True
    initial: int = 0  # size of S(0); 0 means `samples`
    vary_start: bool = True  # if False, the first round votes on S(0) itself
    neighbours: Neighbours = "replace"
    votes_per_unit: int = 1
    votes_per_record: int = 1
    seed: int = 0
    sigma: float = -1.0  # -1 means the value that `noise_scale` returns
    answers: tuple[int, ...] = ()  # per unit, to each release of a survey before the first round

    def __post_init__(self) -> None:
        if self.rounds > MOST_RELEASES:
            raise InputError(f"rounds must be at most {MOST_RELEASES:,}, got {self.rounds}; use fewer rounds")
        for name in ("rounds", "samples", "copies", "votes_per_unit", "votes_per_record"):
            value, least = getattr(self, name), int(name != "rounds" or not self.answers)
            if value != int(value) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value}; use {least} or more")
        if any(answers != int(answers) or answers < 1 for answers in self.answers):
            raise InputError(f"answers must be whole numbers of at least 1, got {self.answers}; leave out the others")
        if self.votes_per_unit % self.votes_per_record:
            raise InputError(
                f"votes_per_unit must be a multiple of votes_per_record, {self.votes_per_record}, got "
                f"{self.votes_per_unit}; use {self.votes_per_record} times the records per unit that may vote"
            )
        if not self.scales or not all(scale > 0 and math.isfinite(scale) for scale in self.scales):
            raise InputError(f"scales must be one or more positive numbers, got {self.scales}; the default is (1.0,)")
        if self.initial < 0 or self.seed < 0:
            raise InputError(f"initial and seed must be at least 0, got {self.initial} and {self.seed}; use 0 or more")
        for name in ("epsilon", "delta", "sigma"):
            object.__setattr__(self, name, float(getattr(self, name)))  # numpy's scalars do not write as JSON
        object.__setattr__(self, "scales", tuple(float(scale) for scale in self.scales))
        object.__setattr__(self, "answers", tuple(int(answers) for answers in self.answers))
        object.__setattr__(self, "initial", self.initial or self.samples)
        if self.sigma < 0:
            sigma = noise_scale(
                self.epsilon,
                self.delta,
                1 if self.answers else self.rounds,
                neighbours=self.neighbours,
                votes_per_unit=self.counted if self.answers else self.votes_per_unit,
            )
            object.__setattr__(self, "sigma", sigma)

    @property
    def release(self) -> Release:
        """The release of one round."""
        return Release(self.sigma, self.neighbours, self.votes_per_unit)

    @property
    def survey(self) -> tuple[Release, ...]:
        """The releases of the survey, before the first round."""
        return tuple(Release(self.sigma, self.neighbours, answers) for answers in self.answers)

    @property
    def by_survey(self) -> bool:
        """Whether a survey alone decides: the samples are those it leads to, and there are no rounds."""
        return bool(self.answers) and not self.rounds

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases of the run, in their order."""
        return (*self.survey, *(self.release,) * self.rounds)

    @property
    def counted(self) -> int:
        """The largest number of counts that one unit adds to, over all releases. All of them have the same noise."""
        return sum(self.answers) + self.rounds * self.votes_per_unit

    @property
    def candidates(self) -> int:
        """Upper bound on the candidates of a round (the paper's m_V)."""
        per_sample = int(self.keep) + len(self.scales) * self.copies
        return max(self.samples * per_sample, self.initial * (per_sample if self.vary_start else 1))

    def casting(self, votes_per_record: int) -> Plan:
        """Return this plan with another number of votes per record, and the noise that it requires."""
        records_per_unit = self.votes_per_unit // self.votes_per_record
        votes = records_per_unit * votes_per_record
        return replace(self, votes_per_record=votes_per_record, votes_per_unit=votes, sigma=-1.0)

    def extended(self, rounds: int) -> Plan:
        """Return this plan with more rounds at the same noise. Its epsilon is the cost of all rounds."""
        if rounds < self.rounds:
            raise InputError(f"a plan of {self.rounds} rounds cannot be extended to {rounds}; give a larger number")
        longer = (*self.survey, *(self.release,) * rounds)
        return replace(self, rounds=rounds, epsilon=spent(longer, self.delta))
