"""`gape compare` as a user calls it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import gape, one_line_error
from made_up import CANARIES, leaks, private_rows, write_corpus, write_csv

SMALL = ["--text", "review", "--generator", "corpus:public.txt", "--samples", "5", "--rounds", "2"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_csv(tmp_path / "reviews.csv", private_rows())
    write_corpus(tmp_path / "public.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_comparison_from_the_first_cell_to_a_larger_grid(here: Path) -> None:
    first = gape("compare", "reviews.csv", *SMALL, "--methods", "gape,augpe", "--epsilons", "4", "--seeds", "1")
    assert first.exit_code == 0
    for words in ("NOT differentially private", "Recall of held-out records", "GAPE", "AugPE", "epsilon 4"):
        assert words in first.stdout
    assert "3 of 3 cells" in first.stderr
    folder = here / "comparisons" / "reviews"
    for name in ("table.md", "figure.png", "figure.svg", "results.csv", "results.parquet", "README.md"):
        assert (folder / name).exists()

    more = gape("compare", "reviews.csv", *SMALL, "--methods", "gape,augpe", "--epsilons", "4,inf", "--seeds", "1")
    assert more.exit_code == 0
    assert "no noise" in more.stdout
    assert "5 of 5 cells" in more.stderr
    assert "2 of 5 cells" not in more.stderr  # three were there

    assert "was started with rounds 2, not 3" in one_line_error(
        gape("compare", "reviews.csv", *SMALL[:-1], "3", "--methods", "gape", "--epsilons", "4", "--seeds", "1")
    )
    assert not any(canary in first.output + more.output for canary in CANARIES)
    assert leaks(here, here / "reviews.csv") == []
    assert not list(here.glob("*ledger*"))


def test_methods_are_run_by_name_and_as_published(here: Path) -> None:
    names = "gape,augpe,ranking,ranking:2"
    grid = ["--methods", names, "--epsilons", "4", "--seeds", "1", "--as-published", "--jobs", "1"]
    result = gape("compare", "reviews.csv", *SMALL, *grid)
    assert result.exit_code == 0
    for words in ("GAPE", "AugPE", "Ranking, 2 votes", "start of AugPE", "as many real records"):
        assert words in result.stdout
    assert len(list((here / "comparisons" / "reviews" / "cells").glob("*.json"))) == 5


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(here: Path) -> None:
    arguments = ["compare", "reviews.csv", *SMALL, "--epsilons", "1,2,4,8", "--seeds", "4", "--jobs", "2"]
    command = [sys.executable, "-c", "from gape.cli import main; main()", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    cells = here / "comparisons" / "reviews" / "cells"
    until = time.monotonic() + 120
    while len(list(cells.glob("*.json"))) < 2:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    out, err = process.communicate()
    assert process.returncode == 130
    assert "repeat the command to resume" in err
    assert "Traceback" not in err
    assert 2 <= len(list(cells.glob("*.json"))) < 52
    assert not any(canary in out + err for canary in CANARIES)


def test_help_says_that_it_is_not_private() -> None:
    shown = " ".join(gape("compare", "--help").stdout.split())
    assert "NOT differentially private" in shown
    assert "nothing is charged to a ledger" in shown.replace("│", " ").replace("  ", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "1"], "list them as epsilons"),
        (["--epsilons", "a"], "epsilons must be numbers separated by commas"),
        (["--epsilons", "0"], "epsilons must be positive"),
        (["--methods", "best"], "methods must be among"),
        (["--methods", "ranking:0"], "must be a whole number from 1"),
        (["--as-published", "--preset", "augpe"], "leave one of the two out"),
        (["--selector", "ranking"], "list them as methods"),
        (["--held-out", "1"], "held_out must lie between 0 and 1"),
        (["--jobs", "-1"], "jobs must be at least 1"),
        (["--budget-epsilon", "3"], "spends no budget"),
        (["--generator", "hf:a", "--also", "hf:b"], "a comparison has one generator, got also 'hf:b'; leave it out"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(here: Path, arguments: list[str], message: str) -> None:
    assert message in one_line_error(gape("compare", "reviews.csv", *SMALL, *arguments))
    assert not (here / "comparisons").exists()
