"""`gape evaluate` as a user calls it."""

import json
import sys
from pathlib import Path

import pytest

from command import gape, one_line_error
from made_up import CANARIES, leaks, private_rows, write_corpus, write_csv


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = private_rows(130)
    write_csv(tmp_path / "reviews.csv", rows[:90])
    write_csv(tmp_path / "others.csv", rows[90:])
    write_corpus(tmp_path / "public.txt")
    monkeypatch.chdir(tmp_path)
    small = ["--text", "review", "--samples", "6", "--rounds", "2", "--scales", "0.4,0.8"]
    assert gape("run", "reviews.csv", *small, "--epsilon", "4", "--generator", "corpus:public.txt").exit_code == 0
    return tmp_path


def test_a_run_is_scored_and_drawn(here: Path) -> None:
    done = gape("evaluate", "runs/reviews", "--private", "reviews.csv", "--held-out", "others.csv", "--real-baseline")
    assert done.exit_code == 0
    for words in ("NOT differentially private", "40 records that did not vote", "Nearness", "Texts", "Memorisation"):
        assert words in done.stdout
    for words in ("recall", "95% interval", "real records", "Round by round"):
        assert words in done.stdout
    internal = here / "runs" / "reviews" / "internal"
    assert (internal / "evaluation.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((internal / "evaluation.json").read_text())["differentially_private"] is False
    assert "evaluation" not in str(list((here / "runs" / "reviews" / "release").iterdir()))
    assert not any(canary in done.output for canary in CANARIES)
    assert leaks(here, here / "reviews.csv", here / "others.csv") == []


def test_without_records_held_out_it_says_in_sample(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = gape("evaluate", "runs/reviews", "--private", "reviews.csv", "--sample", "20", "--k", "2")
    assert done.exit_code == 0
    assert "IN-SAMPLE" in done.stdout
    assert "Round by round" in done.stdout
    assert not (here / "runs" / "reviews" / "internal" / "evaluation.png").exists()


def test_two_files(here: Path) -> None:
    assert gape("export", "runs/reviews", "--out", "made.csv").exit_code == 0
    done = gape("evaluate", "made.csv", "--private", "reviews.csv", "--text", "review")
    assert done.exit_code == 0
    assert "Nothing was written" in done.stdout
    kept = gape("evaluate", "made.csv", "--private", "reviews.csv", "--text", "review", "--out", "scores.json")
    assert kept.exit_code == 0
    assert json.loads((here / "scores.json").read_text())["rounds"] == []


def test_errors_come_in_one_line(here: Path) -> None:
    assert "does not exist" in one_line_error(gape("evaluate", "nothing", "--private", "reviews.csv"))
    assert "no column" in one_line_error(gape("evaluate", "runs/reviews", "--private", "reviews.csv", "--text", "x"))
    refused = gape("evaluate", "runs/reviews", "--private", "reviews.csv", "--out", "runs/reviews/release/x.json")
    assert "lies among the files that a run publishes" in one_line_error(refused)


def test_help_says_that_it_is_not_private() -> None:
    assert "NOT differentially private" in gape("evaluate", "--help").stdout


def test_only_an_evaluation_is_written_over(here: Path) -> None:
    asked = ["evaluate", "runs/reviews", "--private", "reviews.csv", "--sample", "20", "--k", "2", "--out"]
    whole = (here / "others.csv").read_bytes()
    assert "others.csv exists and is not an evaluation" in one_line_error(gape(*asked, "others.csv"))
    assert (here / "others.csv").read_bytes() == whole
    (here / "mine.json").write_text('["mine"]')
    assert "mine.json exists and is not an evaluation" in one_line_error(gape(*asked, "mine.json"))
    assert [gape(*asked, "found.json").exit_code for _ in range(2)] == [0, 0]
