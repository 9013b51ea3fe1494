from dataclasses import fields
from typing import Any

import pytest

from gape.core.errors import InputError
from gape.distributed.federated.messages import (
    Advert,
    Ballot,
    Call,
    Deal,
    Opening,
    Poll,
    Reply,
    Request,
    Roster,
    Tally,
    to_record,
    to_reply,
    to_request,
)

REQUESTS: list[Request] = [
    Call(b"s", b"t", 1, 2),
    Roster(b"s", [1, 2], [b"a", b"b"], [b"c", b"d"], [b"e", b"f"]),
    Poll(b"s", [1], [b""], 2, 3, bytes(24)),
    Tally(b"s", []),
]
REPLIES: list[Reply] = [
    Advert(b"s", 1, b"a", b"b", b"c"),
    Deal(b"s", 1, [2], [b"x"]),
    Ballot(b"s", 1, b"words"),
    Opening(b"s", 1, [1, 2], [b"x", b"y"], [], []),
]


def test_messages_survive_their_records() -> None:
    assert [to_request(to_record(message)) for message in REQUESTS] == REQUESTS
    assert [to_reply(to_record(message)) for message in REPLIES] == REPLIES


@pytest.mark.parametrize("message", [*REQUESTS, *REPLIES], ids=lambda message: str(message.step))
def test_anything_else_is_refused(message: Request | Reply) -> None:
    read, other = (to_request, to_reply) if message in REQUESTS else (to_reply, to_request)
    record: dict[str, Any] = to_record(message)
    with pytest.raises(InputError, match="no step"):
        other(record)
    with pytest.raises(InputError, match="fields"):
        read(record | {"more": 1})
    for field in fields(message):
        with pytest.raises(InputError, match="fields"):
            read({name: value for name, value in record.items() if name != field.name})
        with pytest.raises(InputError, match="fields"):
            read(record | {field.name: 1.5})
        with pytest.raises(InputError, match="fields"):
            read(record | {field.name: [1.5]})
