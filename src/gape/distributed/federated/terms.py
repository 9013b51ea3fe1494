"""The terms that a federation and its devices have agreed on. They are public, and both sides hold a copy."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property

from gape.core.errors import InputError, PrivacyError
from gape.distributed.federated.accounting import NoiseShares, noise_shares
from gape.distributed.federated.masking import MODULUS
from gape.evolution.plan import Plan
from gape.privacy.accounting import Neighbours, Release

MOST_DEVICES = 10_000  # each device holds a share of every other device's secrets

_MARGIN = 40  # standard deviations of noise that sums have room for


@dataclass(frozen=True)
class Terms:
    """What each device grants. It checks every request itself, so nobody can ask it for more.

    As long as at most `dropouts` of the devices fail in a round and at most `colluders` work with the server, what the
    server learns from all devices together is (`epsilon`, `delta`)-DP with respect to one device's data. A device sends
    at most `rounds` + `spare` ballots in total; a round that fails after ballots were sent uses up a spare one.
    """

    federation: str  # the operator's name for the devices and their data
    devices: int  # n: number of enrolled devices
    dropouts: int  # most devices that may fail in a round, in any step
    colluders: int  # most devices whose noise does not count, because the server may know it
    dimension: int
    sigma: float  # noise that is accounted for, in votes
    delta: float
    rounds: int
    spare: int = 0
    votes_per_unit: int = 1
    votes_per_record: int = 1
    neighbours: Neighbours = "replace"
    unit: str = "user"
    exact_sums_for_tests_only: bool = False

    def __post_init__(self) -> None:
        for name in ("devices", "dimension", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if min(self.dropouts, self.colluders, self.spare) < 0:
            raise InputError(
                "dropouts, colluders and spare must not be negative, got "
                f"{self.dropouts}, {self.colluders} and {self.spare}"
            )
        if not 3 <= self.devices <= MOST_DEVICES:
            raise InputError(f"a federation must have 3 to {MOST_DEVICES:,} devices, got {self.devices}")
        if not self.federation:
            raise InputError("a federation needs a name, because its ledger is tied to it; got an empty one")
        if self.honest < 1 or 2 * self.threshold <= self.devices + self.colluders:
            raise PrivacyError(
                f"if {self.dropouts} of {self.devices} devices may drop out and {self.colluders} collude, a server "
                "could open a single ballot by sending devices contradictory messages; keep twice the dropouts plus "
                "the colluders below the number of devices"
            )
        object.__setattr__(self, "sigma", float(self.sigma))
        if self.exact_sums_for_tests_only != (self.sigma == 0):
            raise PrivacyError(
                f"sigma is {self.sigma:g}; it must be 0 with exact_sums_for_tests_only, and positive otherwise"
            )
        largest = self.devices * self.units + _MARGIN * self.share_scale * math.sqrt(self.devices)
        if largest >= MODULUS / 2:
            raise InputError(
                f"sums of {self.devices} devices at {self.units} units per vote could exceed 32 bits; "
                "use fewer devices or a larger sigma"
            )

    @classmethod
    def for_plan(
        cls, plan: Plan, *, federation: str, devices: int, dropouts: int, colluders: int, dimension: int, spare: int = 0
    ) -> Terms:
        """Make the terms for a run of this plan."""
        return cls(
            federation=federation,
            devices=devices,
            dropouts=dropouts,
            colluders=colluders,
            dimension=dimension,
            sigma=plan.sigma,
            delta=plan.delta,
            rounds=plan.rounds,
            spare=spare,
            votes_per_unit=plan.votes_per_unit,
            votes_per_record=plan.votes_per_record,
            neighbours=plan.neighbours,
        )

    @property
    def threshold(self) -> int:
        """The number of devices that must stay to the end, and of shares that restore a secret (t)."""
        return self.devices - self.dropouts

    @property
    def honest(self) -> int:
        """The least number of noise shares, unknown to the server, in any sum that can be opened (h)."""
        return self.threshold - self.colluders

    @property
    def ballots(self) -> int:
        """The number of ballots that a device sends in total."""
        return self.rounds + self.spare

    @property
    def release(self) -> Release:
        """The cost of one round, as the ledger counts it."""
        return Release(self.sigma, self.neighbours, self.votes_per_unit)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The cost of all ballots of a device."""
        return (self.release,) * self.ballots

    @property
    def epsilon(self) -> float:
        """The epsilon that is promised to each device at `delta`, towards the server and everybody else."""
        return self._noise.spent(self.releases, self.delta) if self._noise else math.inf

    @property
    def units(self) -> int:
        """The number of units that a vote counts as in the sums (g)."""
        return self._noise.units if self._noise else 1

    @property
    def share_scale(self) -> float:
        """The scale of the noise that each device adds, in units (s)."""
        return self._noise.scale if self._noise else 0.0

    def noise_with(self, devices: int) -> float:
        """Return the standard deviation of the noise, in votes, in a sum over so many devices."""
        return self._noise.total(devices) if self._noise else 0.0

    @cached_property
    def digest(self) -> bytes:
        """Identify the terms; keys and requests are bound to it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).digest()

    @cached_property
    def _noise(self) -> NoiseShares | None:
        if self.exact_sums_for_tests_only:
            return None
        shifts = self.ballots * self.release.unit_shifts
        return noise_shares(self.sigma, self.honest, self.delta, shifts)
