"""An electorate whose records stay on their devices: the server receives only a sum that includes its noise."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gape._support.fingerprint import dataset_fingerprint
from gape.core.errors import PrivacyError
from gape.core.types import Counts, NoisyVotes, Points
from gape.distributed.federated.aggregation import Session
from gape.distributed.federated.messages import Reply, Request
from gape.distributed.federated.terms import Terms
from gape.voting.nearest import check_points

SESSION_BYTES = 16


class Channel(Protocol):
    """The transport between server and devices; it need not be confidential."""

    def devices(self) -> list[int]:
        """Return the addresses of the devices that can be reached."""
        ...

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Reply]:
        """Send each device its request and return the replies that came in time, by address."""
        ...


@dataclass(frozen=True)
class Attendance:
    """The devices that took part in a round, by address: known to the server, and public."""

    turn: int
    called: tuple[int, ...]
    counted: tuple[int, ...]  # devices whose ballots are in the sum
    noise: float  # standard deviation of the noise in the sum, in votes


class FederatedElectorate:
    """Users who vote on their own devices: this process receives the sum of all votes, including the noise.

    Exact counts do not exist anywhere, so `count` raises an error; use `noisy_count`. The terms that the devices hold
    limit what can be asked of them (`Terms`). The ledger is tied to the name of the federation, because there is no
    dataset here to identify.
    """

    def __init__(self, terms: Terms, channel: Channel) -> None:
        """Use devices that hold the same terms."""
        self.terms = terms
        self.attendance: list[Attendance] = []
        self._channel = channel

    @property
    def dimension(self) -> int:
        """Width d of the embeddings."""
        return self.terms.dimension

    @property
    def votes_per_unit(self) -> int:
        """The largest number of votes that one device casts in a round."""
        return self.terms.votes_per_unit

    @property
    def unit(self) -> str:
        """What one privacy unit is: all data on one device."""
        return self.terms.unit

    @property
    def secure(self) -> bool:
        """Whether the devices add noise: always, except under terms that only tests use."""
        return not self.terms.exact_sums_for_tests_only

    def fingerprint(self, salt: bytes) -> str:
        """Identify the federation by the name that its operator gave it."""
        return dataset_fingerprint([b"federation " + self.terms.federation.encode()], salt)

    def count(self, candidates: Points, turn: int) -> Counts:
        """Raise an error: exact counts do not exist."""
        raise PrivacyError(
            f"the exact votes of round {turn} for {len(candidates)} candidates do not exist, because devices add noise "
            "to their own; use gape.runs.federated.run_federated"
        )

    def noisy_count(self, candidates: Points, turn: int, sigma: float) -> NoisyVotes:
        """Return the votes of round `turn`, (v,), with noise of at least `sigma`, which must be that of the terms.

        If too few devices stay to the end, it raises `ServiceError`: nothing was learnt, and the round can be retried.
        """
        if sigma != self.terms.sigma:
            raise PrivacyError(
                f"the release accounts for sigma {sigma:g} and the devices add noise for {self.terms.sigma:g}; "
                "make the terms for the plan"
            )
        candidates = check_points(candidates, "candidates")
        addresses = dict(enumerate(sorted(self._channel.devices()), start=1))
        session = Session(self.terms, secrets.token_bytes(SESSION_BYTES), turn, candidates)
        replies = self._ask(addresses, session.call(addresses))
        replies = self._ask(addresses, session.roster(replies))
        replies = self._ask(addresses, session.poll(replies))
        replies = self._ask(addresses, session.tally(replies))
        total = session.result(replies)
        counted = tuple(addresses[seat] for seat in session.survivors)
        noise = self.terms.noise_with(len(counted))
        self.attendance.append(Attendance(turn, tuple(addresses.values()), counted, noise))
        return np.rint(total / self.terms.units).astype(np.int64)

    def _ask(self, addresses: Mapping[int, int], requests: Mapping[int, Request]) -> dict[int, Reply]:
        """Send requests by seat, and return the replies by seat."""
        seats = {address: seat for seat, address in addresses.items()}
        replies = self._channel.ask({addresses[seat]: request for seat, request in requests.items()})
        return {seats[address]: reply for address, reply in replies.items() if address in seats}
