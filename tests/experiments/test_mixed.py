"""The experiment on reviews with stars runs from its files to its results."""

import csv
import gzip
import json
import sys
from pathlib import Path

import pytest
from experiments.mixed import grid, run

from small_model import FOLDER


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    for name in ("dev", "test"):
        with gzip.open(tmp_path / f"yelp_augpe_{name}.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label1", "label2"])
            for i in range(40):
                kind = ("Bars", "Grocery")[i % 2]
                writer.writerow([f"The soup of day {i} was fine.", f"Category: {kind}", f"Stars: {1 + i % 5}.0"])
    return tmp_path


@pytest.mark.slow
def test_every_round_is_scored(reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    asked = ["real", "records:4:0", "--topics", "dogs", "cats", "--data", reviews, "--model", f"hf:{FOLDER}"]
    sizes = ["--samples", "3", "--rounds", "1", "--out", out]
    monkeypatch.setattr(sys, "argv", ["grid.py", *map(str, [*asked, *sizes])])
    grid.main()
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [line["what"] for line in lines] == ["guessing", *["real"] * 5, "start", "round 1", "published"]
    assert lines[0]["stars accuracy"] == 0.2
    assert [line["count"] for line in lines[6:]] == [24, 3, 3]
    assert {"category accuracy", "stars distance", "repeating"} <= lines[-1].keys()
    assert len((out / "records-4-0.jsonl").read_text().splitlines()) == 3


def test_a_variant_without_words_has_a_schema_without_them(tmp_path: Path) -> None:
    told, untold = (run.schema_of(run.Variant(told=told), tmp_path).read_text() for told in (True, False))
    assert "means" in told
    assert "means" not in untold
    assert "openings" not in untold
    assert "[category]" in untold
    assert untold.endswith("weight = 1.0\n")
    assert "category" not in run.schema_of(run.Variant(category=False), tmp_path).read_text()


def test_the_sets_name_runs_that_there_are() -> None:
    for runs in grid.SETS.values():
        assert len(set(runs)) == len(runs)
        assert all(grid.parts(name)[1] in {1, 4} for name in runs)
