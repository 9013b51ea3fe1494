"""What a federation and its devices have agreed on. All of it is public, and both sides hold it."""

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

MOST_DEVICES = 10_000  # each holds a share of every other's secrets

_REACH = 40  # standard deviations of noise that the sums leave room for


@dataclass(frozen=True)
class Terms:
    """What every device grants, and checks for itself: nobody can ask it for more.

    As long as at most `dropouts` of the devices fail in a round and at most `colluders` work with the server, what the
    server learns of all devices together is (`epsilon`, `delta`)-DP for one device's data. A device sends at most
    `rounds` + `spare` ballots in all; a round that fails after ballots were sent uses up one of the spare.
    """

    federation: str  # the operator's name for the devices and their data
    devices: int  # n: how many are enrolled
    dropouts: int  # the most that may fail in a round, in any step
    colluders: int  # the most whose noise does not count: the server may know it
    dimension: int
    sigma: float  # what is accounted for, in votes
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
            raise InputError(f"a federation has 3 to {MOST_DEVICES:,} devices, got {self.devices}")
        if not self.federation:
            raise InputError("a federation needs a name; its ledger is tied to it")
        if self.honest < 1 or 2 * self.threshold <= self.devices + self.colluders:
            raise PrivacyError(
                f"of {self.devices} devices {self.dropouts} may drop out and {self.colluders} collude, but a server "
                "could then open a single ballot by telling devices different stories; keep twice the dropouts plus "
                "the colluders below the number of devices"
            )
        object.__setattr__(self, "sigma", float(self.sigma))
        if self.exact_sums_for_tests_only != (self.sigma == 0):
            raise PrivacyError(
                f"sigma is {self.sigma:g}; it may be 0, and has to be, with exact_sums_for_tests_only and there alone"
            )
        largest = self.devices * self.units + _REACH * self.share_scale * math.sqrt(self.devices)
        if largest >= MODULUS / 2:
            raise InputError(
                f"sums of {self.devices} devices at {self.units} units a vote could leave 32 bits; "
                "use fewer devices or a larger sigma"
            )

    @classmethod
    def for_plan(
        cls, plan: Plan, *, federation: str, devices: int, dropouts: int, colluders: int, dimension: int, spare: int = 0
    ) -> Terms:
        """Make the terms under which devices take part in a run of this plan."""
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
        """How many devices must stay to the end, and how many shares restore a secret (t)."""
        return self.devices - self.dropouts

    @property
    def honest(self) -> int:
        """How many shares of noise are in a sum that anybody can open, and known to nobody (h)."""
        return self.threshold - self.colluders

    @property
    def ballots(self) -> int:
        """How many ballots a device sends in all."""
        return self.rounds + self.spare

    @property
    def release(self) -> Release:
        """What one round costs, as the ledger counts it."""
        return Release(self.sigma, self.neighbours, self.votes_per_unit)

    @property
    def releases(self) -> tuple[Release, ...]:
        """What all the ballots of a device cost."""
        return (self.release,) * self.ballots

    @property
    def epsilon(self) -> float:
        """What is promised to every device at `delta`, towards the server and everybody else."""
        return self._noise.spent(self.releases, self.delta) if self._noise else math.inf

    @property
    def units(self) -> int:
        """How many units a vote counts as in the sums (g)."""
        return self._noise.units if self._noise else 1

    @property
    def share_scale(self) -> float:
        """The scale of the noise that each device adds, in units (s)."""
        return self._noise.scale if self._noise else 0.0

    def noise_with(self, devices: int) -> float:
        """Return the standard deviation, in votes, of a sum over so many devices."""
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
