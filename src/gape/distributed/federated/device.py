"""One device: it embeds and votes for itself, and gives away a masked ballot and shares of masks, nothing else."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gape.core.errors import InputError, PrivacyError
from gape.core.types import Counts, Points
from gape.distributed.federated import shamir
from gape.distributed.federated.granted import Granted
from gape.distributed.federated.masking import (
    KEY_BYTES,
    Words,
    agree,
    commitment,
    derive,
    expand,
    public_key,
    seal,
    to_words,
    unseal,
)
from gape.distributed.federated.messages import Advert, Ballot, Call, Deal, Opening, Poll, Reply, Request, Roster, Tally
from gape.distributed.federated.terms import Terms
from gape.privacy.noise import SecureNoise
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import check_points


@dataclass
class Secrets:
    """What a device has to remember from one step of a session to the next; it never leaves the device."""

    after: str = ""  # the step that was done last
    session: bytes = b""
    turn: int = 0
    seat: int = 0
    sealing: bytes = b""  # private key
    masking: bytes = b""  # private key
    seed: bytes = b""  # of its own mask
    seats: list[int] = field(default_factory=list)  # of the roster
    sealing_keys: list[bytes] = field(default_factory=list)  # public, by seat
    masking_keys: list[bytes] = field(default_factory=list)  # public, by seat
    roster: bytes = b""  # digest
    dealers: list[int] = field(default_factory=list)  # who dealt shares to this device
    seed_shares: list[bytes] = field(default_factory=list)  # of each of them
    key_shares: list[bytes] = field(default_factory=list)  # of each of them

    def to_record(self) -> dict[str, Any]:
        """Return all of it as a flat record."""
        return {part.name: getattr(self, part.name) for part in fields(self)}


class Device:
    """The private side of a federation on one device: all its records are one privacy unit.

    It answers the four requests of a session in their order, each once. It votes as one unit of `LocalElectorate`
    does, and adds its share of the noise before anything leaves it. It refuses what its own copy of the terms does not
    grant: other terms, too few or too many devices, more ballots. For no device does it ever give away both the
    share of the mask's seed and the share of the masking key, one of which always stays needed to read a ballot.
    """

    def __init__(
        self, terms: Terms, private: Points | None, granted: Granted, remembered: Secrets | None = None
    ) -> None:
        """Hold `private`, (k, d): the embeddings of this device's records, or None where it has none."""
        self._terms, self._granted = terms, granted
        self._private = None if private is None else check_points(private, "private embeddings")
        if self._private is not None and self._private.shape[1] != terms.dimension:
            raise InputError(
                f"the device's embeddings have {self._private.shape[1]} dimensions and the terms say "
                f"{terms.dimension}; embed with the model of the federation"
            )
        self.remembered = remembered or Secrets()

    def answer(self, request: Request) -> Reply:
        """Answer a request, or refuse it; after a refusal only a new session can go on."""
        if isinstance(request, Call):
            return self._advertise(request)
        mine, self.remembered = self.remembered, Secrets()  # whatever fails below cannot be tried again
        before = {"roster": "call", "poll": "roster", "tally": "poll"}[request.step]
        if not mine.session or request.session != mine.session or mine.after != before:
            raise PrivacyError(
                f"a request of the step {request.step} does not follow the last one of its session; begin a new session"
            )
        if isinstance(request, Roster):
            reply: Reply = self._deal(request, mine)
        elif isinstance(request, Poll):
            reply = self._vote(request, mine)
        else:
            return self._open(request, mine)
        mine.after = request.step
        self.remembered = mine
        return reply

    def _advertise(self, call: Call) -> Advert:
        if call.terms != self._terms.digest:
            raise PrivacyError("the server works under other terms than this device; agree on the same terms")
        if not (1 <= call.turn <= self._terms.ballots and call.session):
            raise PrivacyError(
                f"the terms grant rounds 1 to {self._terms.ballots}, got {call.turn}; agree on new terms"
            )
        mine = Secrets(
            after="call",
            session=call.session,
            turn=call.turn,
            seat=call.seat,
            sealing=secrets.token_bytes(KEY_BYTES),
            masking=secrets.token_bytes(KEY_BYTES),
            seed=secrets.token_bytes(KEY_BYTES),
        )
        self.remembered = mine
        return Advert(
            call.session,
            call.seat,
            public_key(mine.sealing),
            public_key(mine.masking),
            commitment(mine.seed, call.session),
        )

    def _deal(self, roster: Roster, mine: Secrets) -> Deal:
        terms, seats = self._terms, roster.seats
        columns = (roster.sealing, roster.masking, roster.commitments)
        if any(len(column) != len(seats) for column in columns) or seats != sorted(set(seats)):
            raise PrivacyError("the roster does not name every seat once, with its keys; begin a new session")
        if not terms.threshold <= len(seats) <= terms.devices:
            raise PrivacyError(
                f"the roster has {len(seats)} devices; the terms need {terms.threshold} to {terms.devices}"
            )
        if len({*roster.sealing, *roster.masking}) < 2 * len(seats):
            raise PrivacyError("a key stands twice in the roster; begin a new session")
        own = (public_key(mine.sealing), public_key(mine.masking), commitment(mine.seed, mine.session))
        if mine.seat not in seats or tuple(column[seats.index(mine.seat)] for column in columns) != own:
            raise PrivacyError("the roster does not have the keys that this device sent; begin a new session")
        mine.seats, mine.sealing_keys, mine.masking_keys = seats, roster.sealing, roster.masking
        mine.roster = roster_digest(roster, mine.turn, terms)
        seed_shares = shamir.split(mine.seed, seats, terms.threshold)
        key_shares = shamir.split(mine.masking, seats, terms.threshold)
        mine.dealers = [mine.seat]
        mine.seed_shares, mine.key_shares = [seed_shares[mine.seat]], [key_shares[mine.seat]]
        others = [seat for seat in seats if seat != mine.seat]
        sealed = [
            seal(_sealing_key(mine, mine.seat, seat, other=seat), seed_shares[seat] + key_shares[seat])
            for seat in others
        ]
        return Deal(mine.session, mine.seat, others, sealed)

    def _vote(self, poll: Poll, mine: Secrets) -> Ballot:
        self._check_seats(poll.seats, mine, mine.seats)
        if len(poll.sealed) != len(poll.seats):
            raise PrivacyError("not every device of the poll has dealt its shares; begin a new session")
        for seat, sealed in zip(poll.seats, poll.sealed, strict=True):
            if seat != mine.seat:
                shares = unseal(_sealing_key(mine, seat, mine.seat, other=seat), sealed)
                mine.dealers.append(seat)
                mine.seed_shares.append(shares[: shamir.SHARE_BYTES])
                mine.key_shares.append(shares[shamir.SHARE_BYTES :])
        if len(poll.candidates) != 4 * poll.rows * poll.columns or poll.columns != self._terms.dimension:
            raise InputError(f"candidates do not have the {self._terms.dimension} dimensions of the terms")
        content = np.frombuffer(poll.candidates, dtype="<f4").reshape(poll.rows, poll.columns)
        candidates = check_points(content, "candidates")
        self._granted.ballot(mine.session)
        words = self._noisy_words(candidates, mine.turn)
        words += expand(derive(mine.seed, own_mask_info(mine.roster, mine.seat)), poll.rows)
        keys = dict(zip(mine.seats, mine.masking_keys, strict=True))
        for other in poll.seats:
            if other != mine.seat:
                words += pair_mask(mine.masking, keys[other], mine.roster, mine.seat, other, poll.rows)
        return Ballot(mine.session, mine.seat, words.astype("<u4").tobytes())

    def _open(self, tally: Tally, mine: Secrets) -> Opening:
        self._check_seats(tally.seats, mine, mine.dealers)
        self._granted.opening(mine.session)
        seeds = dict(zip(mine.dealers, mine.seed_shares, strict=True))
        keys = dict(zip(mine.dealers, mine.key_shares, strict=True))
        gone = sorted(set(mine.dealers) - set(tally.seats))
        return Opening(
            mine.session,
            mine.seat,
            tally.seats,
            [seeds[seat] for seat in tally.seats],
            gone,
            [keys[seat] for seat in gone],
        )

    def _check_seats(self, seats: Sequence[int], mine: Secrets, known: Sequence[int]) -> None:
        """A sum over fewer devices than the threshold would have too little noise in it."""
        if len(set(seats)) < len(seats) or not {mine.seat} <= set(seats) <= set(known):
            raise PrivacyError("the server names devices that are not in this session, or not this one; begin again")
        if len(seats) < self._terms.threshold:
            raise PrivacyError(
                f"{len(seats)} devices are left and the terms need {self._terms.threshold}; nothing is opened"
            )

    def _noisy_words(self, candidates: Points, turn: int) -> Words:
        votes = self._terms.units * self._votes(candidates, turn)
        if self._terms.share_scale > 0:
            votes = SecureNoise().add(votes, self._terms.share_scale, turn)
        return to_words(votes)

    def _votes(self, candidates: Points, turn: int) -> Counts:
        if self._private is None:
            return np.zeros(len(candidates), dtype=np.int64)
        everything = [self._terms.unit] * len(self._private)  # of one and the same unit
        own = LocalElectorate(
            self._private,
            units=everything,
            votes_per_unit=self._terms.votes_per_unit,
            votes_per_record=self._terms.votes_per_record,
        )
        return own.count(candidates, turn)


def roster_digest(roster: Roster, turn: int, terms: Terms) -> bytes:
    """Identify terms, session, turn and everybody's keys: devices that were shown others share no key."""
    parts = [terms.digest, roster.session, turn.to_bytes(8)]
    for seat, *keys in zip(roster.seats, roster.sealing, roster.masking, roster.commitments, strict=True):
        parts += [seat.to_bytes(8), *(hashlib.sha256(key).digest() for key in keys)]
    return hashlib.sha256(b"".join(parts)).digest()


def own_mask_info(roster: bytes, seat: int) -> bytes:
    """Name the purpose of the seed of a device's own mask."""
    return b"gape own mask" + roster + seat.to_bytes(8)


def pair_mask(private: bytes, public: bytes, roster: bytes, seat: int, other: int, count: int) -> Words:
    """Return the mask that `seat` adds for `other`; what `other` adds for `seat` is its negative, modulo 2^32."""
    low, high = min(seat, other), max(seat, other)
    key = agree(private, public, b"gape pair mask" + roster + low.to_bytes(8) + high.to_bytes(8))
    mask = expand(key, count)
    return mask if seat == low else -mask


def _sealing_key(mine: Secrets, sender: int, receiver: int, *, other: int) -> bytes:
    public = mine.sealing_keys[mine.seats.index(other)]
    return agree(mine.sealing, public, b"gape sealed shares" + mine.roster + sender.to_bytes(8) + receiver.to_bytes(8))
