"""Runs of tables with the default settings: a survey and no rounds. And runs with a survey and rounds, and a kill."""

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gape
from command import gape as command
from gape.audit import audit_run
from gape.core.errors import RunError
from gape.core.types import NoisyVotes
from gape.modalities import Rows, Schema
from gape.modalities.rows.columns import Numbers
from gape.privacy.ledger import Ledger
from gape.report import write_report
from gape.runs.export import export
from gape.runs.folder.record import read_run
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from modalities.rows.animals import ANIMALS, SCHEMA
from report.reading import data_of, words_of


def animals(count: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    lines = ["age,kind,sound,weight,keeper"]
    for number in range(count):
        kind, sound, weight = ANIMALS[rng.random() < 0.3]
        heavy = "" if rng.random() < 0.1 else round(weight * rng.uniform(0.8, 1.2), 1)
        lines.append(f"{rng.integers(1, 15)},{kind},{sound},{heavy},k{number // 3}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("surveyed")
    (place / "schema.toml").write_text(SCHEMA)
    for name, seed in (("private", 0), ("held-out", 1)):
        (place / f"{name}.csv").write_text(animals(3_000 if name == "private" else 600, seed))
    return place


def settings_of(folder: Path, **values: Any) -> Settings:
    usual = {"data": str(folder / "private.csv"), "schema": str(folder / "schema.toml"), "epsilon": 4.0}
    return Settings.of({**usual, "samples": 500, "ledger": str(folder / "ledger.sqlite"), **values})


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    run_text(settings_of(folder), folder / "run")
    return folder / "run"


def test_rows_follow_the_data(run: Path) -> None:
    rows = pq.read_table(run / "release" / "synthetic.parquet").to_pylist()
    assert len(rows) == 500
    assert np.mean([(row["kind"], row["sound"]) in {("cat", "meow"), ("dog", "woof")} for row in rows]) > 0.9
    assert np.mean([row["age"] < 15 for row in rows]) > 0.9
    assert 0.6 < np.mean([row["kind"] == "cat" for row in rows]) < 0.8
    assert 0.02 < np.mean([row["weight"] is None for row in rows]) < 0.2


def test_the_statement_and_the_books_count_the_answers(run: Path, folder: Path) -> None:
    record = read_run(run)
    statement = json.loads((run / "release" / "privacy.json").read_text())
    assert statement["private"] is True
    assert statement["epsilon"] == pytest.approx(4, rel=1e-3)
    assert tuple(statement["answers"]) == record.plan.answers
    words = (run / "release" / "PRIVACY.txt").read_text()
    assert (
        f"3 adaptive releases of the answers to public questions, at most {sum(record.plan.answers)} answers" in words
    )
    assert "votes" not in words
    found = audit_run(run, folder / "ledger.sqlite")
    assert found.passed, found.text()
    assert found.releases == 3


def test_answers_that_were_changed_are_found_in_the_books(folder: Path, tmp_path: Path) -> None:
    run_text(settings_of(folder, ledger=str(tmp_path / "ledger")), tmp_path / "run")
    file = tmp_path / "run" / "internal" / "rounds" / "000" / "answers-2.parquet"
    table = pq.read_table(file)
    column = table["noisy_votes"].to_numpy().copy()
    column[0] += 1
    pq.write_table(table.set_column(0, "noisy_votes", [column]), file)
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert [check.name for check in found.checks if not check.passed] == ["votes"]


def test_a_survey_alone_is_not_scored_round_by_round(run: Path, folder: Path, tmp_path: Path) -> None:
    done = command("evaluate", run, "--private", folder / "private.csv", "--out", tmp_path / "scores.json")
    assert done.exit_code == 0
    assert "TV1" in done.stdout
    assert "Round by round" not in done.stdout
    assert not (tmp_path / "scores.png").exists()


def test_the_report_shows_rows_in_words_and_no_cost(run: Path, tmp_path: Path) -> None:
    page = write_report(run, tmp_path / "report.html", with_map=False)
    row = pq.read_table(run / "release" / "synthetic.parquet").to_pylist()[0]
    assert data_of(page)["texts"][0] == " · ".join(
        f"{name}: {'' if cell is None else cell}" for name, cell in row.items()
    )
    said = words_of(page)
    assert "Cost and settings Settings" in said


@pytest.mark.parametrize("line", ["no row", '["age"]', '{"kind": [1]}'])
def test_a_folder_whose_samples_are_no_rows_is_refused(run: Path, tmp_path: Path, line: str) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "release")
    file = tmp_path / "run" / "internal" / "rounds" / "000" / "synthetic.parquet"
    pq.write_table(pa.table({"sample": [line] * 500}), file)
    with pytest.raises(RunError, match="has no column 'sample' of vectors or texts"):
        write_report(tmp_path / "run", with_map=False)


def test_more_rows_score_no_worse(run: Path, folder: Path, tmp_path: Path) -> None:
    more = gape.expand(run, 2_000)
    assert len(more) == 2_000
    (tmp_path / "more.jsonl").write_text("\n".join(more) + "\n")
    kinds: dict[str, Any] = {
        "schema": str(folder / "schema.toml"),
        "label": "kind",
        "held_out": folder / "held-out.csv",
    }
    after = gape.evaluate(tmp_path / "more.jsonl", folder / "private.csv", **kinds)
    before = gape.evaluate(run, folder / "private.csv", label="kind", held_out=folder / "held-out.csv")
    for name in ("TV1", "TV2"):
        assert after.value(name) < before.value(name) + 0.03
    assert after.value("AUC") > before.value("AUC") - 0.02


def test_it_is_reported_and_exported(run: Path, tmp_path: Path) -> None:
    assert command("report", run, "--out", tmp_path / "report.html").exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "500 rows that fit the answers of private records to public questions. Noise was added" in page
    assert "initial rows" not in page
    assert "Signal and noise" not in page
    assert "none: the rows fit a survey" in command("status", run).stdout


def test_an_evaluation_without_rounds_has_no_table_and_no_chart_of_rounds(run: Path, folder: Path) -> None:
    done = command("evaluate", run, "--private", folder / "private.csv", "--held-out", folder / "held-out.csv")
    assert done.exit_code == 0
    assert "TV1" in done.stdout
    assert "Round by round" not in done.stdout
    assert done.stdout.splitlines()[-1].endswith("evaluation.json")
    assert json.loads((run / "internal" / "evaluation.json").read_text())["rounds"] == []
    assert not (run / "internal" / "evaluation.png").exists()


class StoppedError(Exception):
    """A kill."""


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_run_that_stops_in_its_survey_resumes_with_the_answers_it_paid_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    charge, made = Ledger.charge, []

    def stopping(self: Ledger, *given: Any, **options: Any) -> NoisyVotes:
        votes = charge(self, *given, **options)
        made.append(votes)
        if len(made) == after + 1:
            raise StoppedError
        return votes

    settings = settings_of(folder, ledger=str(tmp_path / "ledger"), rounds=2, survey=True, samples=40)
    monkeypatch.setattr(Ledger, "charge", stopping)
    with pytest.raises(StoppedError):
        run_text(settings, tmp_path / "run")
    run_text(settings, tmp_path / "run")
    record = read_run(tmp_path / "run")
    for paid, kept in zip(made, record.answers(), strict=False):
        np.testing.assert_array_equal(paid, kept)
    with closing(Ledger(tmp_path / "ledger")) as ledger:
        assert len(ledger.releases()) == len(made) == 5
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert found.passed, found.text()
    assert found.plan.rounds == 2


SHAPES = """
[width]
least = 0
most = 31

[height]
least = 0
most = 31

[depth]
least = 0.0
most = 1.0
decimals = 2

[shape]
choices = ["flat", "even", "tall"]
"""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of numbers and a class, which width and height tell together and neither of them alone."""
    place, rng = tmp_path_factory.mktemp("shapes"), np.random.default_rng(0)
    (place / "schema.toml").write_text(SHAPES)
    size = rng.integers(0, 32, (3_000, 2))
    shape = np.where((size[:, 0] >= 16) == (size[:, 1] >= 16), rng.choice(["flat", "even"], 3_000), "tall")
    depth = rng.random(3_000).round(2)
    lines = [f"{w},{h},{d},{kind}" for (w, h), d, kind in zip(size, depth, shape, strict=True)]
    (place / "private.csv").write_text("\n".join(["width,height,depth,shape", *lines]) + "\n")
    return place


def right(rows: list[dict[str, Any]]) -> float:
    """The share of rows that are tall where only one of width and height is large; half by chance."""
    return float(np.mean([(row["shape"] == "tall") == ((row["width"] < 16) != (row["height"] < 16)) for row in rows]))


def test_a_table_of_numbers_and_a_class_is_asked_a_fourth_time(shapes: Path) -> None:
    run_text(settings_of(shapes), shapes / "run")
    record = read_run(shapes / "run")
    assert len(record.plan.answers) == 4
    words = (shapes / "run" / "release" / "PRIVACY.txt").read_text()
    assert (
        f"4 adaptive releases of the answers to public questions, at most {sum(record.plan.answers)} answers" in words
    )
    found = audit_run(shapes / "run", shapes / "ledger.sqlite")
    assert found.passed, found.text()
    assert found.releases == 4
    made = pq.read_table(shapes / "run" / "release" / "synthetic.parquet").to_pylist()
    assert right(made) > 0.7
    assert right([json.loads(line) for line in gape.expand(shapes / "run", 2_000)]) > 0.7


@pytest.mark.parametrize(("before", "after"), [(False, 3), (False, 4), (True, 2)])
def test_a_run_that_stops_before_its_class_resumes_as_it_began(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, before: bool, after: int
) -> None:
    """`before`: begun by an earlier version, without a fourth release."""
    charge, made = Ledger.charge, []

    def stopping(self: Ledger, *given: Any, **options: Any) -> NoisyVotes:
        made.append(charge(self, *given, **options))
        if len(made) == after:
            raise StoppedError
        return made[-1]

    settings = settings_of(shapes, ledger=str(tmp_path / "ledger"), samples=100)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge", stopping)
        if before:
            patched.setattr("gape.modalities.rows.survey.class_column", lambda _: None)
        with pytest.raises(StoppedError):
            run_text(settings, tmp_path / "run")
    run_text(settings, tmp_path / "run")
    record = read_run(tmp_path / "run")
    assert len(record.plan.answers) == len(record.answers()) == (3 if before else 4)
    for paid, kept in zip(made, record.answers(), strict=False):
        np.testing.assert_array_equal(paid, kept)
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert found.passed, found.text()
    assert len(gape.expand(tmp_path / "run", 150)) == 150


def test_users_answer_with_one_record_each(folder: Path, tmp_path: Path) -> None:
    run_text(settings_of(folder, user="keeper", ledger=str(tmp_path / "ledger")), tmp_path / "run")
    record = read_run(tmp_path / "run")
    columns = len(Schema.read(folder / "schema.toml").columns)
    answers, sigma = record.answers()[0], record.plan.sigma
    counted = answers.sum() / (record.plan.answers[0] / columns) / columns  # of 1,000 keepers
    assert abs(counted - 1_000) < 10 * sigma * np.sqrt(len(answers)) / record.plan.answers[0]
    assert "user" in (tmp_path / "run" / "release" / "PRIVACY.txt").read_text()


def test_the_number_of_records_may_be_private(folder: Path, tmp_path: Path) -> None:
    private = {"neighbours": "add_remove", "delta": 1e-5, "ledger": str(tmp_path / "ledger")}
    run_text(settings_of(folder, **private), tmp_path / "run")
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert found.passed, found.text()
    assert "the number of records" not in (tmp_path / "run" / "release" / "PRIVACY.txt").read_text()


@pytest.mark.parametrize(
    ("chosen", "told"),
    [({}, ", 3,000 so far"), ({"user": "keeper"}, ""), ({"neighbours": "add_remove", "delta": 1e-5}, "")],
)
def test_reading_reports_how_far_it_is_unless_the_number_of_records_is_private(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr("gape.runs.electorate._INTERVAL", 0.0)
    seen: list[gape.Progress] = []
    run_text(settings_of(folder, samples=50, ledger=":memory:", **chosen), tmp_path / "run", progress=seen.append)
    reading = [now.doing for now in seen if now.doing.startswith("reading")]
    assert reading[-1] == f"reading the private rows{told}"
    assert seen[-1].doing == "done"


def test_a_plan_says_that_it_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gape.runs.electorate._INTERVAL", 0.0)
    asked = ["--schema", str(folder / "schema.toml"), "--epsilon", "1"]
    printed = command("plan", str(folder / "private.csv"), *asked)
    assert printed.exit_code == 0
    assert "Start: reading the private rows, 3,000 so far" in printed.stderr


@pytest.mark.parametrize(
    ("rows", "columns", "samples", "measured"),  # CPU seconds in docs/tables.md
    [
        (10, 2, 10, 2),
        (10_000, 200, 10_000, 93),
        (1_000_000, 10, 10_000, 18),
        (10_000_000, 10, 10_000, 153),
        (43_958, 14, 10_000, 9),
        (45_000, 8, 10_000, 5),
        (17_118, 11, 10_000, 6),
    ],
)
def test_the_time_of_a_survey_is_estimated_within_a_quarter(
    rows: int, columns: int, samples: int, measured: float
) -> None:
    schema = Schema({f"c{number}": Numbers(0, 9) for number in range(columns)})
    assert Rows(schema).survey_seconds(rows, samples) == pytest.approx(measured, rel=0.25)


def test_a_notebook_shows_a_survey(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    package = SimpleNamespace(HTML=str, display=lambda _, **__: SimpleNamespace(update=shown.append))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=package))
    monkeypatch.setitem(sys.modules, "IPython.display", package)
    run_text(settings_of(folder, samples=50, ledger=":memory:"), tmp_path / "run", progress=gape.NotebookProgress())
    assert shown[-1].startswith('<progress value="1.000" max="1">')


def test_the_card_of_a_survey_speaks_of_answers(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "out.csv", "csv")
    card = (tmp_path / "out.card.md").read_text()
    answers = read_run(run).plan.answers
    assert f"| Answers of one record | at most {sum(answers)} in 3 releases |" in card
    assert "answers to public questions with discrete Gaussian noise" in card
    assert f"The settings: samples 500, answers {answers}." in card
    for other in ("vote", "candidate", "rounds 0", "selection rule", "Gape("):
        assert other not in card


def test_the_report_of_a_survey_shows_no_rounds(run: Path, tmp_path: Path) -> None:
    page = write_report(run, tmp_path / "report.html").read_text()
    assert '<div class="controls" hidden>' in page
    assert "Lines lead from each parent" not in page
    assert "see its lineage" not in page
    assert ">most votes<" not in page
