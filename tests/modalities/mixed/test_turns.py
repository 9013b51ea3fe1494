"""Conversations in a cell: read in several forms, written turn by turn, and published as such."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import gape
from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.generators.prompted import PromptedText
from gape.generators.prompts import generic
from gape.generators.resampled import ResampledText
from gape.language.request import Request
from gape.language.scripted import ScriptedModel
from gape.modalities import Columns, Mixed, modality
from gape.modalities.mixed.generator import MixedGenerator
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.mixed.turns import Turns
from gape.modalities.rows.columns import Choices
from gape.modalities.rows.schema import Schema
from gape.runs.folder.layout import Layout
from generators.writing import rng_of, sentence

CHATS = Turns("chats with a shop", 9, roles=("customer", "agent"), least=2, most=5)
TICKETS = MixedSchema(("urgent", "chat"), Schema({"urgent": Choices(("no", "yes"))}), {"chat": CHATS})
SCHEMA = '[urgent]\nchoices = ["no", "yes"]\n[chat]\nroles = ["customer", "agent"]\nleast = 2\nmost = 4\nwords = 9\n'
PROMPTS = generic("chats")
HIDDEN = "quokka-raincoat-5519"


def talk(request: Request) -> str:
    """Write six turns, after the opening if there is one."""
    rng = rng_of(request)
    turns = [f"{('customer', 'agent')[i % 2]}: {sentence(rng)}" for i in range(6)]
    if request.opening:
        following = request.opening.rsplit("\n", 1)[-1].removesuffix(":")
        turns = turns[1:] if turns[0].startswith(following) else turns
        return "\n".join([f" {sentence(rng)}", *turns])
    return "Sure, here it is:\n\n" + "\n".join(f"**{turn.replace(':', ':**', 1)}" for turn in turns)


class TestResampledChats(TextGeneratorContract):
    def make(self) -> Generator:
        return MixedGenerator(TICKETS, ResampledText(ScriptedModel(talk), PROMPTS), PROMPTS.given)


class TestPromptedChats(TextGeneratorContract):
    def make(self) -> Generator:
        writer = PromptedText(ScriptedModel(talk, can_continue=False), PROMPTS)
        return MixedGenerator(TICKETS, writer, PROMPTS.given)


def test_chats_have_the_turns_of_the_schema_and_vary_from_some_turn_on() -> None:
    made = MixedGenerator(TICKETS, ResampledText(ScriptedModel(talk), PROMPTS), PROMPTS.given, text_only=1.0)
    before = made.random(40, np.random.default_rng(0))
    after = made.vary(before, np.full(40, 0.5), np.random.default_rng(1))
    begun_alike = 0
    for old, new in zip(map(json.loads, before), map(json.loads, after), strict=True):
        assert 2 <= len(new["chat"]) <= 5
        assert {turn["role"] for turn in new["chat"]} == {"customer", "agent"}
        assert old["urgent"] == new["urgent"]
        begun_alike += old["chat"][0] == new["chat"][0] and old["chat"] != new["chat"]
    assert begun_alike > 20


def test_a_model_that_continues_is_asked_for_one_turn_at_a_time() -> None:
    openings = list[str]()

    def reply(request: Request) -> str:
        openings.append(request.opening)
        return f" {sentence(rng_of(request))}\nagent: And more.\nnobody asked for this"

    made = MixedGenerator(TICKETS, ResampledText(ScriptedModel(reply), PROMPTS), PROMPTS.given)
    rows = [json.loads(row)["chat"] for row in made.random(10, np.random.default_rng(0))]
    assert len(openings) == sum(map(len, rows))  # no turn was asked for in vain
    assert {turn["role"] for chat in rows for turn in chat[::2]} == {"customer"}
    for chat in rows:
        for number, turn in enumerate(chat[1:], start=1):
            assert "And more." not in turn["content"]
            assert f"{CHATS.shown(chat[:number])}\n{turn['role']}:" in openings


def test_some_variations_rewrite_one_turn_and_keep_those_after_it() -> None:
    made = MixedGenerator(TICKETS, ResampledText(ScriptedModel(talk), PROMPTS), PROMPTS.given, text_only=1.0)
    before = made.random(40, np.random.default_rng(0))
    after = made.vary(before, np.full(40, 0.4), np.random.default_rng(1))
    pairs = [(json.loads(old)["chat"], json.loads(new)["chat"]) for old, new in zip(before, after, strict=True)]
    same = [[a == b for a, b in zip(old, new, strict=False)] for old, new in pairs if len(old) == len(new)]
    assert sum(places.count(False) == 1 and places[-1] for places in same) >= 8
    assert all(new != old for old, new in pairs)


@pytest.mark.parametrize("answer", ["", "\n", " customer: me again", " agent: me first", "..."])
def test_a_turn_that_is_not_usable_costs_the_variation(answer: str) -> None:
    good = MixedGenerator(TICKETS, ResampledText(ScriptedModel(talk), PROMPTS), PROMPTS.given, text_only=1.0)
    bad = MixedGenerator(TICKETS, ResampledText(ScriptedModel(lambda _: answer), PROMPTS), PROMPTS.given, text_only=1.0)
    before = good.random(5, np.random.default_rng(0))
    after = bad.vary(before, np.full(5, 0.3), np.random.default_rng(1))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    "answer",
    ["", "no turns at all.", "customer: only one turn.", "agent:\ncustomer:\n", '{"chat": [', "customer: a\n" * 9],
)
def test_answers_that_are_not_conversations_leave_the_row_as_it_was(answer: str) -> None:
    good = MixedGenerator(TICKETS, ResampledText(ScriptedModel(talk), PROMPTS), PROMPTS.given, text_only=1.0)
    bad = MixedGenerator(TICKETS, PromptedText(ScriptedModel(lambda _: answer), PROMPTS), PROMPTS.given, text_only=1.0)
    before = good.random(5, np.random.default_rng(0))
    np.testing.assert_array_equal(bad.vary(before, np.full(5, 0.5), np.random.default_rng(1)), before)


def test_a_very_long_answer_is_read_up_to_the_turns_that_were_asked_for() -> None:
    long = "\n".join(f"{('customer', 'agent')[i % 2]}: Turn number {i} of many." for i in range(50_000))
    made = MixedGenerator(TICKETS, PromptedText(ScriptedModel(lambda _: long), PROMPTS), PROMPTS.given)
    assert all(len(json.loads(row)["chat"]) <= 5 for row in made.random(2, np.random.default_rng(0)))


@pytest.mark.parametrize(
    "cell",
    [
        [{"role": "Customer", "content": "Hello  there"}, {"role": "agent", "content": "Hi"}],
        [
            {"from": "customer", "value": "Hello there"},
            {"from": "agent", "value": "Hi"},
            {"from": "agent", "value": " "},
        ],
        '[{"role": "customer", "content": "Hello\\nthere"}, {"speaker": "AGENT", "text": "Hi"}]',
    ],
)
def test_conversations_are_read_in_several_forms(cell: object) -> None:
    line = TICKETS.row(["yes", cell], "row 1")
    expected = [{"role": "customer", "content": "Hello there"}, {"role": "agent", "content": "Hi"}]
    assert json.loads(line)["chat"] == expected
    cells, texts = TICKETS.split(np.array([line], dtype=object))
    assert texts["chat"] == ["customer: Hello there\nagent: Hi"]
    assert TICKETS.join(cells, texts)[0] == line


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (HIDDEN, "holds no list of turns"),
        ({"role": HIDDEN}, "holds no list of turns"),
        ([HIDDEN], "turn 1 of row 1, in column 'chat', is not an object"),
        ([{"role": HIDDEN, "content": "x"}], "has a role that is none of the 2 in the schema"),
        ([{"role": "agent", "content": 3}], "holds int, not a text"),
        ("[" * 100_000, "holds no list of turns"),
        ([], "is empty in column 'chat'"),
    ],
)
def test_cells_that_are_not_conversations_are_refused_and_not_quoted(cell: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        TICKETS.row(["yes", cell], "row 1")
    assert HIDDEN not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("roles = 3", "must be 1 to 10 different names"),
        ('roles = ["a", "A"]', "must be 1 to 10 different names"),
        ('roles = ["a b", "A  B"]', "must be 1 to 10 different names"),
        ('roles = ["agent", "agent: second"]', "without a colon"),  # its turns would be read as those of "agent"
        (f'roles = ["{"r" * 51}", "b"]', "at most 50 characters"),
        ('roles = ["a", "b"]\nleast = 5\nmost = 4', "must be numbers of turns from 1 to 50"),
        ('roles = ["a", "b"]\ntext = 3', "must say what the texts are"),
        ('roles = ["a", "b"]\nwords = 9999', "must be an integer from 1 to 200"),
        ('roles = ["a", "b"]\nturns = 3', "has 'turns'; did you mean"),
    ],
)
def test_columns_of_conversations_that_are_not_clear_are_refused(tmp_path: Path, column: str, reason: str) -> None:
    (tmp_path / "chats.toml").write_text(f"[chat]\n{column}\n")
    with pytest.raises(InputError, match=reason):
        modality("mixed", str(tmp_path / "chats.toml"))


def chats(count: int, secret: str = "") -> list[dict[str, Any]]:
    return [
        {
            "urgent": ("no", "yes")[i % 2],
            "chat": [
                {"role": "customer", "content": f"Order {i} has not arrived. {secret}"},
                {"role": "agent", "content": f"We will look for parcel {i}."},
            ],
        }
        for i in range(count)
    ]


def test_a_run_on_conversations_publishes_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chats.toml").write_text(SCHEMA)
    Path("chats.jsonl").write_text("\n".join(map(json.dumps, chats(60, HIDDEN))))
    pq.write_table(pa.Table.from_pylist(chats(50)), "public.parquet")
    flags = ("--schema", "chats.toml", "--generator", "corpus:public.parquet", "--samples", "5", "--rounds", "2")
    done = gape("run", "chats.jsonl", *flags, "--epsilon", "4", "--out", "run")
    assert done.exit_code == 0, done.stderr
    assert "chat: customer: Order" in done.stdout
    rows = pq.read_table(Layout(Path("run")).published).to_pylist()
    assert rows[0]["chat"][0]["role"] == "customer"
    assert gape("export", "run", "--format", "csv", "--out", "made.csv").exit_code == 0
    with Path("made.csv").open(newline="") as file:
        exported = list(csv.DictReader(file))
    assert json.loads(exported[0]["chat"]) == rows[0]["chat"]
    again = Mixed("chats.toml").read("made.csv", Columns())  # what was exported can be read as data
    assert [json.loads(line)["chat"] for line in again.content] == [row["chat"] for row in rows]
    assert gape("report", "run").exit_code == 0
    shown = f"urgent: {rows[0]['urgent']}\ncustomer: {rows[0]['chat'][0]['content']}\nagent: "
    assert json.dumps(shown)[1:-1] in Layout(Path("run")).release_report.read_text()  # each turn on a line of its own
    assert not [path for path in Path("run").rglob("*") if path.is_file() and HIDDEN.encode() in path.read_bytes()]
