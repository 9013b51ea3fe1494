"""A run that is killed at any write resumes to the same result, is charged once, and leaves nothing private."""

import json
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import crashing
import parts
from gape.core.types import Samples
from gape.modalities.arrow import samples_from_arrow
from gape.privacy.ledger import Budget, Ledger
from gape.voting.nearest import nearest_votes


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of runs wait for the disk otherwise, which proves no more."""
    memory = Path("/dev/shm")  # noqa: S108  (a fresh folder inside it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


def in_child(processes: ForkServerContext, target: Any, *arguments: Any) -> int:
    child = processes.Process(target=target, args=arguments)
    child.start()
    child.join(120)
    assert child.exitcode is not None
    return child.exitcode


def published(folder: Path) -> Samples:
    return samples_from_arrow(pq.read_table(folder / "run" / "release" / "synthetic.parquet")["sample"])


def arrays_on_disk(folder: Path) -> Iterator[np.ndarray]:
    """Every array of numbers that anybody could read off these files: columns, blobs and lists."""
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            for name in table.column_names:
                samples = samples_from_arrow(table[name]) if name == "sample" else table[name].to_numpy()
                yield np.asarray(samples)
        elif path.suffix == ".json":
            yield from _lists(json.loads(path.read_text()))
        elif path.name == "ledger":
            with sqlite3.connect(path) as database:
                tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'releases'").fetchall()
                for (blob,) in database.execute("SELECT votes FROM releases") if tables else ():
                    yield np.frombuffer(blob, dtype="<i8")
            database.close()


def _lists(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _lists(item)
    elif isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        yield np.array(value)


def exact_counts(folder: Path) -> list[np.ndarray]:
    """What the votes of each round would be without noise."""
    rounds = sorted((folder / "run" / "internal" / "rounds").glob("*/candidates.parquet"))
    candidates = (samples_from_arrow(pq.read_table(path)["sample"]) for path in rounds)
    return [nearest_votes(parts.private_points(), points) for points in candidates]


def secrets_found(folder: Path) -> list[str]:
    """Look for exact counts and private records in every file, decoded and as raw bytes."""
    found = []
    private = {row.tobytes() for row in parts.private_points()}
    counts = exact_counts(folder)
    for array in arrays_on_disk(folder):
        if any(array.shape == exact.shape and np.array_equal(array, exact) for exact in counts):
            found.append("exact counts")
        if array.ndim == 2 and any(row.tobytes() in private for row in array.astype(np.float32)):
            found.append("private record")
    for path in (path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for exact in counts:
            text = json.dumps(exact.tolist())
            spellings = [exact.astype(kind).tobytes() for kind in ("<i8", "<i4", "<u4", "<f8", "<f4")]
            if any(spelling in content for spelling in [*spellings, text.encode(), text[1:-1].encode()]):
                found.append(f"exact counts in {path.name}")
        if any(row in content for row in private):
            found.append(f"private record in {path.name}")
    return found


def test_killed_at_every_write_it_resumes_to_the_same_end(folder: Path, processes: ForkServerContext) -> None:
    (folder / "whole").mkdir()
    answers = processes.Queue()
    assert in_child(processes, crashing.report_writes, folder / "whole", parts.BUDGET, answers) == 0
    writes = answers.get(timeout=10)
    assert writes > 40
    whole = published(folder / "whole")
    assert secrets_found(folder / "whole") == []

    for kill_at in range(1, writes + 1):
        here = folder / str(kill_at)
        here.mkdir()
        assert in_child(processes, crashing.die, here, kill_at, parts.BUDGET) == -signal.SIGKILL
        assert secrets_found(here) == []
        # The budget is exactly two releases: a round that were charged twice would be refused here.
        ledger = Ledger(here / "ledger", parts.BUDGET)
        parts.small_run(here / "run", ledger)
        assert np.array_equal(published(here), whole)
        assert ledger.releases() == parts.PLAN.releases
        ledger.close()
        assert secrets_found(here) == []
        assert not list(here.rglob("*.tmp"))


def test_killed_again_and_again_it_still_ends(folder: Path, processes: ForkServerContext) -> None:
    (folder / "whole").mkdir()
    assert in_child(processes, crashing.die, folder / "whole", 0, parts.BUDGET) == 0
    often = folder / "often"
    often.mkdir()
    # Opening and resuming is itself a dozen writes, so each life gets a little further than the last.
    lives = [in_child(processes, crashing.die, often, kill_at, parts.BUDGET) for kill_at in range(10, 40, 2)]
    assert lives.count(-signal.SIGKILL) >= 5
    assert in_child(processes, crashing.die, often, 0, parts.BUDGET) == 0
    assert np.array_equal(published(often), published(folder / "whole"))
    ledger = Ledger(often / "ledger")
    assert ledger.releases() == parts.PLAN.releases
    ledger.close()


@pytest.mark.parametrize("planted", ["counts", "record"])
def test_the_search_for_secrets_finds_them(tmp_path: Path, planted: str) -> None:
    ledger = Ledger(tmp_path / "ledger", Budget(parts.BUDGET.epsilon, parts.BUDGET.delta))
    parts.small_run(tmp_path / "run", ledger)
    ledger.close()
    assert secrets_found(tmp_path) == []
    if planted == "counts":
        (tmp_path / "run" / "log.json").write_text(json.dumps({"debug": exact_counts(tmp_path)[0].tolist()}))
    else:
        (tmp_path / "run" / "cache.bin").write_bytes(b"..." + parts.private_points()[17].tobytes())
    assert secrets_found(tmp_path)
