"""The public parameters of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gape.core.errors import InputError
from gape.privacy.accounting import Neighbours, Release, noise_scale, spent
from gape.privacy.ledger import MOST_RELEASES


@dataclass(frozen=True)
class Plan:
    """What a run will do: all of it public, and all that its privacy depends on.

    `sigma` is derived from epsilon, delta, rounds, neighbours and votes_per_unit unless it is given. In every
    round each of the `samples` gets `copies` variations at each of the `scales` (the paper's s^2), and with
    `keep` it stays a candidate itself. A record votes for its `votes_per_record` nearest candidates, and a privacy unit
    casts at most `votes_per_unit` votes in all. Without `vary_start` the candidates of the first round are the start
    itself, which is then as large as a round has candidates.
    """

    epsilon: float
    delta: float
    rounds: int  # T
    samples: int  # m
    scales: tuple[float, ...] = (1.0,)
    copies: int = 1
    keep: bool = True
    initial: int = 0  # size of S(0); 0 stands for `samples`
    vary_start: bool = True  # without, the first round votes on S(0) as it is
    neighbours: Neighbours = "replace"
    votes_per_unit: int = 1
    votes_per_record: int = 1
    seed: int = 0
    sigma: float = -1.0  # -1 stands for the least that keeps the guarantee

    def __post_init__(self) -> None:
        if self.rounds > MOST_RELEASES:
            raise InputError(f"rounds must be at most {MOST_RELEASES:,}, got {self.rounds}")
        for name in ("rounds", "samples", "copies", "votes_per_unit", "votes_per_record"):
            value = getattr(self, name)
            if value != int(value) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value}")
        if self.votes_per_unit % self.votes_per_record:
            raise InputError(
                f"votes_per_unit must be a whole multiple of votes_per_record, {self.votes_per_record}, got "
                f"{self.votes_per_unit}"
            )
        if not self.scales or not all(scale > 0 and math.isfinite(scale) for scale in self.scales):
            raise InputError(f"scales must be positive numbers, at least one, got {self.scales}")
        if self.initial < 0 or self.seed < 0:
            raise InputError(f"initial and seed must not be negative, got {self.initial} and {self.seed}")
        for name in ("epsilon", "delta", "sigma"):
            object.__setattr__(self, name, float(getattr(self, name)))  # numpy's scalars do not write as JSON
        object.__setattr__(self, "scales", tuple(float(scale) for scale in self.scales))
        object.__setattr__(self, "initial", self.initial or self.samples)
        if self.sigma < 0:
            sigma = noise_scale(
                self.epsilon,
                self.delta,
                self.rounds,
                neighbours=self.neighbours,
                votes_per_unit=self.votes_per_unit,
            )
            object.__setattr__(self, "sigma", sigma)

    @property
    def release(self) -> Release:
        """The release made in every round."""
        return Release(self.sigma, self.neighbours, self.votes_per_unit)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases of the run."""
        return (self.release,) * self.rounds

    @property
    def candidates(self) -> int:
        """Bound on the candidates of a round (the paper's m_V)."""
        per_sample = int(self.keep) + len(self.scales) * self.copies
        return max(self.samples * per_sample, self.initial * (per_sample if self.vary_start else 1))

    def casting(self, votes_per_record: int) -> Plan:
        """Return this plan with so many votes of each record that votes, and the noise that they need."""
        speaking = self.votes_per_unit // self.votes_per_record
        votes = speaking * votes_per_record
        return replace(self, votes_per_record=votes_per_record, votes_per_unit=votes, sigma=-1.0)

    def extended(self, rounds: int) -> Plan:
        """Return this plan with more rounds at the same noise; its epsilon is what all of them cost."""
        if rounds < self.rounds:
            raise InputError(f"a plan of {self.rounds} rounds cannot be extended to {rounds}; ask for more rounds")
        return replace(self, rounds=rounds, epsilon=spent((self.release,) * rounds, self.delta))
