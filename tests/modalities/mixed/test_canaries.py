"""A secret in every kind of column reaches no prompt, file, page or message."""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gape
from command import gape as command
from command import one_line_error
from faulty_server import FaultyServer
from gape.language.request import Completion, Request
from gape.language.transformers import TransformersModel
from gape.runs.folder.layout import Layout
from small_model import FOLDER

SCHEMA = """
[kind]
choices = ["a", "b"]
means.a = "You are angry."
[price]
least = 0
most = 100
[seen]
least = 2020-01-01
most = 2022-12-31
[note]
text = "notes of visits"
words = 8
missing = true
[chat]
roles = ["customer", "agent"]
least = 2
most = 3
words = 8
missing = true
"""
NUMBER, DAY = 918273645, date(1931, 7, 23)
SECRETS = ("918273645", "1931-07-23", "canary of the note", "canary of the turn", "canary of the user", "canary aside")


def rows() -> list[dict[str, Any]]:
    turns = [{"role": "customer", "content": "canary of the turn"}, {"role": "agent", "content": "I see."}]
    return [
        {
            "kind": "ab"[i % 2],
            "price": NUMBER if i % 3 else 5,
            "seen": DAY.isoformat() if i % 4 else "2021-05-06",
            "note": f"canary of the note {i}" if i % 5 else None,
            "chat": turns if i % 6 else None,
            "who": f"canary of the user {i}",
            "more": "canary aside",
        }
        for i in range(48)
    ]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    Path("rows.toml").write_text(SCHEMA)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return path


def content(path: Path) -> str:
    text = path.read_bytes().decode(errors="replace")
    return text + repr(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else text


@pytest.mark.parametrize("labels", [(), ("--label", "kind")], ids=["plain", "labelled"])
def test_no_secret_of_any_column_gets_out(
    data: Path, capfd: pytest.CaptureFixture[str], labels: tuple[str, ...]
) -> None:
    flags = ("--schema", "rows.toml", "--epsilon", "4", "--samples", "4", "--rounds", "2", "--user", "who", *labels)
    with FaultyServer(schemas="kept") as service:
        writing = ("--generator", "openai:tiny", "--base-url", service.url, "--topics", "soup,rice")
        said = [command("plan", data, *flags, *writing), command("run", data, *flags, *writing, "--out", "run")]
        said += [
            command("report", "run"),
            command("export", "run", "--format", "hf", "--out", "dataset"),
            command("export", "run", "--format", "jsonl", "--out", "lines.jsonl"),
            command("expand", "run", "--count", "4", "--where", "kind=a", "--out", "more.csv"),
            command("schema", data),
            command("status", "run"),
            command("audit", "run"),
        ]
    assert [done.exit_code for done in said] == [0] * len(said), [done.stderr for done in said]
    assert json.loads(Path("lines.jsonl").read_text().splitlines()[0]).keys() == {
        "kind",
        "price",
        "seen",
        "note",
        "chat",
    }
    spoken = "".join(done.stdout + done.stderr for done in said) + "".join(capfd.readouterr())
    asked = json.dumps(service.bodies)
    for secret in SECRETS:
        assert secret not in spoken
        assert secret not in asked
        assert [str(path) for path in data.parent.rglob("*") if path.is_file() and secret in content(path)] == [
            str(data)
        ]
    assert "customer" in Layout(Path("run")).release_report.read_text()


def test_no_request_to_a_model_that_continues_holds_a_secret(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Request]()
    answers = TransformersModel.complete

    def watched(self: TransformersModel, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        asked.extend(requests)
        return answers(self, requests)

    monkeypatch.setattr(TransformersModel, "complete", watched)
    settings: dict[str, Any] = {"generator": f"hf:{FOLDER}", "samples": 2, "rounds": 1, "topics": ("a dog", "a cat")}
    made = gape.synthesize(rows(), epsilon=8, schema="rows.toml", user="who", **settings)
    assert len(made) == 2
    assert any("\nagent:" in request.opening for request in asked)  # turns after turns
    everything = "".join(request.prompt + request.opening for request in asked)
    assert [secret for secret in SECRETS if secret in everything] == []


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "canary of the choice"},
        {"price": "canary of the number"},
        {"seen": "canary of the date"},
        {"note": 3.5},
        {"chat": "canary of the chat"},
        {"chat": [{"role": "canary of the role", "content": "x"}]},
        {"chat": [{"role": "agent", "content": 918273645}]},
    ],
)
def test_no_message_quotes_a_cell(data: Path, row: dict[str, Any]) -> None:
    data.write_text("".join(json.dumps(record | row) + "\n" for record in rows()[:1]))
    message = one_line_error(command("plan", data, "--schema", "rows.toml", "--epsilon", "1"))
    assert "canary" not in message
    assert "918273645" not in message
    assert "3.5" not in message


def test_a_model_of_transformers_writes_rows(data: Path) -> None:
    schema = data.with_name("notes.toml")
    schema.write_text('[kind]\nchoices = ["a", "b"]\nopenings.a = ["One day"]\n[note]\ntext = "stories"\nwords = 12\n')
    settings: dict[str, Any] = {"generator": f"hf:{FOLDER}", "samples": 3, "rounds": 1, "topics": ("a dog", "a cat")}
    private = [{"kind": "ab"[i % 2], "note": f"A dog and a cat saw {i} birds."} for i in range(30)]
    made = gape.synthesize(private, epsilon=8, schema=str(schema), **settings)
    assert {row["kind"] for row in made.rows()} <= {"a", "b"}
    assert all(len(row["note"].split()) >= 3 for row in made.rows())
