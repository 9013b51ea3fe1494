"""Runs a command that the kernel kills as soon as it, or a child of it, turns to another machine.

python tests/sockets.py COMMAND ARGUMENT ...

A seccomp filter judges by the arguments of system calls; it needs Linux and no special rights. Local sockets (AF_UNIX),
sockets to the kernel (AF_NETLINK) and TCP sockets, on which a server may listen, are allowed. Connecting or sending to
an address as long as an Internet address is not. Neither are datagrams, by which names are looked up, other kinds of
sockets, and io_uring, which could do all this unseen.
"""

import ctypes
import os
import platform
import struct
import sys

_NUMBERS = {
    "x86_64": {"socket": 41, "connect": 42, "sendto": 44, "seccomp": 317},
    "aarch64": {"socket": 198, "connect": 203, "sendto": 206, "seccomp": 277},
}
_IO_URING_SETUP = 425
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _TYPES = 1, 0xF
_SIZES = (16, 28)  # of an address of the Internet, version 4 and 6

_LOAD, _EQUAL, _AND, _END = 0x20, 0x15, 0x54, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def forbid_the_network() -> None:
    """Kill this process, and those it will start, where they turn to another machine."""
    numbers = _NUMBERS[platform.machine()]
    steps = [
        *_case(_IO_URING_SETUP, [(_END, 0, 0, _KILL)]),
        *_case(numbers["socket"], _only_local()),
        *_case(numbers["connect"], _no_address(_argument(2))),
        *_case(numbers["sendto"], _no_address(_argument(5))),
        (_END, 0, 0, _ALLOW),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    header = ctypes.create_string_buffer(struct.pack("H6xQ", len(steps), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_rights, set_filter = 38, 1
    if libc.prctl(no_new_rights, 1, 0, 0, 0) or libc.syscall(numbers["seccomp"], set_filter, 0, ctypes.byref(header)):
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")


def _argument(place: int) -> int:
    """Where an argument of a call lies in what the filter sees."""
    return 16 + 8 * place


def _case(call: int, steps: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Steps for one call, which end by a verdict; other calls go on after them."""
    return [(_LOAD, 0, 0, 0), (_EQUAL, 0, len(steps), call), *steps]


def _only_local() -> list[tuple[int, int, int, int]]:
    return [
        (_LOAD, 0, 0, _argument(0)),
        (_EQUAL, 6, 0, _UNIX),
        (_EQUAL, 5, 0, _NETLINK),
        (_EQUAL, 1, 0, _INET),
        (_EQUAL, 0, 4, _INET6),
        (_LOAD, 0, 0, _argument(1)),
        (_AND, 0, 0, _TYPES),
        (_EQUAL, 0, 1, _STREAM),
        (_END, 0, 0, _ALLOW),
        (_END, 0, 0, _KILL),
    ]


def _no_address(size: int) -> list[tuple[int, int, int, int]]:
    return [
        (_LOAD, 0, 0, size),
        (_EQUAL, 2, 0, _SIZES[0]),
        (_EQUAL, 1, 0, _SIZES[1]),
        (_END, 0, 0, _ALLOW),
        (_END, 0, 0, _KILL),
    ]


if __name__ == "__main__":
    forbid_the_network()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  (what the test asks for)
