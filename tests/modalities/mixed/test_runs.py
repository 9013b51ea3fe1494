"""Rows with texts through every command, with a service that writes; what is private reaches neither it nor a file."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from faulty_server import FaultyServer
from gape.core.errors import InputError
from gape.modalities import Columns, Mixed, modality, usual_modality
from gape.runs.folder.layout import Layout
from made_up import CANARIES

SCHEMA = """
[stars]
choices = [1, 2, 3, 4, 5]

[price]
least = 0.0
most = 100.0
missing = true

[seen]
least = 2020-01-01
most = 2022-12-31
resolution = "month"

[title]
text = "titles of reviews"
words = 6
agrees = ["stars"]
missing = true

[review]
text = "customer reviews of restaurants"
words = 20
weight = 2
"""
TOO_MUCH, TOO_EARLY = "48731.25", "1931-07-23"  # private values outside the public bounds
SECRETS = (*CANARIES, TOO_MUCH, TOO_EARLY)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    Path("reviews.toml").write_text(SCHEMA)
    rows = [
        {
            "stars": 1 + i % 5,
            "price": TOO_MUCH if i % 3 == 0 else "" if i % 3 == 1 else f"{i / 10}",
            "seen": TOO_EARLY if i % 4 == 0 else f"2021-0{1 + i % 9}-11",
            "title": "" if i % 2 else f"About {CANARIES[0]}, number {i}",
            "review": f"We went there on day {i}, and asked for {CANARIES[1]}. It was good.",
            "phone": f"{CANARIES[2]}",
            "who": f"{CANARIES[2]}-{i}",
        }
        for i in range(60)
    ]
    with Path("reviews.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path / "reviews.csv"


@pytest.fixture
def service() -> Iterator[FaultyServer]:
    with FaultyServer(delay=0.01) as server:
        yield server


def asked(service: FaultyServer) -> tuple[str, ...]:
    writing = ("--generator", "openai:tiny", "--base-url", service.url, "--topics", "pizza,soup,rice")
    return ("--schema", "reviews.toml", "--epsilon", "4", "--samples", "6", "--rounds", "2", "--user", "who", *writing)


@pytest.mark.parametrize("labels", [(), ("--label", "stars")], ids=["plain", "labelled"])
def test_rows_are_planned_run_killed_resumed_and_looked_at(
    data: Path, service: FaultyServer, labels: tuple[str, ...]
) -> None:
    flags = (*asked(service), *labels)
    assert "6 samples; 7 variations of each and the row itself" in " ".join(output("plan", data, *flags).split())
    run = data.parent / "run"
    killed_in_a_round([str(data), *flags, "--out", str(run)], run)
    assert not Layout(run).published.exists()
    assert "stopped" in output("status", run)
    before = len(service.bodies)
    output("resume", run)
    assert "finished" in output("status", run)
    assert json.loads(Layout(run).begun.read_text())["modality"] == "mixed"
    assert len(service.bodies) > before  # only what was not written yet
    written = [json.dumps(body, sort_keys=True) for body in service.bodies]
    assert len(set(written)) > 0.9 * len(written)

    rows = pq.read_table(Layout(run).published).to_pylist()
    assert len(rows) == 6
    assert list(rows[0]) == ["stars", "price", "seen", "title", "review"]
    for row in rows:
        assert row["stars"] in {1, 2, 3, 4, 5}
        assert "2020-01" <= row["seen"] <= "2022-12"
        assert len(row["review"].split()) > 4

    output("evaluate", run, "--private", data, "--label", "stars")
    scores = json.loads(Layout(run).evaluation.read_text())["groups"]
    assert {"Columns", "Texts in review", "Repetition in review", "Usefulness", "Agreement"} <= set(scores)
    assert "TV1" in [measure["name"] for measure in scores["Columns"]]
    assert "accuracy" in " ".join(measure["name"] for measure in scores["Usefulness"])

    output("report", run)
    page = Layout(run).release_report.read_text()
    assert "6 synthetic rows" in page
    assert "review: " in page
    output("report", run, "--internal")
    output("export", run, "--format", "csv", "--out", "rows.csv")
    assert Path("rows.csv").read_text().startswith('"stars","price","seen","title","review"\n')
    output("export", run, "--format", "jsonl", "--out", "lines.jsonl")
    output("expand", run, "--count", "14", "--out", "more.parquet")
    assert len(pq.read_table("more.parquet")) == 14
    output("expand", run, "--count", "12", "--where", "stars=1:2|5:1", "--out", "some.csv")
    with Path("some.csv").open(newline="") as file:
        some = list(csv.DictReader(file))
    assert Counter(row["stars"] for row in some) == {"1": 8, "5": 4}
    assert len({row["review"] for row in some}) > 8
    refused = gape("expand", run, "--count", "12", "--where", "price=3", "--out", "none.csv")
    assert "'price' is not a column with listed values; conditions can be on 'stars'" in one_line_error(refused)
    assert "repeating" not in output("status", run) or "0%" in output("status", run)
    assert "The books are in order" in output("audit", run)

    assert service.bodies
    for secret in SECRETS:
        assert secret not in json.dumps(service.bodies, ensure_ascii=False)
    assert holders(data.parent, data) == []


def test_rows_vote_from_disk_as_from_memory(data: Path) -> None:
    lines = ["stars,price,seen,title,review"]
    lines += [f"{1 + i % 5},{i},2021-0{1 + i % 9}-01,,The soup of day {i} was warm and good." for i in range(80)]
    Path("public.csv").write_text("\n".join(lines) + "\n")
    output("embed", data, "--schema", "reviews.toml", "--user", "who", "--out", "vectors")
    flags = ("--schema", "reviews.toml", "--epsilon", "inf", "--samples", "6", "--rounds", "2", "--user", "who")
    public = ("--generator", "corpus:public.csv")
    output("run", "vectors", *flags[:-2], *public, "--out", "from-disk")
    output("run", data, *flags, *public, "--out", "from-memory")
    one, other = (pq.read_table(Layout(Path(run)).published) for run in ("from-disk", "from-memory"))
    assert one.equals(other)
    assert one.schema.field("price").type == "double"
    assert one.schema.field("title").type == "string"  # although all of them are missing


def test_the_search_for_secrets_finds_one(data: Path) -> None:
    assert holders(data.parent) == [str(data)]


def holders(folder: Path, *spared: Path) -> list[str]:
    """Files under a folder, but for those spared, that hold a secret, as bytes or in a column."""
    held = []
    for path in (path for path in folder.rglob("*") if path.is_file() and path not in spared):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.read_table(path).to_pylist()).encode()
        if any(secret.encode() in content for secret in SECRETS):
            held.append(str(path))
    return held


def test_a_corpus_of_rows_can_stand_in_for_a_model(data: Path) -> None:
    lines = ["stars,price,seen,title,review"]
    lines += [f"{1 + i % 5},{i},2021-0{1 + i % 9}-01,,The soup of day {i} was warm and good." for i in range(80)]
    Path("public.csv").write_text("\n".join(lines) + "\n")
    flags = ("--schema", "reviews.toml", "--epsilon", "4", "--samples", "6", "--rounds", "2")
    output("run", data, *flags, "--generator", "corpus:public.csv", "--out", "run")
    rows = pq.read_table(Layout(Path("run")).published).to_pylist()
    assert all(row["review"].startswith("The soup of day") for row in rows)


def test_a_corpus_with_a_private_text_is_refused_whatever_its_other_cells_are(data: Path) -> None:
    review = f"We went there on day 7, and asked for {CANARIES[1]}. It was good."
    lines = ["stars,price,seen,title,review", f'1,1,2022-12-01,,"{review}"', "1,1,2022-12-01,,Another text of a day."]
    Path("public.csv").write_text("\n".join(lines) + "\n")
    flags = ("--schema", "reviews.toml", "--epsilon", "4", "--samples", "6", "--rounds", "2")
    message = one_line_error(gape("plan", data, *flags, "--generator", "corpus:public.csv"))
    assert "contains at least one private record" in message
    assert CANARIES[1] not in message


def test_a_schema_with_texts_decides_the_modality(data: Path) -> None:
    assert usual_modality("reviews.toml") == "mixed"
    Path("plain.toml").write_text("[stars]\nchoices = [1, 2]\n")
    assert usual_modality("plain.toml") == "rows"
    assert "plain.toml has no column of texts; use the modality rows" in one_line_error(
        gape("plan", data, "--modality", "mixed", "--schema", "plain.toml", "--epsilon", "1")
    )
    refused = gape("plan", data, "--modality", "rows", "--schema", "reviews.toml", "--epsilon", "1")
    assert "column 'title' of reviews.toml holds texts; use the modality mixed" in one_line_error(refused)
    words = gape("plan", data, "--schema", "reviews.toml", "--epsilon", "1", "--words", "9")
    assert "words has no meaning for rows" in one_line_error(words)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ('choices = [1, 2]\nmeans.3 = "x"', "means of column 'stars' of .* must be a table with some of its choices"),
        ("choices = [1, 2]\nmeans.1 = 3", 'must be sentences, got 3; write "You were very angry."'),
        ('choices = [1, 2]\nmeans.1 = "{topic}"', "must be sentences"),
        ("choices = [1, 2]\nmeans = 'x'", "must be a table with some of its choices"),
        ('choices = [1, 2]\nopenings.1 = "x"', "must be lists of first words"),
        ('choices = [1, 2]\nopenings.1 = ["{x}"]', "must be lists of first words"),
        ('least = 1\nmost = 2\nmeans.1 = "x"', "need choices, which it does not have"),
    ],
)
def test_words_for_values_that_are_not_clear_are_refused(tmp_path: Path, column: str, reason: str) -> None:
    path = tmp_path / "notes.toml"
    path.write_text(f"[note]\ntext = 'notes'\n[stars]\n{column}\n")
    with pytest.raises(InputError, match=reason):
        modality("mixed", str(path))


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("text = 3", "must say what the texts are in at most 1000 characters, got 3"),
        ('text = " "', "must say what the texts are"),
        (f'text = "{"long " * 300}"', "must say what the texts are"),
        (f"text = {'[' * 100_000}", "nested too deeply"),
        (f"text = 'notes' # {'x' * 2**20}", "may have at most 1048576 bytes"),
        ('text = "notes"\nwords = 0', "must be an integer from 1 to 10,000, got 0"),
        ('text = "notes"\nagrees = "stars"', "must be a list of columns, got 'stars'"),
        ('text = "notes"\nagrees = ["note"]', "agrees with 'note', which is not a column before it"),
        ('text = "notes"\nagrees = ["other"]', "agrees with 'other', which is not a column before it"),
        ('text = "notes"\nchoices = [1, 2]', "has 'choices'; did you mean"),
        ('text = "notes"\nmissing = 1', "must be true or false, got 1"),
        ('text = "notes"\nweight = -1', "must be a number above 0"),
    ],
)
def test_columns_of_texts_that_are_not_clear_are_refused(tmp_path: Path, column: str, reason: str) -> None:
    path = tmp_path / "notes.toml"
    path.write_text(f"[note]\n{column}\n[stars]\nchoices = [1, 2]\n[other]\ntext = 'notes'\n")
    with pytest.raises(InputError, match=reason):
        modality("mixed", str(path))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"stars": 9}, "has a value that is none of its 5 choices in column 'stars'"),
        ({"seen": f"{CANARIES[0]}"}, "has a value that is not a date such as 2024-07-31 in column 'seen'"),
        ({"review": " "}, "is empty in column 'review'; fill it in, or set missing = true there"),
        ({"review": 3}, "in column 'review', holds int, not a text"),
        ({"review": f"{CANARIES[0]}\0"}, "in column 'review', contains a NUL character"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_and_not_quoted(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    (tmp_path / "reviews.toml").write_text(SCHEMA)
    good = {"stars": 3, "price": None, "seen": "2021-01-01", "title": None, "review": "a text"}
    kind = Mixed(tmp_path / "reviews.toml")
    assert len(kind.read([good], Columns())) == 1
    with pytest.raises(InputError, match=reason) as caught:
        kind.read([good | row], Columns())
    assert CANARIES[0] not in str(caught.value)


def output(*arguments: object) -> str:
    done = gape(*arguments)
    assert done.exit_code == 0, f"{arguments}: {done.stderr or done.exception!r}"
    return done.stdout


def killed_in_a_round(arguments: list[str], run: Path) -> None:
    """Start the run in a process of its own, and kill it as soon as the first survivors are on disk."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    program = [sys.executable, "-c", "from gape.cli import main; main()", "run", *arguments]
    with subprocess.Popen(program, env={**os.environ, "PYTHONPATH": path}) as process:
        while process.poll() is None and not Layout(run).round(1).synthetic.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
