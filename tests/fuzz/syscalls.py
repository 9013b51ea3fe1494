"""Runs work in a child process, one of whose writes the kernel lets fail.

The child installs a seccomp filter that asks its parent before every system call that changes files, whoever makes it:
Python, SQLite or a library in C++. The parent lets it through, answers with an error number, or kills the child. Needs
Linux 5.5 or newer, and no rights.
"""

import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

KILL = -1  # stands for a fault that is SIGKILL

# Numbers of the calls that change files, and where their path or their descriptor is.
_CALLS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "write": 1,
        "open": 2,
        "pwrite64": 18,
        "writev": 20,
        "fsync": 74,
        "fdatasync": 75,
        "ftruncate": 77,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "unlink": 87,
        "chmod": 90,
        "fchmod": 91,
        "openat": 257,
        "mkdirat": 258,
        "unlinkat": 263,
        "renameat": 264,
        "fchmodat": 268,
        "fallocate": 285,
        "renameat2": 316,
    },
    "aarch64": {
        "mkdirat": 34,
        "unlinkat": 35,
        "renameat": 38,
        "ftruncate": 46,
        "fallocate": 47,
        "fchmod": 52,
        "fchmodat": 53,
        "openat": 56,
        "write": 64,
        "writev": 66,
        "pwrite64": 68,
        "fsync": 82,
        "fdatasync": 83,
        "renameat2": 276,
    },
}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_BY_PATH = {"open": 0, "rename": 0, "mkdir": 0, "rmdir": 0, "unlink": 0, "chmod": 0}
_BY_PATH |= dict.fromkeys(("openat", "mkdirat", "unlinkat", "renameat", "fchmodat", "renameat2"), 1)
_FLAGS = {"open": 1, "openat": 2}

_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
_NOTIFICATION, _ANSWER = "QIIiIQ6Q", "QqiI"
_GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Fault:
    """The `at`-th write, counted from 1, fails by `number`, and with `lasting` all writes after it do too."""

    at: int
    number: int  # of the error, or KILL
    lasting: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    calls: tuple[str, ...]  # its writes, by the names of their system calls
    error: str  # what it raised, as `Type: message`; empty where nothing
    trace: str  # of an error, for whoever has to mend it
    killed: bool
    hung: bool


def supervised(work: Callable[[], None], folder: Path, fault: Fault | None, seconds: float = 120.0) -> Outcome:
    """Run `work` in a fork of this process, with a fault among the writes below `folder`."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if not child:
        here.close()
        _obey(work, there)
    there.close()
    _, (listener,), _, _ = socket.recv_fds(here, 1, 1)
    calls: list[str] = []
    said = b""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(here, select.POLLIN)
    hung = killed = False
    while True:
        ready = dict(poll.poll(1000))
        hung = time.monotonic() > deadline
        if hung:
            os.kill(child, signal.SIGKILL)
            break
        if ready.get(listener, 0) & select.POLLIN:
            _rule(listener, folder, fault, calls)
        elif here.fileno() in ready:
            said = here.recv(2**20)
            break
    here.close()
    os.close(listener)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and not hung
    error, _, trace = said.decode().partition("\n\n")
    return Outcome(tuple(calls), error, trace, killed, hung)


def _obey(work: Callable[[], None], to_parent: socket.socket) -> None:
    """Be the child: ask before every write, work, and tell how it ended."""
    listener = _install()
    socket.send_fds(to_parent, [b"!"], [listener])
    os.close(listener)
    said = ""
    try:
        work()
    except BaseException as error:  # noqa: BLE001  (whatever it is, the parent judges it)
        said = f"{type(error).__name__}: {error}".replace("\n\n", "\n") + f"\n\n{traceback.format_exc()}"
    to_parent.send(said.encode(errors="replace")[: 2**17] or b"\n\n")
    os._exit(0)


def _install() -> int:
    machine = platform.machine()
    numbers = list(_CALLS[machine].values())
    load, equal, end = 0x20, 0x15, 0x06
    allow, notify = 0x7FFF0000, 0x7FC00000
    code = [(load, 0, 0, 0)]
    code += [(equal, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    code += [(end, 0, 0, allow), (end, 0, 0, notify)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
    header = ctypes.create_string_buffer(struct.pack("H6xQ", len(code), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_rights, set_filter, new_listener = 38, 1, 1 << 3
    listener: int = -1
    if libc.prctl(no_new_rights, 1, 0, 0, 0) == 0:
        listener = libc.syscall(_SECCOMP[machine], set_filter, new_listener, ctypes.byref(header))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")
    return listener


def _rule(listener: int, folder: Path, fault: Fault | None, calls: list[str]) -> None:
    """Answer one question of the child."""
    question = bytearray(struct.calcsize(_NOTIFICATION))
    try:
        fcntl.ioctl(listener, _RECEIVE, question)
    except FileNotFoundError:  # the child ended while asking
        return
    key, process, _, number, _, _, *arguments = struct.unpack(_NOTIFICATION, question)
    name = next(name for name, known in _CALLS[platform.machine()].items() if known == number)
    denied = 0
    if _writes(name, arguments) and _target(process, name, arguments).startswith(f"{folder}/"):
        calls.append(name)
        if fault is not None and (len(calls) == fault.at or (fault.lasting and len(calls) > fault.at)):
            if fault.number == KILL:
                os.kill(process, signal.SIGKILL)
                return
            denied = fault.number
    answer = struct.pack(_ANSWER, key, 0, -denied, 0 if denied else _GO_ON)
    try:
        fcntl.ioctl(listener, _SEND, answer)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _writes(name: str, arguments: list[int]) -> bool:
    return name not in _FLAGS or bool(arguments[_FLAGS[name]] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _target(process: int, name: str, arguments: list[int]) -> str:
    """The file that a call is about."""
    try:
        if name not in _BY_PATH:
            return str(Path(f"/proc/{process}/fd/{arguments[0]}").readlink())
        with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
            memory.seek(arguments[_BY_PATH[name]])
            path = b""
            while b"\0" not in path and len(path) < _LONGEST_PATH:
                path += memory.read(256) or b"\0"
    except OSError:
        return ""
    return os.fsdecode(path.partition(b"\0")[0])
