"""The command of benchmarks/soak.py, at a small size."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def soak(*arguments: str) -> dict[str, dict[str, str]]:
    """Run the command and return its tables of one row, by what they are about."""
    command = [sys.executable, "benchmarks/soak.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return {heads[0]: dict(zip(heads, cells, strict=True)) for heads, _, cells in zip(*[iter(rows)] * 3, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize(("run", "rounds", "samples"), [("vectors", 20, "40"), ("texts", 4, "6")])
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(run: str, rounds: int, samples: str) -> None:
    found = soak("--runs", run, f"--{run}", str(rounds), "--long", "12", "--seed", "8")
    killed, whole = found["killed"], found["in one process"]
    assert int(killed["kills"]) >= 2
    assert (killed["charged"], killed["samples"]) == (str(rounds), samples)
    assert killed["same as undisturbed"] == "yes"
    assert (killed["unfinished files"], killed["wrong"], whole["wrong"]) == ("0", "0", "0")
