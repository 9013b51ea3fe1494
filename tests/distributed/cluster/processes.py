"""Looking at the processes of a cluster, and killing one of its workers at work."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def descendants() -> dict[int, str]:
    """The processes that this one has started, and those that they have, with their command lines."""
    children: dict[int, list[int]] = {}
    commands = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "stat").read_text(), (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(folder.name))
        commands[int(folder.name)] = command.replace("\0", " ")
    found, open_ = {}, children.get(os.getpid(), [])
    while open_:
        process = open_.pop()
        found[process] = commands[process]
        open_ += children.get(process, [])
    return found


@contextmanager
def killed_at_work(pid: int) -> Iterator[threading.Event]:
    """Kill a process, as kill -9 does, once it has computed for some tenths of a second; the event says that it was."""
    killed, over = threading.Event(), threading.Event()
    before = _seconds_of_work(pid)

    def kill() -> None:
        while not over.is_set():
            if _seconds_of_work(pid) > before + 0.15:
                os.kill(pid, signal.SIGKILL)
                killed.set()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _seconds_of_work(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
