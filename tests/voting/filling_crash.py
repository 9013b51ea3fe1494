"""Fills a folder in processes that are killed, each at another write, and says which did not end as they should.

A program of its own, with one thread: its children are forks.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from voting.folders import fill

_WRITES = {"os.rename", "os.mkdir", "os.chmod", "os.remove", "os.rmdir"}
POINTS = np.random.default_rng(0).standard_normal((25, 3), dtype=np.float32)
USERS = [f"user {i * i % 7}" for i in range(25)]
LABELS = [f"label {i % 4}" for i in range(25)]


def work(folder: Path) -> None:
    fill(folder, POINTS, users=USERS, labels=LABELS, batch=10, shard=4 * 3 * 8)


def content(folder: Path) -> dict[str, tuple[int, str]]:
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {
        name: (path.stat().st_mode, path.read_bytes().hex() if path.is_file() else "") for name, path in files.items()
    }


def in_fork(step: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        step()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def until(folder: Path, kill_at: int) -> Callable[[], None]:
    """Fill until write number `kill_at`; with 0 to the end, leaving the number of writes beside the folder."""
    writes = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal writes
        inside = event == "open" and str(arguments[0]).startswith(str(folder))
        flags = arguments[2] if inside and isinstance(arguments[2], int) else os.O_RDONLY
        if event in _WRITES or flags & (os.O_WRONLY | os.O_RDWR):
            writes += 1
            if writes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def step() -> None:
        sys.addaudithook(hook)
        work(folder)
        folder.with_suffix(".writes").write_text(str(writes))

    return step


def main(scratch: Path) -> None:
    folder = scratch / "vectors"
    in_fork(until(folder, 0))
    writes, expected = int(folder.with_suffix(".writes").read_text()), content(folder)
    survived, different = [], []
    for kill_at in range(1, writes + 1):
        shutil.rmtree(folder)
        if not os.WIFSIGNALED(in_fork(until(folder, kill_at))):
            survived.append(kill_at)
        if not (folder / "gape-vectors.json").exists():  # else only `partial` is left, for the caller to drop
            in_fork(lambda: work(folder))
        shutil.rmtree(folder / "partial", ignore_errors=True)
        if content(folder) != expected:
            different.append(kill_at)
    sys.stdout.write(json.dumps({"writes": writes, "survived": survived, "different": different}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
