"""What a run does when the system fails it, and when something has changed before it goes on."""

import os
import subprocess
import sys
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

import crashing
import parts
from gape._support.files import write_atomically
from gape.core.errors import GapeError, RunError
from gape.privacy.ledger import Ledger
from gape.report.facts import writing_seconds
from gape.runs.folder.layout import Layout

ROOT = Path(__file__).parents[2]


def test_a_write_that_fails_costs_neither_samples_nor_budget() -> None:
    """The command of benchmarks/faults.py, on every 67th pair of a write and a fault."""
    command = [sys.executable, "benchmarks/faults.py", "--step", "67"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    tables = done.stdout.split("\n\n")[:2]
    assert [table.partition(":")[0] for table in tables] == ["vectors", "texts"], done.stderr
    for table in tables:
        rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
        found = {row[0]: dict(zip(rows[0][1:], map(int, row[1:]), strict=True)) for row in rows[2:]}
        whole = found.pop("all")
        assert whole["injected"] >= 15
        assert len(found) == 7
        assert all(each["injected"] >= 2 for each in found.values())
        assert found["SIGKILL"]["absorbed"] == 0
        assert not any(whole[column] for column in ("budget", "samples", "left over", "unclear", "hung"))


@pytest.mark.parametrize("failing", ["open", "fsync", "replace"])
def test_a_file_is_whole_or_what_it_was(tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if failing == "fsync" else Path, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path, processes: ForkServerContext) -> None:
    """The lock is the system's, and ends with its holder."""
    first = processes.Process(target=crashing.die, args=(tmp_path, 30, parts.BUDGET))
    first.start()
    first.join(60)
    assert first.exitcode == -9  # in the middle of its run
    ledger = Ledger(tmp_path / "ledger")
    parts.small_run(tmp_path / "run", ledger)
    assert ledger.releases() == parts.PLAN.releases
    ledger.close()


def test_a_clock_that_jumps_changes_no_result(tmp_path: Path) -> None:
    """Times are shown and never decided by: with files of the future and the past a run is what it was."""
    with_ledger(tmp_path)
    rounds = tmp_path / "run" / "internal" / "rounds"
    assert len(writing_seconds(Layout(tmp_path / "run"), 2)) in {0, 2}
    for number, path in enumerate(sorted(tmp_path.rglob("*"), reverse=True)):
        os.utime(path, (10**9 * number % 7919, 10**9 * number % 7919))
    os.utime(rounds / "001" / "candidates.parquet", (5, 5))
    os.utime(rounds / "000" / "synthetic.parquet", (9 * 10**9, 9 * 10**9))
    assert writing_seconds(Layout(tmp_path / "run"), 2) == []  # rather than a time that is not true
    with_ledger(tmp_path)


def test_another_plan_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with_ledger(tmp_path)
    ledger = Ledger(tmp_path / "ledger")
    other = replace(parts.PLAN, scales=(0.1, 0.02))
    with pytest.raises(RunError, match="was started with scales") as refused:
        parts.small_run(tmp_path / "run", ledger, plan=other)
    assert "\n" not in str(refused.value)
    ledger.close()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Nothing is charged for a run that could not have kept its result."""
    ledger = Ledger(tmp_path / "ledger", parts.BUDGET)
    (tmp_path / "taken").write_text("a file")
    with pytest.raises((OSError, GapeError)):
        parts.small_run(tmp_path / "taken" / "run", ledger)
    assert ledger.releases() == ()
    ledger.close()


def with_ledger(folder: Path) -> None:
    ledger = Ledger(folder / "ledger", parts.BUDGET)
    parts.small_run(folder / "run", ledger)
    assert ledger.releases() == parts.PLAN.releases
    ledger.close()
