"""One device: it votes with its own records, and sends only a masked ballot and shares of masks."""

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
    expand_key,
    public_key,
    seal_shares,
    to_words,
    unseal_shares,
)
from gape.distributed.federated.messages import Advert, Ballot, Call, Deal, Opening, Poll, Reply, Request, Roster, Tally
from gape.distributed.federated.terms import Terms
from gape.privacy.noise import SecureNoise
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import check_points


@dataclass
class Secrets:
    """The state of a device between the steps of a session; it never leaves the device."""

    after: str = ""  # the last finished step
    session: bytes = b""
    turn: int = 0
    seat: int = 0
    sealing: bytes = b""  # private key
    masking: bytes = b""  # private key
    seed: bytes = b""  # of the device's own mask
    seats: list[int] = field(default_factory=list)  # of the roster
    sealing_keys: list[bytes] = field(default_factory=list)  # public, by seat
    masking_keys: list[bytes] = field(default_factory=list)  # public, by seat
    roster: bytes = b""  # digest
    dealers: list[int] = field(default_factory=list)  # seats that dealt shares to this device
    seed_shares: list[bytes] = field(default_factory=list)  # by dealer
    key_shares: list[bytes] = field(default_factory=list)  # by dealer

    def to_record(self) -> dict[str, Any]:
        """Return the state as a flat record."""
        return {part.name: getattr(self, part.name) for part in fields(self)}


class Device:
    """The private side of a federation on one device: all its records are one privacy unit.

    It answers the four requests of a session in order, each once. It votes like one unit of `LocalElectorate`, and adds
    its share of the noise before anything leaves it. It refuses what its own copy of the terms does not grant: other
    terms, too few or too many devices, more ballots. It never reveals both its share of another device's mask seed and
    its share of that device's masking key: whichever it withholds is still needed to read a ballot.
    """

    def __init__(
        self, terms: Terms, private: Points | None, granted: Granted, remembered: Secrets | None = None
    ) -> None:
        """Hold `private`, (k, d): the embeddings of this device's records, or None if it has none."""
        self._terms, self._granted = terms, granted
        self._private = None if private is None else check_points(private, "private embeddings")
        if self._private is not None and self._private.shape[1] != terms.dimension:
            raise InputError(
                f"the device's embeddings have {self._private.shape[1]} dimensions and the terms say "
                f"{terms.dimension}; use the embedder of the federation"
            )
        self.remembered = remembered or Secrets()

    def answer(self, request: Request) -> Reply:
        """Answer a request, or refuse it; after a refusal the session is over."""
        if isinstance(request, Call):
            return self._advertise(request)
        state, self.remembered = self.remembered, Secrets()  # a step that fails below cannot be repeated
        before = {"roster": "call", "poll": "roster", "tally": "poll"}[request.step]
        if not state.session or request.session != state.session or state.after != before:
            raise PrivacyError(
                f"a request of the step {request.step} does not follow the last step of its session; start a new one"
            )
        if isinstance(request, Roster):
            reply: Reply = self._deal(request, state)
        elif isinstance(request, Poll):
            reply = self._vote(request, state)
        else:
            return self._open(request, state)
        state.after = request.step
        self.remembered = state
        return reply

    def _advertise(self, call: Call) -> Advert:
        if call.terms != self._terms.digest:
            raise PrivacyError("the server uses other terms than this device; agree on the same terms")
        if not (1 <= call.turn <= self._terms.ballots and call.session):
            raise PrivacyError(
                f"the terms grant rounds 1 to {self._terms.ballots}, got {call.turn}; agree on new terms"
            )
        state = Secrets(
            after="call",
            session=call.session,
            turn=call.turn,
            seat=call.seat,
            sealing=secrets.token_bytes(KEY_BYTES),
            masking=secrets.token_bytes(KEY_BYTES),
            seed=secrets.token_bytes(KEY_BYTES),
        )
        self.remembered = state
        return Advert(
            call.session,
            call.seat,
            public_key(state.sealing),
            public_key(state.masking),
            commitment(state.seed, call.session),
        )

    def _deal(self, roster: Roster, state: Secrets) -> Deal:
        terms, seats = self._terms, roster.seats
        columns = (roster.sealing, roster.masking, roster.commitments)
        if any(len(column) != len(seats) for column in columns) or seats != sorted(set(seats)):
            raise PrivacyError("the roster does not list every seat once, with its keys; start a new session")
        if not terms.threshold <= len(seats) <= terms.devices:
            raise PrivacyError(
                f"the roster has {len(seats)} devices; the terms need {terms.threshold} to {terms.devices} of them"
            )
        if len({*roster.sealing, *roster.masking}) < 2 * len(seats):
            raise PrivacyError("a key occurs twice in the roster; start a new session")
        own = (public_key(state.sealing), public_key(state.masking), commitment(state.seed, state.session))
        if state.seat not in seats or tuple(column[seats.index(state.seat)] for column in columns) != own:
            raise PrivacyError("the roster does not have the keys that this device sent; start a new session")
        state.seats, state.sealing_keys, state.masking_keys = seats, roster.sealing, roster.masking
        state.roster = roster_digest(roster, state.turn, terms)
        seed_shares = shamir.split(state.seed, seats, terms.threshold)
        key_shares = shamir.split(state.masking, seats, terms.threshold)
        state.dealers = [state.seat]
        state.seed_shares, state.key_shares = [seed_shares[state.seat]], [key_shares[state.seat]]
        others = [seat for seat in seats if seat != state.seat]
        sealed = [
            seal_shares(_sealing_key(state, state.seat, seat, other=seat), seed_shares[seat] + key_shares[seat])
            for seat in others
        ]
        return Deal(state.session, state.seat, others, sealed)

    def _vote(self, poll: Poll, state: Secrets) -> Ballot:
        self._check_seats(poll.seats, state, state.seats)
        if len(poll.sealed) != len(poll.seats):
            raise PrivacyError("not every device of the poll has dealt its shares; start a new session")
        for seat, sealed in zip(poll.seats, poll.sealed, strict=True):
            if seat != state.seat:
                shares = unseal_shares(_sealing_key(state, seat, state.seat, other=seat), sealed)
                state.dealers.append(seat)
                state.seed_shares.append(shares[: shamir.SHARE_BYTES])
                state.key_shares.append(shares[shamir.SHARE_BYTES :])
        if len(poll.candidates) != 4 * poll.rows * poll.columns or poll.columns != self._terms.dimension:
            raise InputError(
                f"candidates do not have the {self._terms.dimension} dimensions of the terms; "
                "use the embedder of the federation"
            )
        content = np.frombuffer(poll.candidates, dtype="<f4").reshape(poll.rows, poll.columns)
        candidates = check_points(content, "candidates")
        self._granted.ballot(state.session)
        words = self._noisy_words(candidates, state.turn)
        words += expand_key(derive(state.seed, own_mask_info(state.roster, state.seat)), poll.rows)
        keys = dict(zip(state.seats, state.masking_keys, strict=True))
        for other in poll.seats:
            if other != state.seat:
                words += pair_mask(state.masking, keys[other], state.roster, state.seat, other, poll.rows)
        return Ballot(state.session, state.seat, words.astype("<u4").tobytes())

    def _open(self, tally: Tally, state: Secrets) -> Opening:
        self._check_seats(tally.seats, state, state.dealers)
        self._granted.opening(state.session)
        seeds = dict(zip(state.dealers, state.seed_shares, strict=True))
        keys = dict(zip(state.dealers, state.key_shares, strict=True))
        gone = sorted(set(state.dealers) - set(tally.seats))
        return Opening(
            state.session,
            state.seat,
            tally.seats,
            [seeds[seat] for seat in tally.seats],
            gone,
            [keys[seat] for seat in gone],
        )

    def _check_seats(self, seats: Sequence[int], state: Secrets, known: Sequence[int]) -> None:
        """Refuse a sum over fewer devices than the threshold, which would have too little noise."""
        if len(set(seats)) < len(seats) or not {state.seat} <= set(seats) <= set(known):
            raise PrivacyError(
                "the server lists devices that are not in this session, or omits this device; start a new session"
            )
        if len(seats) < self._terms.threshold:
            raise PrivacyError(
                f"{len(seats)} devices are left and the terms need {self._terms.threshold}; nothing is opened: "
                "start a new session"
            )

    def _noisy_words(self, candidates: Points, turn: int) -> Words:
        votes = self._terms.units * self._votes(candidates, turn)
        if self._terms.share_scale > 0:
            votes = SecureNoise().add(votes, self._terms.share_scale, turn)
        return to_words(votes)

    def _votes(self, candidates: Points, turn: int) -> Counts:
        if self._private is None:
            return np.zeros(len(candidates), dtype=np.int64)
        electorate = LocalElectorate(
            self._private,
            units=[self._terms.unit] * len(self._private),  # all records belong to one unit
            votes_per_unit=self._terms.votes_per_unit,
            votes_per_record=self._terms.votes_per_record,
        )
        return electorate.count(candidates, turn)


def roster_digest(roster: Roster, turn: int, terms: Terms) -> bytes:
    """Identify terms, session, turn and all keys, so that devices that were shown different rosters share no key."""
    parts = [terms.digest, roster.session, turn.to_bytes(8)]
    for seat, *keys in zip(roster.seats, roster.sealing, roster.masking, roster.commitments, strict=True):
        parts += [seat.to_bytes(8), *(hashlib.sha256(key).digest() for key in keys)]
    return hashlib.sha256(b"".join(parts)).digest()


def own_mask_info(roster: bytes, seat: int) -> bytes:
    """Return the key derivation info for a device's own mask."""
    return b"gape own mask" + roster + seat.to_bytes(8)


def pair_mask(private: bytes, public: bytes, roster: bytes, seat: int, other: int, count: int) -> Words:
    """Return the mask that `seat` adds for `other`; `other` adds its negative modulo 2^32 for `seat`."""
    low, high = min(seat, other), max(seat, other)
    key = agree(private, public, b"gape pair mask" + roster + low.to_bytes(8) + high.to_bytes(8))
    mask = expand_key(key, count)
    return mask if seat == low else -mask


def _sealing_key(state: Secrets, sender: int, receiver: int, *, other: int) -> bytes:
    public = state.sealing_keys[state.seats.index(other)]
    return agree(
        state.sealing, public, b"gape sealed shares" + state.roster + sender.to_bytes(8) + receiver.to_bytes(8)
    )
