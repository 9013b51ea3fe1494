"""Tables from one end to the other: rows vote, columns are published, and everything that takes texts takes them."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gape
from gape.cli import app
from gape.core.errors import InputError, PrivacyError
from gape.evaluation.compare import read_comparison
from gape.evaluation.compare.results import held_out
from gape.evaluation.compare.texts import ComparisonScoring
from gape.modalities import Schema, load_rows
from gape.runs.export import export
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from modalities.rows.animals import ANIMALS, SCHEMA

# The noise of a run has no seed, so a correct run must pass each bound with a probability above 1 - 1e-4: each lies at
# least four standard deviations from the mean of 60 runs. A run that learns nothing must fail: all 30 runs at epsilon
# 0.001 lie beyond each bound, except for the share of cats, which is too uncertain in either case to tell them apart.
#                               mean   sd     range              mean   sd     range at epsilon 0.001
BOUNDS = {
    "together": 0.6,  #         0.862  0.018  0.817 to 0.917     0.223  0.050  0.133 to 0.383
    "young": 0.6,  #            0.971  0.021  0.917 to 1         0.125  0.098  0 to 0.350
    "few cats": 0.2,  #         0.544  0.081  0.350 to 0.683     0.322  0.068  0.233 to 0.500
    "many cats": 0.95,
    "TV1": 0.53,  # 0.241  0.070  0.125 to 0.375     0.617  0.036  0.542 to 0.683
    "w1": 0.75,  #              0.296  0.090  0.162 to 0.518     1.009  0.042  0.926 to 1.096
}


def animals(count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        kind, sound, weight = ANIMALS[rng.random() < 0.3]
        heavy = round(float(weight * rng.uniform(0.8, 1.2)), 1)
        rows.append({"age": int(rng.integers(1, 15)), "kind": kind, "sound": sound, "weight": heavy, "keeper": "k"})
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("animals")
    (place / "schema.toml").write_text(SCHEMA)
    for name, seed in (("private", 0), ("held-out", 1), ("public", 2)):
        with (place / f"{name}.csv").open("w", newline="") as file:
            rows = animals(1500 if name == "private" else 200, seed)
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return place


def settings_of(folder: Path, **values: Any) -> Settings:
    usual = {"data": str(folder / "private.csv"), "schema": str(folder / "schema.toml"), "epsilon": 8.0}
    return Settings.of({**usual, "samples": 60, "rounds": 6, "ledger": ":memory:", **values})


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    place = folder / "run"
    run_text(settings_of(folder, ledger=str(folder / "ledger.sqlite")), place)
    return place


def test_the_columns_of_the_schema_are_published_and_follow_the_data(run: Path) -> None:
    table = pq.read_table(run / "release" / "synthetic.parquet")
    assert table.column_names == ["age", "kind", "sound", "weight"]
    rows = table.to_pylist()
    assert len(rows) == 60
    together = np.mean([(row["kind"], row["sound"]) in {("cat", "meow"), ("dog", "woof")} for row in rows])
    assert together > BOUNDS["together"]
    assert np.mean([row["age"] <= 20 for row in rows]) > BOUNDS["young"]
    assert BOUNDS["few cats"] < np.mean([row["kind"] == "cat" for row in rows]) < BOUNDS["many cats"]
    assert all(row["weight"] is None or 0 <= row["weight"] <= 50 for row in rows)
    assert {type(row["age"]) for row in rows} == {int}


def test_the_statement_is_the_usual_one_and_nothing_private_is_on_disk(run: Path, folder: Path) -> None:
    statement = json.loads((run / "release" / "privacy.json").read_text())
    assert statement["private"] is True
    assert statement["epsilon"] == pytest.approx(8, rel=1e-3)
    files = [file for file in run.rglob("*") if file.is_file()]
    assert not any(b"keeper" in file.read_bytes() for file in files)  # a column that the schema does not have
    assert (run / "internal" / "schema.toml").read_text() == SCHEMA


def test_synthesize_gives_rows(folder: Path) -> None:
    made = gape.synthesize(
        animals(300, 3), schema=str(folder / "schema.toml"), epsilon=8, samples=20, rounds=2, user=None
    )
    assert len(made.rows()) == len(made) == 20
    assert list(made.rows()[0]) == ["age", "kind", "sound", "weight"]
    assert made.labels is None


def test_a_stopped_run_goes_on(folder: Path, tmp_path: Path) -> None:
    def stop(progress: Any) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    place, ledger = tmp_path / "run", str(tmp_path / "ledger.sqlite")
    with pytest.raises(KeyboardInterrupt):
        run_text(settings_of(folder, rounds=3, ledger=ledger), place, progress=stop)
    made = gape.resume(place)
    assert len(made) == 60
    assert len(made.privacy.sigma) == 3
    assert pq.read_table(place / "release" / "synthetic.parquet").to_pylist() == made.rows()


def test_a_run_keeps_the_schema_that_it_began_with(folder: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(SCHEMA)

    def stop(progress: Any) -> None:
        if progress.round == 1:
            raise KeyboardInterrupt

    settings = settings_of(folder, schema=str(schema), ledger=str(tmp_path / "ledger.sqlite"))
    with pytest.raises(KeyboardInterrupt):
        run_text(settings, tmp_path / "run", progress=stop)
    schema.write_text(SCHEMA.replace("100", "200"))
    with pytest.raises(gape.RunError, match="was started with another schema than"):
        run_text(settings, tmp_path / "run")
    schema.unlink()
    made = gape.resume(tmp_path / "run")
    assert max(row["age"] for row in made.rows()) <= 100
    gape.evaluate(tmp_path / "run", folder / "private.csv")
    assert len(gape.expand(tmp_path / "run", 70)) == 70


def test_a_table_has_one_budget_whatever_schema_reads_it(folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.toml"
    few.write_text("[age]\nleast = 0\nmost = 50\n")
    common = {"ledger": str(tmp_path / "ledger.sqlite"), "rounds": 1, "samples": 10, "budget_epsilon": 13.0}
    run_text(settings_of(folder, **common), tmp_path / "one")
    again = run_text(settings_of(folder, **common, schema=str(few)), tmp_path / "two")
    assert again.privacy.dataset_epsilon > 8.5
    with pytest.raises(gape.BudgetError):
        run_text(settings_of(folder, **common, schema=str(few)), tmp_path / "three")


def test_a_table_without_a_header_is_refused_and_not_shown(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("39,cat,meow,4.5\n40,dog,woof,20\n")
    result = CliRunner().invoke(
        app, ["run", str(data), "--schema", str(folder / "schema.toml"), "--epsilon", "1", "--out", str(tmp_path / "r")]
    )
    assert result.exit_code != 0
    assert "has no column 'age' among its 4" in " ".join(result.output.split())
    assert "meow" not in result.output


def test_a_corpus_that_does_not_fit_is_refused_before_anything_is_made(folder: Path, tmp_path: Path) -> None:
    public = tmp_path / "public.csv"
    public.write_text("age,kind\n3,cat\n")
    with pytest.raises(InputError, match=r"the corpus cannot be used: .* has no column 'sound'"):
        run_text(settings_of(folder, generator=f"corpus:{public}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_names_of_columns_are_shown_as_they_are(tmp_path: Path) -> None:
    name = '[/x] "text", é.'
    schema, data = tmp_path / "schema.toml", tmp_path / "data.csv"
    schema.write_text(f"[{json.dumps(name, ensure_ascii=False)}]\nchoices = [1, 2]\n[text]\nchoices = ['a', 'b']\n")
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([[name, "text"], *[[1, "a"]] * 50])
    out = tmp_path / "run"
    flags = [str(data), "--schema", str(schema), "--epsilon", "8", "--samples", "5", "--rounds", "1", "--out", str(out)]
    command = CliRunner()
    for words in (["run", *flags], ["evaluate", str(out), "--private", str(data)], ["report", str(out), "--internal"]):
        result = command.invoke(app, words)
        assert result.exit_code == 0, result.output
    assert pq.read_table(out / "release" / "synthetic.parquet").column_names == [name, "text"]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "hf"])
def test_it_is_exported_in_columns(run: Path, tmp_path: Path, format: Any) -> None:  # noqa: A002
    files = export(run, tmp_path / f"animals.{format}", format=format)
    card = next(file for file in files if file.suffix == ".md").read_text()
    assert "columns: age, kind, sound, weight" in card
    if format == "csv":
        head, *rows = (tmp_path / "animals.csv").read_text().splitlines()
        assert head == '"age","kind","sound","weight"'
        assert len(rows) == 60


def test_more_rows_are_variations_of_those_that_are_there(run: Path, folder: Path, tmp_path: Path) -> None:
    more = gape.expand(run, 100)
    assert len(Schema.read(folder / "schema.toml").codes(more)) == 100
    export(run, tmp_path / "more.parquet", format="parquet", rows=more)
    assert pq.read_table(tmp_path / "more.parquet").num_rows == 100
    private, schema = folder / "private.csv", str(folder / "schema.toml")
    scored = gape.evaluate(tmp_path / "more.parquet", private, schema=schema, label="kind")
    assert list(scored.groups) == ["Nearness", "Columns", "Memorisation", "Usefulness"]
    with pytest.raises(InputError, match="is that of the run"):
        gape.evaluate(run, private, schema=schema)


def test_it_is_scored_by_columns_and_pairs(run: Path, folder: Path) -> None:
    found = gape.evaluate(run, folder / "private.csv", held_out=folder / "held-out.csv")
    assert list(found.groups) == ["Nearness", "Columns", "Memorisation"]
    real = {each.name: each.real for each in found.groups["Columns"]}
    for name in ("TV1", "worst column", "TV2"):
        assert 0 <= found.value(name) <= 1
        assert real[name] is not None
    assert found.value("least spread") <= found.value("spread")
    assert real["spread"] == pytest.approx(1, abs=0.2)
    assert any("W1 rewards rows near the middle" in remark for remark in found.remarks)
    assert found.value("TV1") < BOUNDS["TV1"]
    assert found.rounds[-1].wasserstein1 < BOUNDS["w1"] * found.rounds[0].wasserstein1
    assert found.value("held-out rows that are records") >= 0


def test_a_classifier_is_taught_by_all_columns_but_the_one_it_tells(run: Path, folder: Path) -> None:
    held_out = folder / "held-out.csv"
    told = gape.evaluate(run, folder / "private.csv", label="kind", held_out=held_out, real_baseline=True)
    assert told.value("accuracy") > 0.9  # by the sound
    guessed = gape.evaluate(run, folder / "private.csv", label="age", held_out=held_out)
    assert guessed.value("accuracy") < 0.5  # nothing tells it, and its own column would
    for wrong in ("keeper", "shoe size"):
        with pytest.raises(InputError, match=f"'{wrong}' is not a column of the schema"):
            gape.evaluate(run, folder / "private.csv", label=wrong)


def test_public_rows_take_the_place_of_the_generator(folder: Path, tmp_path: Path) -> None:
    corpus = f"corpus:{folder / 'public.csv'}"
    with pytest.raises(PrivacyError, match="contains at least one private record"):  # rows of few values often coincide
        run_text(settings_of(folder, generator=corpus), tmp_path / "run")
    settings = settings_of(folder, generator=corpus, rounds=2, samples=20, corpus_may_share=True)
    made = run_text(settings, tmp_path / "run")
    public = load_rows(folder / "public.csv", Schema.read(folder / "schema.toml")).texts
    assert set(made.texts) <= set(public.tolist())
    with pytest.raises(PrivacyError, match="is the private data"):
        run_text(settings_of(folder, generator=f"corpus:{folder / 'private.csv'}"), tmp_path / "other")


def test_users_are_protected_by_their_column(folder: Path, tmp_path: Path) -> None:
    made = run_text(settings_of(folder, user="keeper", delta=1e-5, samples=5, rounds=1), tmp_path / "run")
    assert made.privacy.unit == "user"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"text": "kind"}, "text has no meaning for rows, got 'kind'; leave it out"),
        ({"label": "kind"}, "label has no meaning for rows"),
        ({"labels": ("cat",)}, "labels has no meaning for rows"),
        ({"words": 5}, "words has no meaning for rows"),
        ({"scales": (0.5, 2.0)}, "scales of a table must be shares of its cells"),
        ({"prompts": "yelp"}, "prompts has no meaning for rows"),
        (
            {"generator": "embedded"},
            "the generator 'embedded' is not for rows; use corpus:FILE, rows",
        ),
        ({"embedder": "minilm"}, "the embedder 'minilm' is not for rows; use rows"),
        ({"engine": "ray"}, "rows are read by this process, not with engine 'ray'"),
        ({"schema": None, "generator": "rows"}, "the generator 'rows' is not for texts; use embedded"),
        ({"schema": None, "embedder": "rows"}, "the embedder 'rows' is not for texts; use minilm"),
    ],
)
def test_what_does_not_go_with_a_table_is_refused(folder: Path, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        settings_of(folder, **values)


def test_presets_of_the_literature_run_on_tables(folder: Path, tmp_path: Path) -> None:
    for preset in ("augpe", "subsamplepe"):
        chosen = settings_of(folder, preset=preset, rounds=1, samples=10)
        assert (chosen.generator, chosen.embedder, chosen.variation) == ("rows", "rows", None)
        assert len(run_text(chosen, tmp_path / preset)) == 10


def test_methods_are_compared_on_tables(folder: Path, tmp_path: Path) -> None:
    settings = Settings.of(
        {"data": str(folder / "private.csv"), "schema": str(folder / "schema.toml"), "samples": 20, "rounds": 2}
    )
    found = gape.compare_texts(settings, tmp_path / "comparison", methods=("gape", "augpe"), epsilons=(8.0,), seeds=2)
    score = held_out("sinkhorn")
    for method in ("gape", "augpe"):
        assert found.at_end(method, 8.0, score).mean < found.at_start(score).mean
    stored = (tmp_path / "comparison" / "settings.toml").read_text()
    assert repr(Schema.read(folder / "schema.toml")) in stored
    assert str(folder) not in stored
    assert [title.partition(":")[0] for title in found.headlines][:3] == ["TV1", "TV2", "Spread"]


@pytest.mark.usefixtures("without_matplotlib")
def test_the_survey_stands_beside_rounds_and_real_rows_in_a_comparison(folder: Path, tmp_path: Path) -> None:
    """Rows near the middle have a low W1; columns, pairs, spread and AUC show what they lack."""
    data = {"data": str(folder / "private.csv"), "schema": str(folder / "schema.toml"), "samples": 60}
    scoring = ComparisonScoring(scored=200, target="kind")
    grid: dict[str, Any] = {"epsilons": (8.0,), "seeds": 1, "scoring": scoring}
    methods = ("survey", "gape")
    both = gape.compare_texts(Settings.of({**data, "rounds": 1}), tmp_path / "both", methods=methods, **grid)
    assert [title.partition(":")[0].partition(" ")[0] for title in both.content] == ["TV1", "TV2", "Spread", "AUC"]
    values = [both.at_end("survey", 8.0, value).mean for value in both.content.values()]
    assert values[0] < 0.15
    assert values[1] < 0.3
    assert values[3] > 0.9  # by the sound
    real = [both.of_real(value).mean for value in both.content.values()]
    assert 0.8 < real[2] < 1.2
    tv1 = next(iter(both.content.values()))
    assert both.at_end("survey", 8.0, tv1).mean < both.at_end("gape", 8.0, tv1).mean / 2
    assert list(both.baselines(tv1)) == ["start", "as many real records"]
    table = (tmp_path / "both" / "table.md").read_text()
    assert "W1 rewards rows near the middle of the data" in table
    assert "| TV1, Survey less GAPE |" not in table  # of one seed there is no interval
    assert read_comparison(tmp_path / "both").results == both.results
    alone = gape.compare_texts(Settings.of(data), tmp_path / "alone", **grid)
    assert alone.methods == ("gape",)
    assert alone.at_end("gape", 8.0, tv1).values == both.at_end("survey", 8.0, tv1).values
    assert list(alone.baselines(tv1)) == ["as many real records"]


def test_a_comparison_refuses_what_a_table_cannot_show(folder: Path, tmp_path: Path) -> None:
    settings = Settings.of({"data": str(folder / "private.csv"), "schema": str(folder / "schema.toml")})
    with pytest.raises(InputError, match="augpe selects by votes, and there are no rounds; give rounds, such as 20"):
        gape.compare_texts(settings, tmp_path / "out", methods=("gape", "augpe"))
    with pytest.raises(InputError, match="'shoe size' is not a column of the schema"):
        gape.compare_texts(settings, tmp_path / "out", scoring=ComparisonScoring(target="shoe size"))
    texts = Settings.of({"data": str(folder / "private.csv"), "text": "kind"})
    with pytest.raises(InputError, match="texts have no columns to predict, got target 'kind'; leave it out"):
        gape.compare_texts(texts, tmp_path / "out", scoring=ComparisonScoring(target="kind"))


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    command = CliRunner()
    flags = [str(folder / "private.csv"), "--schema", str(folder / "schema.toml"), "--epsilon", "8", "--samples", "20"]
    planned = command.invoke(app, ["plan", *flags])
    assert planned.exit_code == 0, planned.output
    assert "no language model is asked" in planned.output
    out = str(tmp_path / "run")
    made = command.invoke(app, ["run", *flags, "--ledger", str(tmp_path / "l.sqlite"), "--rounds", "1", "--out", out])
    assert made.exit_code == 0, made.output
    assert "20 synthetic rows" in made.output
    for name in ("status", "audit", "report"):
        found = command.invoke(app, [name, out])
        assert found.exit_code == 0, found.output
    page = (tmp_path / "run" / "release" / "report.html").read_text()
    for told in ("hoot", "20 synthetic rows", "as measured by the number of matching columns"):
        assert told in page
    missing = command.invoke(app, ["plan", *flags[:1], "--schema", str(tmp_path / "none.toml"), "--epsilon", "1"])
    assert missing.exit_code != 0
    assert "cannot be read" in missing.output
