import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from contracts.language_model import LanguageModelContract
from faulty_server import FaultyServer, answer_to
from gape.core.errors import RunError
from gape.language.openai import OpenAIModel
from gape.language.request import LanguageModel, Request
from gape.language.scripted import ScriptedModel
from gape.language.spending import Tokens
from gape.language.stored import Stored, stored_tokens
from gape.language.watched import Watched


def echo(request: Request) -> str | None:
    return None if request.prompt == "fail" else f"{request.prompt} {request.seed}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers"


class TestStored(LanguageModelContract):
    failing: ClassVar[Request | None] = Request("fail")

    @pytest.fixture(autouse=True)
    def _folder(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            self.path = Path(folder) / "answers"
            yield

    def make(self) -> LanguageModel:
        return Stored(ScriptedModel(echo), self.path)


def test_what_was_answered_is_not_asked_again(path: Path) -> None:
    requests = [Request("a"), Request("b"), Request("a", seed=1)]
    first = dict(Stored(ScriptedModel(echo), path).complete(requests))
    again = ScriptedModel(echo)
    assert dict(Stored(again, path).complete([*requests, Request("c")])) == {
        **first,
        3: next(ScriptedModel(echo).complete([Request("c")]))[1],
    }
    assert again.calls == [Request("c")]


@pytest.mark.parametrize(
    "other",
    [Request("b"), Request("a", "o"), Request("a", max_tokens=9), Request("a", temperature=0.5), Request("a", seed=1)],
)
def test_every_part_of_a_request_and_the_model_make_it_another(path: Path, other: Request) -> None:
    model = ScriptedModel(echo)
    list(Stored(model, path).complete([Request("a"), other]))
    assert model.calls == [Request("a"), other]
    renamed = ScriptedModel(echo, name="another model")
    list(Stored(renamed, path).complete([other]))
    assert renamed.calls == [other]


def test_equal_requests_of_a_batch_are_asked_once_and_all_answered(path: Path) -> None:
    model = ScriptedModel(echo)
    answers = dict(Stored(model, path).complete([Request("a"), Request("b"), Request("a")]))
    assert model.calls == [Request("a"), Request("b")]
    assert answers[0] == answers[2] != answers[1]
    assert len(answers) == 3


def test_failures_are_not_stored(path: Path) -> None:
    assert dict(Stored(ScriptedModel(echo), path).complete([Request("fail")])) == {}
    healed = ScriptedModel(lambda request: "fine")
    assert dict(Stored(healed, path).complete([Request("fail")]))[0].text == "fine"


def test_an_answer_is_on_disk_before_anybody_sees_it(path: Path) -> None:
    answers = Stored(ScriptedModel(echo), path).complete([Request("a"), Request("b")])
    next(answers)
    other = ScriptedModel(echo)
    list(Stored(other, path).complete([Request("a"), Request("b")]))
    assert other.calls == [Request("b")]


class Bursting(ScriptedModel):
    """Writes four answers in no time."""

    burst = 4


def test_a_burst_is_on_disk_before_anybody_sees_the_first_of_it(path: Path) -> None:
    requests = [Request("a", seed=seed) for seed in range(10)]
    model = Watched(Bursting(echo), lambda _: None)  # which looks like the model inside
    found = {}
    for place, completion in Stored(model, path).complete(requests):
        found[place] = completion
        assert stored_tokens(path)[0] == min(10, 4 * (1 + (len(found) - 1) // 4))
    assert found == dict(Bursting(echo).complete(requests))


def test_a_burst_that_breaks_off_loses_only_itself(path: Path) -> None:
    def breaking(request: Request) -> str:
        if request.seed == 6:
            raise KeyboardInterrupt
        return str(request.seed)

    requests = [Request("a", seed=seed) for seed in range(10)]
    with pytest.raises(KeyboardInterrupt):
        dict(Stored(Bursting(breaking), path).complete(requests))
    assert stored_tokens(path)[0] == 4
    again = Bursting(echo)
    assert len(dict(Stored(again, path).complete(requests))) == 10
    assert again.calls == requests[4:]


def test_any_text_comes_back_as_it_was(path: Path) -> None:
    strange = "é \ud800 \x00 \n 𝔤"
    for _ in range(2):
        stored = Stored(ScriptedModel(lambda request: strange), path)
        assert dict(stored.complete([Request(strange)]))[0].text == strange


def test_name_and_ability_are_those_of_the_model_inside(path: Path) -> None:
    stored = Stored(ScriptedModel(echo, name="inside", can_continue=False), path)
    assert (stored.name, stored.can_continue) == ("inside", False)


def test_the_file_is_for_its_owner_and_holds_no_prompts(path: Path) -> None:
    stored = Stored(ScriptedModel(lambda request: "answered"), path)
    list(stored.complete([Request("a question nobody should find")]))
    files = list(path.parent.iterdir())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    stored.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"answered" in path.read_bytes()
    assert b"question" not in path.read_bytes()


def test_missing_folders_and_foreign_files_are_refused(path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        Stored(ScriptedModel(echo), path / "no" / "folder")
    with pytest.raises(RunError, match="cannot be read"):
        Stored(ScriptedModel(echo), path.parent)
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE something (else_ TEXT)")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(RunError, match="not a file of stored answers"):
        Stored(ScriptedModel(echo), path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused_with_a_remedy(path: Path) -> None:
    requests = [Request(f"prompt {i}") for i in range(200)]
    stored = Stored(ScriptedModel(echo), path)
    list(stored.complete(requests))
    stored.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x5a" * (len(whole) - 4096))
    with pytest.raises(RunError, match=r"restore (the file|it) from a backup"):
        list(Stored(ScriptedModel(echo), path).complete(requests))
    path.write_bytes(b"this was never a database, not even in part" * 100)
    with pytest.raises(RunError, match=r"restore (the file|it) from a backup"):
        Stored(ScriptedModel(echo), path)
    path.unlink()
    stored = Stored(ScriptedModel(echo), path)
    list(stored.complete(requests))
    stored._database.execute("UPDATE answers SET completion = 'half of it'")
    with pytest.raises(RunError, match=r"restore (the file|it) from a backup"):
        list(stored.complete(requests))


CHILD = """
import sys
from gape.language.openai import OpenAIModel
from gape.language.request import Request
from gape.language.spending import Tokens
from gape.language.stored import Stored, stored_tokens
from gape.language.watched import Watched
model = OpenAIModel(model="tiny", base_url=sys.argv[1], concurrency=4)
for _ in Stored(model, sys.argv[2]).complete([Request(f"prompt {i}") for i in range(400)]):
    pass
"""


def test_a_killed_process_loses_the_calls_in_flight_and_no_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FaultyServer(delay=0.01) as server:
        child = subprocess.Popen([sys.executable, "-c", CHILD, server.url, str(path)], env=os.environ)
        deadline = time.monotonic() + 60
        while len(server.bodies) < 60 and time.monotonic() < deadline:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        assert child.wait(60) == -signal.SIGKILL
        time.sleep(0.2)  # for what is still on the wire
        before = [json.dumps(body) for body in server.bodies]
        assert 60 <= len(before) < 400

        requests = [Request(f"prompt {i}") for i in range(400)]
        model = OpenAIModel(model="tiny", base_url=server.url, concurrency=4)
        fresh = ScriptedModel(lambda request: None, name=model.name)
        stored = {requests[place] for place, _ in Stored(fresh, path).complete(requests)}
        assert len(before) - 4 <= len(stored) <= len(before)

        answers = dict(Stored(model, path).complete(requests))
        after = [json.dumps(body) for body in server.bodies[len(before) :]]
    assert {place: answer.text for place, answer in answers.items()} == {
        place: answer_to(request.prompt, request.seed) for place, request in enumerate(requests)
    }
    assert len(set(after)) == len(after) == 400 - len(stored)
    assert len(set(before) & set(after)) <= 4


def test_a_file_without_its_table_holds_no_answers(tmp_path: Path) -> None:
    """A process that was killed while it made the file leaves a database without tables."""
    path = tmp_path / "answers.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 0")
        database.execute("VACUUM")
    assert stored_tokens(path) == (0, Tokens())


def test_a_journal_that_a_kill_left_is_rolled_back(tmp_path: Path) -> None:
    """A process that was killed while it made the file leaves a journal, which must be written to be read."""
    made, left = tmp_path / "made.sqlite", tmp_path / "answers.sqlite"
    with closing(sqlite3.connect(made, isolation_level=None)) as database:
        database.execute("CREATE TABLE answers (key BLOB PRIMARY KEY, completion TEXT NOT NULL)")
        database.execute("PRAGMA user_version = 1")
        database.execute("PRAGMA cache_size = 1")  # so that the journal is on disk before the end of the transaction
        database.execute("BEGIN")
        database.executemany("INSERT INTO answers VALUES (?, ?)", [(bytes([i]), "x" * 4000) for i in range(100)])
        for suffix in ("", "-journal"):
            Path(f"{left}{suffix}").write_bytes(Path(f"{made}{suffix}").read_bytes())
        database.execute("ROLLBACK")
    with (
        pytest.raises(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{left}?mode=ro", uri=True)) as database,
    ):
        database.execute("SELECT count(*) FROM answers").fetchone()
    assert stored_tokens(left) == (0, Tokens())
    with closing(Stored(ScriptedModel(lambda request: request.prompt), left)) as model:
        assert [answer.text for _, answer in model.complete([Request("one")])] == ["one"]
    assert stored_tokens(left)[0] == 1
