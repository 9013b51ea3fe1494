"""The server's side of one session: four requests, and the sum from the last replies, or nothing.

The server learns who answered, public keys, uniform words, and then the sum of the ballots that arrived in time. A
device that fails, answers too late or sends an invalid reply is dropped. If fewer than the threshold are left, the
session ends with an error and nothing has been opened. Restored secrets are checked against what was advertised, so
that a wrong share causes an error and not a wrong sum.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import numpy as np

from gape.core.errors import InputError, PrivacyError, ServiceError
from gape.core.types import Counts, Points
from gape.distributed.federated import shamir
from gape.distributed.federated.device import own_mask_info, pair_mask, roster_digest
from gape.distributed.federated.masking import (
    KEY_BYTES,
    WORD_BYTES,
    Words,
    commitment,
    derive,
    expand_key,
    from_words,
    public_key,
)
from gape.distributed.federated.messages import Advert, Ballot, Call, Deal, Opening, Poll, Reply, Roster, Tally
from gape.distributed.federated.terms import Terms

T = TypeVar("T", Advert, Deal, Ballot, Opening)


class Session:
    """One attempt at one round. The steps are called in order; each takes the replies to the previous step, by seat."""

    def __init__(self, terms: Terms, session: bytes, turn: int, candidates: Points) -> None:
        """Prepare to count the votes of round `turn` for `candidates`, (v, d)."""
        self._terms, self._session, self._turn, self._candidates = terms, session, turn, candidates
        self._adverts: dict[int, Advert] = {}
        self._dealers: list[int] = []
        self._roster = Roster(session, [], [], [], [])
        self._ballots: dict[int, Words] = {}

    @property
    def survivors(self) -> tuple[int, ...]:
        """The seats whose ballots are in the sum."""
        return tuple(self._ballots)

    def call(self, seats: Iterable[int]) -> dict[int, Call]:
        """Start with the devices at these seats."""
        called = sorted(seats)
        self._require(len(called), "are connected")
        if len(called) > self._terms.devices:
            raise InputError(
                f"{len(called)} devices are connected, and the terms are for {self._terms.devices}; agree on new terms"
            )
        return {seat: Call(self._session, self._terms.digest, self._turn, seat) for seat in called}

    def roster(self, replies: Mapping[int, Reply]) -> dict[int, Roster]:
        """Send the keys of all devices that sent theirs to each of them."""
        self._adverts = self._valid(replies, Advert, replies, _is_advert)
        self._require(len(self._adverts), "sent keys")
        adverts = list(self._adverts.values())
        self._roster = Roster(
            self._session,
            list(self._adverts),
            [advert.sealing for advert in adverts],
            [advert.masking for advert in adverts],
            [advert.commitment for advert in adverts],
        )
        return dict.fromkeys(self._adverts, self._roster)

    def poll(self, replies: Mapping[int, Reply]) -> dict[int, Poll]:
        """Forward the sealed shares, with the candidates to vote for."""
        seats = sorted(self._adverts)
        deals = self._valid(
            replies,
            Deal,
            self._adverts,
            lambda deal: sorted([*deal.seats, deal.seat]) == seats and len(deal.sealed) == len(deal.seats),
        )
        self._require(len(deals), "dealt shares")
        self._dealers = list(deals)
        sealed = {seat: dict(zip(deal.seats, deal.sealed, strict=True)) for seat, deal in deals.items()}
        rows, columns = self._candidates.shape
        content = self._candidates.astype("<f4").tobytes()
        return {
            seat: Poll(
                self._session,
                self._dealers,
                [sealed[dealer].get(seat, b"") for dealer in self._dealers],
                rows,
                columns,
                content,
            )
            for seat in self._dealers
        }

    def tally(self, replies: Mapping[int, Reply]) -> dict[int, Tally]:
        """Tell the devices whose ballots arrived which ballots are in the sum."""
        size = WORD_BYTES * len(self._candidates)
        ballots = self._valid(replies, Ballot, self._dealers, lambda ballot: len(ballot.words) == size)
        self._require(len(ballots), "sent ballots")
        self._ballots = {
            seat: np.frombuffer(ballot.words, dtype="<u4").astype(np.uint32) for seat, ballot in ballots.items()
        }
        return dict.fromkeys(self._ballots, Tally(self._session, list(self._ballots)))

    def result(self, replies: Mapping[int, Reply]) -> Counts:
        """Return the sum of all ballots without its masks, (v,), in units; single ballots are never unmasked."""
        gone = [seat for seat in self._dealers if seat not in self._ballots]
        stayed = list(self._ballots)
        openings = self._valid(
            replies,
            Opening,
            self._ballots,
            lambda opening: (
                (opening.seed_seats, len(opening.seed_shares)) == (stayed, len(stayed))
                and (opening.key_seats, len(opening.key_shares)) == (gone, len(gone))
            ),
        )
        self._require(len(openings), "opened the sum")
        helpers = dict(list(openings.items())[: self._terms.threshold])  # more shares would not change the result
        lagrange = shamir.weights(list(helpers))
        digest = roster_digest(self._roster, self._turn, self._terms)
        count = len(self._candidates)
        total = np.zeros(count, dtype=np.uint32)
        for index, (seat, words) in enumerate(self._ballots.items()):
            shares = {helper: opening.seed_shares[index] for helper, opening in helpers.items()}
            seed = self._restored(seat, shares, lagrange)
            if commitment(seed, self._session) != self._adverts[seat].commitment:
                raise self._wrong_shares(seat)
            total += words - expand_key(derive(seed, own_mask_info(digest, seat)), count)
        for index, seat in enumerate(gone):
            shares = {helper: opening.key_shares[index] for helper, opening in helpers.items()}
            private = self._restored(seat, shares, lagrange)
            if public_key(private) != self._adverts[seat].masking:
                raise self._wrong_shares(seat)
            for other in self._ballots:  # the mask that `other` added for `seat`, which nothing cancels
                total += pair_mask(private, self._adverts[other].masking, digest, seat, other, count)
        return from_words(total)

    def _restored(self, seat: int, shares: Mapping[int, bytes], lagrange: list[int]) -> bytes:
        try:
            return shamir.reconstruct(shares, self._terms.threshold, lagrange)
        except InputError as error:
            raise self._wrong_shares(seat) from error

    @staticmethod
    def _wrong_shares(seat: int) -> PrivacyError:
        return PrivacyError(
            f"the shares of seat {seat} do not fit what it advertised, so a device is dishonest and nothing is "
            "released; start the round again"
        )

    def _valid(
        self, replies: Mapping[int, Reply], kind: type[T], expected: Iterable[int], fits: Callable[[T], bool]
    ) -> dict[int, T]:
        """Return the valid replies of the expected seats; all other devices count as dropouts."""
        seats = set(expected)
        valid = {}
        for seat, reply in sorted(replies.items()):
            if not isinstance(reply, kind) or seat not in seats:
                continue
            if (reply.session, reply.seat) == (self._session, seat) and fits(reply):
                valid[seat] = reply
        return valid

    def _require(self, count: int, did: str) -> None:
        if count < self._terms.threshold:
            raise ServiceError(
                f"{count} of {self._terms.devices} devices {did}, and the terms need {self._terms.threshold}; "
                "nothing was opened, so try again when more devices can be reached"
            )


def _is_advert(advert: Advert) -> bool:
    return len(advert.sealing) == len(advert.masking) == KEY_BYTES
