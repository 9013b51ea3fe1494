"""Spoiled files are read or refused in one sentence; the search for others finds what it is to find."""

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.searching import examine
from fuzz.targets import CANARY, Target, targets
from gape.core.errors import InputError, RunError
from gape.report import write_report
from gape.runs.export import export

ROOT = Path(__file__).parents[2]
KINDS = "CSV,JSON lines,text,gzip,parquet,arrow folder,images,settings,prompts,run folder,ledger,answers"


def test_spoiled_files_are_read_or_refused_in_one_sentence() -> None:
    """The command of benchmarks/fuzz.py, at a small size."""
    command = [sys.executable, "benchmarks/fuzz.py", "--inputs", "1200", "--seed", "3", "--kinds", KINDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {row[0]: [int(cell) for cell in row[1:]] for row in rows_of(done.stdout) if row[0] in KINDS.split(",")}
    assert set(counts) == set(KINDS.split(","))
    for inputs, accepted, refused, *rest in counts.values():
        assert inputs == 100
        assert accepted > 0
        assert refused > 10
        assert rest == [0] * 5


def test_received_folders_connect_nowhere_and_show_no_secret() -> None:
    """The command of benchmarks/fuzz.py, at a small size."""
    command = [sys.executable, "benchmarks/fuzz.py", "received", "--inputs", "66", "--seed", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 connections to the sender's server, 0 bytes received" in done.stdout
    assert rows_of(done.stdout)[-1] == ["all", "66", "66", *["0"] * 6]


def test_the_search_of_received_folders_finds_one_that_is_believed() -> None:
    """The same with every folder taken for the user's own: the sender's server is asked, under the user's token."""
    code = (
        "import runpy, sys; from gape.runs.folder.sealed import SealedSettings; "
        "SealedSettings.own = property(lambda self: True); "
        "sys.argv = ['benchmarks/fuzz.py', 'received', '--inputs', '12', '--kinds', 'embedded elsewhere']; "
        "sys.path.insert(0, 'benchmarks'); runpy.run_path('benchmarks/fuzz.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.search(r"^(\d+) connections to the sender's server, (\d+) bytes received$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    assert int(found[1]) > 0
    assert int(found[2]) > 100


def rows_of(table: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]


def _allocate(folder: Path, rng: random.Random) -> None:
    assert len(bytearray(2**32)) > rng.random()


def _never_end(folder: Path, rng: random.Random) -> None:
    while True:
        rng.random()


def _say(message: str) -> Target:
    def use(folder: Path, rng: random.Random) -> None:
        raise InputError(message)

    return Target(_nothing, use)


def _nothing(folder: Path, rng: random.Random) -> None:
    pass


def _look_up(folder: Path, rng: random.Random) -> None:
    assert {"here": 1}["missing"]


def _crash(folder: Path, rng: random.Random) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_search_finds_what_breaks(tmp_path: Path) -> None:
    planted = {
        "whole": Target(_nothing, _nothing),
        "refused": _say("this is not possible; do that"),
        "two lines": _say("this is\nnot possible"),
        "private": _say(f"{CANARY} is ill"),
        "wrong type": Target(_nothing, _look_up),
        "endless": Target(_nothing, _never_end, seconds=0.3),
        "greedy": Target(_nothing, _allocate),
        "crash": Target(_nothing, _crash),
    }
    counts, found = examine(planted, 0, 2 * len(planted), tmp_path)
    assert dict(counts.keys()) == {
        "whole": "accepted",
        "refused": "refused",
        "two lines": "unclear",
        "private": "unclear",
        "wrong type": "tracebacks",
        "endless": "hangs",
        "greedy": "over memory",
        "crash": "killed",
    }
    assert set(counts.values()) == {2}
    assert len(found) == 12


def test_inputs_follow_from_their_seed(tmp_path: Path) -> None:
    kinds = targets(tmp_path)
    for kind in ("CSV", "JSON lines", "parquet", "settings"):
        made = []
        for _ in range(2):
            folder = tmp_path / "made"
            folder.mkdir()
            kinds[kind].make(folder, random.Random("7"))  # noqa: S311  (inputs that can be repeated)
            (path,) = folder.iterdir()
            made.append(path.read_bytes())
            path.unlink()
            folder.rmdir()
        assert made[0] == made[1]


@pytest.mark.parametrize("place", ["internal/rounds/002/synthetic.parquet", "release/synthetic.parquet", "release"])
def test_links_in_a_run_folder_are_refused(tmp_path: Path, place: str) -> None:
    targets(tmp_path)
    run, elsewhere = tmp_path / "texts", tmp_path / "elsewhere"
    (run / place).rename(elsewhere)
    (run / place).symlink_to(elsewhere)
    with pytest.raises(RunError, match="symbolic link"):
        export(run, tmp_path / "out.csv", "csv")
    with pytest.raises(RunError, match="symbolic link"):
        write_report(run, tmp_path / "report.html", with_map=False)
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "report.html").exists()
