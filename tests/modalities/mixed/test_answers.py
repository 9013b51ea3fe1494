"""Answers in JSON: from services that keep to a schema, refuse it, ignore it, or answer nonsense."""

import json
from functools import partial
from pathlib import Path

import pytest

import gape
from faulty_server import FaultyServer
from gape.generators.reading import Draft
from gape.language.request import Completion, Request
from gape.modalities.mixed.answers import answer_schema, read_json
from gape.modalities.mixed.columns import Prose
from gape.modalities.mixed.turns import Turns

SCHEMA = """
[stars]
choices = [1, 2, 3]
[review]
text = "customer reviews"
words = 8
[chat]
roles = ["customer", "agent"]
least = 2
most = 3
words = 8
"""
REVIEW = Prose("reviews", 20)
CHAT = Turns("chats", roles=("customer", "agent"))


def as_it_is(completion: Completion) -> str:
    return completion.text


def read(text: str, column: Prose = REVIEW, name: str = "review") -> str | None:
    return read_json(name, column, Draft(Request("?"), as_it_is), Completion(text))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('{"review": "Good soup."}', "Good soup."),
        (' {"review": "Good soup.", "stars": 5}\n', "Good soup."),
        ('```json\n{"review": "Good soup."}\n```', "Good soup."),
        ("Good soup.", "Good soup."),
        ("Good {soup}.", "Good {soup}."),
        ('{"review": "Good so', None),
        ('{"answer": "Good soup."}', None),
        ('{"review": 3}', None),
        ('{"review": {"text": "Good soup."}}', None),
        ("[1, 2]", None),
        ("[" * 100_000, None),
        ('{"review": "' + "a" * 10**7 + '"}', None),
    ],
)
def test_a_text_is_read_from_json_and_from_plain_answers(answer: str, text: str | None) -> None:
    assert read(answer) == text


def test_turns_are_read_from_json() -> None:
    turns = [{"role": "customer", "content": "Hello,\nyou"}, {"role": "agent", "content": "Hello"}]
    chat = partial(read, column=CHAT, name="chat")
    assert chat(json.dumps({"chat": turns})) == "customer: Hello, you\nagent: Hello"
    assert chat(json.dumps(turns)) == "customer: Hello, you\nagent: Hello"
    assert chat("customer: Hello\nagent: Hello") == "customer: Hello\nagent: Hello"
    assert chat(json.dumps({"chat": "Hello"})) is None
    assert chat(json.dumps({"chat": [{"role": 3, "content": "Hello"}]})) is None
    assert chat(json.dumps({"chat": ["Hello"]})) is None


def test_the_schema_is_strict() -> None:
    schema = answer_schema("chat", CHAT)
    turn = schema["properties"]["chat"]["items"]
    assert turn["properties"]["role"]["enum"] == ["customer", "agent"]
    assert schema["required"] == ["chat"]
    assert schema["additionalProperties"] is turn["additionalProperties"] is False


@pytest.mark.parametrize(
    ("schemas", "faults"),
    [
        ("kept", ()),
        ("kept", ("broken json", "other columns", "huge")),
        ("refused", ()),
        ("ignored", ("flood",)),
    ],
)
def test_a_run_is_complete_whatever_a_service_makes_of_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: str, faults: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    # Without a schema the service answers with words, and never with turns.
    (tmp_path / "rows.toml").write_text(SCHEMA if schemas == "kept" else SCHEMA.partition("[chat]")[0])
    turns = [{"role": "customer", "content": "A question."}, {"role": "agent", "content": "An answer."}]
    rows = [{"stars": 1 + i % 3, "review": f"Text number {i} is here.", "chat": turns} for i in range(40)]
    with FaultyServer(schemas=schemas, faults=faults, rate=0.2 if faults != ("flood",) else 0.05) as service:
        made = gape.synthesize(
            rows,
            schema=str(tmp_path / "rows.toml"),
            generator="openai:tiny",
            base_url=service.url,
            epsilon=4,
            samples=4,
            rounds=1,
            topics=("soup", "rice"),
        )
        asked = ["response_format" in body for body in service.bodies]
    assert any(asked)
    assert len(made) == 4
    for row in made.rows():
        assert len(row["review"].split()) == 8
        assert not row["review"].startswith("{")
        if schemas == "kept":
            assert [turn["role"] for turn in row["chat"]] == ["customer", "agent"]
    assert set(service.failed) == set(faults)
    if schemas == "refused":
        assert asked.count(True) <= asked.count(False)
