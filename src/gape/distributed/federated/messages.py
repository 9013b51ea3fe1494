"""The messages between server and devices, one record per step. Values are integers, bytes, and lists of them.

    server                                   device
    Call        a round begins           ->  Advert      fresh public keys
    Roster      all keys                 ->  Deal        shares of its secrets, sealed for each other device
    Poll        candidates, sealed shares -> Ballot      masked votes and noise
    Tally       whose ballots arrived    ->  Opening     one share for each device of the roster, never two

A seat is the number of a device in a round, from 1. The server draws `session` for each attempt at a round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NoReturn, TypeAlias, get_args, get_origin

from gape.core.errors import InputError

Value: TypeAlias = int | str | bytes | list[int] | list[bytes]


@dataclass(frozen=True)
class Call:
    """Start of a round: its turn, and the seat of this device."""

    step: ClassVar[str] = "call"
    session: bytes
    terms: bytes  # digest
    turn: int
    seat: int


@dataclass(frozen=True)
class Advert:
    """The public keys of one device for one session, and a commitment to the seed of its own mask."""

    step: ClassVar[str] = "advert"
    session: bytes
    seat: int
    sealing: bytes
    masking: bytes
    commitment: bytes


@dataclass(frozen=True)
class Roster:
    """The keys of all devices, by seat in ascending order."""

    step: ClassVar[str] = "roster"
    session: bytes
    seats: list[int]
    sealing: list[bytes]
    masking: list[bytes]
    commitments: list[bytes]


@dataclass(frozen=True)
class Deal:
    """A device's shares, sealed for each other seat of the roster."""

    step: ClassVar[str] = "deal"
    session: bytes
    seat: int
    seats: list[int]
    sealed: list[bytes]


@dataclass(frozen=True)
class Poll:
    """The candidates of the round, (rows, columns) float32, and the shares that others sealed for this device."""

    step: ClassVar[str] = "poll"
    session: bytes
    seats: list[int]  # of all participants, including this device
    sealed: list[bytes]  # from each of them; empty from the device itself
    rows: int
    columns: int
    candidates: bytes


@dataclass(frozen=True)
class Ballot:
    """Masked votes and noise of one device: uniform words for anyone without the masks."""

    step: ClassVar[str] = "ballot"
    session: bytes
    seat: int
    words: bytes


@dataclass(frozen=True)
class Tally:
    """The seats whose ballots have arrived and are in the sum."""

    step: ClassVar[str] = "tally"
    session: bytes
    seats: list[int]


@dataclass(frozen=True)
class Opening:
    """A share of the mask seed of each device in the sum, and of the masking key of each other device."""

    step: ClassVar[str] = "opening"
    session: bytes
    seat: int
    seed_seats: list[int]
    seed_shares: list[bytes]
    key_seats: list[int]
    key_shares: list[bytes]


Request: TypeAlias = Call | Roster | Poll | Tally
Reply: TypeAlias = Advert | Deal | Ballot | Opening

_REQUESTS = {kind.step: kind for kind in (Call, Roster, Poll, Tally)}
_REPLIES = {kind.step: kind for kind in (Advert, Deal, Ballot, Opening)}


def to_record(message: Request | Reply) -> dict[str, Value]:
    """Return a message as a flat record."""
    return {"step": message.step, **{field.name: getattr(message, field.name) for field in fields(message)}}


def to_request(record: Mapping[str, Any]) -> Request:
    """Restore a request from `to_record`, and refuse anything else."""
    kind = _REQUESTS.get(str(record.get("step")))
    return _no_such_step() if kind is None else kind(**_values(kind, record))


def to_reply(record: Mapping[str, Any]) -> Reply:
    """Restore a reply from `to_record`, and refuse anything else."""
    kind = _REPLIES.get(str(record.get("step")))
    return _no_such_step() if kind is None else kind(**_values(kind, record))


def _values(kind: type[Request | Reply], record: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in record.items() if name != "step"}
    complete = set(values) == {field.name for field in fields(kind)}
    if not complete or not all(_has_type(values[field.name], field.type) for field in fields(kind)):
        raise InputError(
            f"a message does not have the fields of its step {kind.step}; use the same version on both sides"
        )
    return values


def _no_such_step() -> NoReturn:
    raise InputError("a message has no step that is expected here; use the same version on both sides")


def _has_type(value: object, declared: Any) -> bool:  # declared is a type, or a list of a type
    if get_origin(declared) is list:
        (item,) = get_args(declared)
        return isinstance(value, list) and all(type(entry) is item for entry in value)
    return type(value) is declared
