"""Pages and figure of scored runs: those in the repository are what the script makes of their measures."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from experiments.paper_text import runs

from gape.core.errors import InputError

RESULTS = Path(__file__).parents[2] / "experiments" / "paper_text" / "results"
KEPT = ("pubmed-m2000", "reddit-m10000", "reddit-m10000-augpe", "reddit-m10000-augpe-votes")


def test_pages_are_those_of_the_measures_and_several_runs_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEPT:
        (tmp_path / name).mkdir()
        for file in ("evaluation.json", "settings.toml"):
            shutil.copy(RESULTS / name / file, tmp_path / name)
    folders = [str(tmp_path / name) for name in KEPT]
    monkeypatch.setattr(sys, "argv", ["runs.py", *folders, "--figure", str(tmp_path / "figure.png")])
    runs.main()
    for name in KEPT:
        assert (tmp_path / name / "table.md").read_text() == (RESULTS / name / "table.md").read_text()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", KEPT)
def test_a_page_has_every_measure_and_every_round(name: str) -> None:
    found = json.loads((RESULTS / name / "evaluation.json").read_text())
    rows = [line.strip("| ").split(" | ") for line in runs.page(runs.Run.of(RESULTS / name)).splitlines()]
    told = {row[0]: row for row in rows if len(row) > 1}
    for measures in found["groups"].values():
        for each in measures:
            assert float(told[each["name"]][1]) == pytest.approx(each["value"], rel=1e-3)
    for each in found["rounds"]:
        assert list(map(float, told[str(each["round"])])) == pytest.approx(list(each.values()), rel=1e-3)


def test_runs_that_stand_beside_one_another_differ_in_the_method_alone() -> None:
    mine, theirs, voting = (runs.Run.of(RESULTS / name) for name in KEPT[1:])
    for other, by in ((theirs, {"selector", "votes_per_record", "votes_per_unit"}), (voting, {"selector"})):
        assert {name for name, value in mine.settings.items() if other.settings[name] != value} == by
        assert mine.found["rounds"][0]["recall"] == other.found["rounds"][0]["recall"]
    assert mine.title == "Reddit, m = 10,000, epsilon 1, GAPE, one run"
    assert voting.title == "Reddit, m = 10,000, epsilon 1, AugPE, 64 votes, one run"


def test_a_folder_without_scores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no .*settings\.toml; name the folder of a run"):
        runs.Run.of(tmp_path)
