import gc
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from gape._support.databases import closed_with


class Owner:
    def __init__(self, path: Path) -> None:
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE t (x)")
        self.close = closed_with(self, database)
        self.itself = self  # so that only a collection of garbage frees it


def is_open(path: Path) -> bool:
    folder = Path("/proc/self/fd")
    return any(os.path.realpath(folder / name) == str(path) for name in os.listdir(folder))  # noqa: PTH208  (names)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the open files of a process")
class TestClosedWith:
    def test_an_owner_that_another_thread_collects(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        raised: list[object] = []
        monkeypatch.setattr(sys, "unraisablehook", raised.append)
        path = tmp_path / "x.sqlite"
        Owner(path)
        assert is_open(path)
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        gc.collect()
        assert raised == []
        assert not is_open(path)

    def test_it_is_closed_when_asked_to(self, tmp_path: Path) -> None:
        owner = Owner(tmp_path / "x.sqlite")
        owner.close()
        assert not is_open(tmp_path / "x.sqlite")
