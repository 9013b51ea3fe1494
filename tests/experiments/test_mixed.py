"""The experiment on reviews with stars runs from its files to its results."""

import csv
import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.mixed import grid, run, tables

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


README = Path(tables.__file__).with_name("README.md").read_text(encoding="utf-8")
DOCS = (Path(tables.__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_stored_runs() -> None:
    made = tables.tables()
    assert len(made) == 6
    for table in made:
        assert "\n".join(table) in README


def test_the_page_on_rows_has_the_means_of_the_stored_runs() -> None:
    lines = tables.reviews()
    records = [
        tables.chosen(lines, "start", variant="records", epsilon=4.0),
        *(tables.chosen(lines, "published", variant="records", epsilon=epsilon) for epsilon in (4.0, 1.0)),
        tables.chosen(lines, "real"),
    ]
    for key in ("stars accuracy", "stars balanced", "category accuracy", "stars distance", "W1 of texts"):
        means = [tables.figure(some, key).partition(" ")[0] for some in records]
        assert f"| {' | '.join(means)} |" in DOCS
    labels = [tables.chosen(lines, "published", variant="labels", epsilon=epsilon) for epsilon in (4.0, 1.0)]
    accuracy, balanced = (
        [tables.figure(some, key).partition(" ")[0] for some in labels] for key in ("stars accuracy", "stars balanced")
    )
    assert (
        f"accuracy of {accuracy[0]} and\n{accuracy[1]} and a balanced accuracy of {balanced[0]} and {balanced[1]}"
        in DOCS
    )


def test_the_page_on_rows_has_the_figures_of_strict_stars() -> None:
    lines, figures = tables.read("yelp-30.jsonl"), ("stars accuracy", "stars balanced", "stars distance", "W1 of texts")
    names = {"strict stars with words": "stars-strict", "stars with words": "stars", "labels without words": "labels"}
    rows = {name: tables.chosen(lines, "published", variant=variant) for name, variant in names.items()}
    for name, some in (rows | {"30 real reviews, five draws": tables.chosen(lines, "real")}).items():
        assert f"| {name} | {' | '.join(tables.figure(some, key).partition(' ')[0] for key in figures)} |" in DOCS
    strict, plain, labels = (some[0] for some in rows.values())
    assert plain["stars distance"] > 2 * strict["stars distance"]
    assert labels["stars balanced"] < tables.chosen(lines, "start", variant="stars-strict")[0]["stars balanced"]


def test_a_run_on_a_cpu_took_ten_minutes() -> None:
    (line,) = tables.chosen(tables.read("yelp-cpu.jsonl"), "published", epsilon=4.0)
    assert round(line["seconds"] / 60) == 10
    assert round(line["cpu seconds"] / 60) == 14


@pytest.mark.parametrize("epsilon", [4.0, 1.0])
def test_every_run_of_labels_is_behind_every_run_of_records(epsilon: float) -> None:
    runs = {
        variant: [
            line["stars balanced"]
            for line in tables.chosen(tables.reviews(), "published", variant=variant, epsilon=epsilon)
        ]
        for variant in ("records", "labels")
    }
    assert len(runs["records"]) == len(runs["labels"]) == 3
    assert max(runs["labels"]) < min(runs["records"])


def test_a_column_without_words_is_not_behind_labels_but_in_its_marginal() -> None:
    lines = tables.reviews()
    (column,) = tables.chosen(lines, "published", variant="stars-untold", epsilon=4.0)
    labels = tables.chosen(lines, "published", variant="labels", epsilon=4.0)
    real = np.mean([line["stars distance"] for line in tables.chosen(lines, "real")])
    mean = {key: float(np.mean([line[key] for line in labels])) for key in ("stars accuracy", "stars balanced")}
    assert column["stars balanced"] - mean["stars balanced"] == pytest.approx(0.041, abs=6e-4)
    assert mean["stars accuracy"] - column["stars accuracy"] == pytest.approx(0.008, abs=6e-4)
    assert max(line["stars distance"] for line in labels) < column["stars distance"] < real
    assert (
        f"reaches {tables.figure([column], 'stars accuracy')} and {tables.figure([column], 'stars balanced')}" in DOCS
    )


def test_the_others_go_the_way_that_is_said() -> None:
    journal, forum = (
        {
            f"{line['what']} {line.get('epsilon', '')}".strip(): line[key]
            for line in tables.read("grid.jsonl")
            if key in line
        }
        for key in ("journal by texts", "forum by texts")
    )
    way = journal["real 4.0"] - journal["start 4.0"]
    assert journal["published 4.0"] - journal["start 4.0"] == pytest.approx(way / 2, abs=0.01)
    assert journal["published 1.0"] - journal["start 1.0"] == pytest.approx(way / 4, abs=0.01)
    told = [journal["published 4.0"], journal["published 1.0"], journal["start 4.0"], journal["real 4.0"]]
    told += [forum["published 4.0"], forum["published 1.0"], forum["start 1.0"], forum["real 1.0"]]
    assert all(f"{value:.3f}".removeprefix("0") in DOCS for value in told)
