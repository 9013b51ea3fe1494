import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.parquet as pq
import pytest

import parts
from folders import finished_folder, plan_for, statement_of
from gape._support.files import read_json, write_json, write_table
from gape.core.errors import InputError, RunError
from gape.evolution.plan import Plan
from gape.generators.labels import labelled
from gape.modalities import load_texts
from gape.privacy.accounting import stated
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SecureNoise
from gape.privacy.statement import PrivacyStatement
from gape.runs.export import Format, export
from gape.runs.folder.rounds import RunFolder

FORMATS = tuple(
    kind for kind in get_args(Format) if kind not in {"preferences", "folder"}
)  # see test_preferences.py and images
TEXTS = [
    "plain",
    'quoted "twice", and a comma',
    "two\r\nlines\r",
    "=1+1",
    "@x",
    "-2",
    "+3",
    "ä \u2028 \U0001f600",
    " x ",
]
DESCRIBED = {
    "generator": "LabelledGenerator({'a': Model(base_url='http://10.0.0.7:80/v1', path='/srv/w', name='o/gpt')})",
    "embedder": "LabelledEmbedder(MiniLM())",
    "selector": "PerLabel(Ranking())",
}


PLAN = plan_for(np.array(TEXTS, dtype=object))
STATEMENT = statement_of(PLAN, unit="patient", dataset_epsilon=3.25)


def texts_run(path: Path, statement: PrivacyStatement = STATEMENT, plan: Plan = PLAN) -> Path:
    return finished_folder(path, np.array(TEXTS, dtype=object), plan, statement, DESCRIBED)


def labelled_run(path: Path) -> Path:
    return finished_folder(path, labelled(["a", "b", "a"] * 3, TEXTS), PLAN, STATEMENT, DESCRIBED)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_labels_and_texts_survive_the_way_there_and_back(tmp_path: Path, kind: Format) -> None:
    destination = tmp_path / f"reviews.{kind}"
    written = export(labelled_run(tmp_path / "run"), destination, kind)
    assert written == [tmp_path / "reviews.privacy.json", tmp_path / "reviews.card.md", destination]
    records = load_texts(destination, text="text", label="label")
    assert records.texts.tolist() == TEXTS
    assert records.labels is not None
    assert records.labels.tolist() == ["a", "b", "a"] * 3


def test_a_folder_for_the_hub_is_a_dataset(tmp_path: Path) -> None:
    written = export(texts_run(tmp_path / "run"), tmp_path / "reviews", "hf")
    names = {str(path.relative_to(tmp_path / "reviews")) for path in written}
    assert names == {"README.md", "privacy.json", "data/train-00000-of-00001.parquet"}
    assert {path for path in (tmp_path / "reviews").rglob("*") if path.is_file()} == set(written)
    assert load_texts(tmp_path / "reviews").texts.tolist() == TEXTS
    card = (tmp_path / "reviews" / "README.md").read_text()
    start, matter, _ = card.split("---\n", 2)
    assert start == ""
    assert matter.splitlines() == [
        'pretty_name: "reviews"',
        "tags:",
        "- synthetic",
        "- differential-privacy",
        "size_categories:",
        "- n<1K",
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: train",
        "    path: data/train-*",
    ]


def test_csv_quotes_every_cell_and_changes_none(tmp_path: Path) -> None:
    export(texts_run(tmp_path / "run"), tmp_path / "a.csv", "csv")
    assert (tmp_path / "a.csv").read_bytes().startswith(b'"text"\n"plain"\n"quoted ""twice""')
    assert b'\n"=1+1"\n"@x"\n"-2"\n"+3"\n' in (tmp_path / "a.csv").read_bytes()


def test_vectors_are_columns_or_lists(tmp_path: Path) -> None:
    ledger = Ledger(":memory:", parts.BUDGET)
    state, _ = parts.small_run(tmp_path / "run", ledger, noise=SecureNoise())
    for kind in FORMATS:
        export(tmp_path / "run", tmp_path / f"out.{kind}", kind)
        (tmp_path / "out.card.md").unlink(missing_ok=True)
        (tmp_path / "out.privacy.json").unlink(missing_ok=True)
    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["sample_0", "sample_1"]
    assert np.array_equal(np.array(rows, dtype=np.float32), state.synthetic)
    lines = [json.loads(line)["sample"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert np.array_equal(np.array(lines, dtype=np.float32), state.synthetic)
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["sample"]


def test_the_card_states_the_guarantee(tmp_path: Path) -> None:
    export(labelled_run(tmp_path / "run"), tmp_path / "a.csv", "csv")
    card = (tmp_path / "a.card.md").read_text()
    assert STATEMENT.text() in card
    for part in (
        "9 synthetic records; columns: label, text",
        f"| Epsilon | {stated(STATEMENT.epsilon)} |",
        "| Delta | 1e-05 |",
        "replacing one patient by another",
        "| Unit of privacy | one patient |",
        "nearest-candidate votes with discrete Gaussian noise",
        "| Releases | 2,",
        "epsilon 3.25 at the same delta",
        "post-processing",
        "The number of patients in the private data",
        "rounds 2, samples 9",
        "name='o/gpt'",
        "LabelledEmbedder(MiniLM())",
        "PerLabel(Ranking())",
        "What is not protected",
        "for k patients together",
    ):
        assert part in card
    assert "NOT PRIVATE" not in card
    assert "10.0.0.7" not in card
    assert "/srv" not in card
    assert read_json(tmp_path / "a.privacy.json") == read_json(tmp_path / "run" / "release" / "privacy.json")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("reason", ["no noise", "seeded noise"])
def test_a_run_that_is_not_private_says_so_in_capitals(tmp_path: Path, kind: Format, reason: str) -> None:
    plan = replace(PLAN, epsilon=float("inf"), sigma=-1.0) if reason == "no noise" else PLAN
    statement = statement_of(plan, private=False, secure_noise=reason == "no noise")
    export(texts_run(tmp_path / "run", statement, plan), tmp_path / "out", kind)
    card = (tmp_path / "out" / "README.md" if kind == "hf" else tmp_path / "out.card.md").read_text()
    assert "THIS DATASET IS NOT PRIVATE" in card
    assert "- not-private" in card
    for claim in ("differentially private", "differential-privacy", "| Epsilon |", "closed under post-processing"):
        assert claim not in card


def test_an_unfinished_run_is_refused_with_how_to_resume_it(tmp_path: Path) -> None:
    run = texts_run(tmp_path / "run")
    longer = shutil.copytree(run, tmp_path / "longer")  # extended, and not yet run on
    settings = read_json(longer / "internal" / "settings.json")
    settings["plan"]["rounds"] = 3
    write_json(longer / "internal" / "settings.json", settings)
    unpublished = shutil.copytree(run, tmp_path / "unpublished")
    shutil.rmtree(unpublished / "release")
    stale = shutil.copytree(run, tmp_path / "stale")  # stopped between the new statement and the new data
    write_table(stale / "release" / "synthetic.parquet", {"text": ["of an earlier round"]})
    for folder in (longer, unpublished, stale):
        with pytest.raises(RunError, match=r"not finished its \d rounds, .*; resume it"):
            export(folder, tmp_path / "out.csv", "csv")
    with pytest.raises(RunError, match="not the folder of a run"):
        export(tmp_path / "nowhere", tmp_path / "out.csv", "csv")
    assert not list(tmp_path.glob("out*"))


def test_an_extended_run_is_refused_until_it_ends(tmp_path: Path) -> None:
    ledger = Ledger(":memory:", Budget(parts.BUDGET.epsilon, parts.BUDGET.delta))
    parts.small_run(tmp_path / "run", ledger, noise=SecureNoise())
    export(tmp_path / "run", tmp_path / "a.csv", "csv")
    ledger.change_budget(epsilon=parts.PLAN.extended(3).epsilon, delta=parts.PLAN.delta)
    folder = RunFolder.find(tmp_path / "run", parts.PLAN.extended(3), _stored_parts(tmp_path / "run"), ledger.id)
    folder.prepare()
    with pytest.raises(RunError, match="not finished its 3 rounds"):
        export(tmp_path / "run", tmp_path / "b.csv", "csv")
    parts.small_run(tmp_path / "run", ledger, plan=parts.PLAN.extended(3), noise=SecureNoise())
    export(tmp_path / "run", tmp_path / "b.csv", "csv")


def _stored_parts(run: Path) -> dict[str, str]:
    stored: dict[str, str] = read_json(run / "internal" / "settings.json")["parts"]
    return stored


@pytest.mark.parametrize("taken", ["out.csv", "out.card.md", "out.privacy.json"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(InputError, match="nothing is overwritten"):
        export(texts_run(tmp_path / "run"), tmp_path / "out.csv", "csv")
    assert [path.name for path in tmp_path.glob("out*")] == [taken]
    assert (tmp_path / taken).read_text() == "mine"
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="nothing is overwritten"):
        export(tmp_path / "run", tmp_path / "folder", "hf")


def test_another_format_shares_statement_and_card(tmp_path: Path) -> None:
    run = texts_run(tmp_path / "run")
    for kind in ("csv", "jsonl", "parquet"):
        assert len(export(run, tmp_path / f"out.{kind}", kind)) == 3
    assert len(list(tmp_path.glob("out*"))) == 5
    with pytest.raises(InputError, match=r"out\.csv exists and nothing is overwritten"):
        export(run, tmp_path / "out.csv", "csv")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    run = texts_run(tmp_path / "run")
    with pytest.raises(InputError, match="one of csv, jsonl, parquet, hf, folder, preferences, got 'xlsx'"):
        export(run, tmp_path / "a.xlsx", "xlsx")  # type: ignore[arg-type]
    for kind in FORMATS:
        with pytest.raises(InputError, match="is not a folder; make it first"):
            export(run, tmp_path / "nowhere" / "a", kind)


def test_a_folder_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = texts_run(tmp_path / "run")

    def fail(path: Path, content: bytes) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("gape.runs.export.write_atomically", fail)
    with pytest.raises(OSError, match="no space"):
        export(run, tmp_path / "out", "hf")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_damaged_statement_is_refused(tmp_path: Path) -> None:
    run = texts_run(tmp_path / "run")
    write_json(run / "release" / "privacy.json", {"epsilon": 1.0})
    with pytest.raises(RunError, match="is not a valid privacy statement"):
        export(run, tmp_path / "a.csv", "csv")


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.5},  # less than its releases cost
        {"sigma": (0.0, 0.0)},
        {"sigma": (0.75, 0.75)},
        {"votes_per_unit": 9},
        {"secure_noise": False},
    ],
)
def test_a_statement_that_claims_more_than_its_releases_give_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    run = texts_run(tmp_path / "run", replace(STATEMENT, **wrong))
    with pytest.raises(RunError, match="is not a valid privacy statement"):
        export(run, tmp_path / "a.csv", "csv")
