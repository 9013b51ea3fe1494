"""A run folder from somebody else makes no command reach outside it, and one that contradicts itself is refused."""

import json
import math
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from faulty_server import FaultyServer
from gape._support.ownership import is_sealed, seal, state_folder
from gape.core.errors import PrivacyError, RunError
from gape.evaluation.evaluate import evaluate
from gape.privacy.ledger import Budget, Ledger
from gape.runs.expand import expand
from gape.runs.folder.record import ContradictionError, read_run
from gape.runs.folder.stored import SettingsFolder
from gape.runs.settings import Settings
from gape.runs.settings_file import read_toml
from gape.runs.synthesize import resume, run_text
from made_up import CANARIES, PROMPTS, private_rows, write_corpus, write_csv

TOKEN = "ghp_Marked53cret4711"  # noqa: S105  (made up)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, with private data, a public corpus, a secret in the environment and one in a file."""
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    return tmp_path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with a finished run of two rounds; tests spoil copies of the run."""
    folder = tmp_path_factory.mktemp("template")
    furnish(folder)
    return a_run(folder)


def furnish(folder: Path) -> None:
    write_csv(folder / "reviews.csv", private_rows())
    write_corpus(folder / "public.txt")
    (folder / "secret.txt").write_text("a diary of nine words that nobody else may read\nand a second line of it\n")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer(model="x") as server:
        yield server


def a_run(folder: Path, *, rounds: int = 2, stop: bool = False, **values: Any) -> Path:
    """A run on the user's own data, finished or stopped after its first round."""
    settings: dict[str, Any] = {
        "data": str(folder / "reviews.csv"),
        "text": "review",
        "epsilon": 4.0,
        "samples": 6,
        "rounds": rounds,
        "scales": [0.4, 0.8],
        "generator": f"corpus:{folder / 'public.txt'}",
    }

    def halt(now: Any) -> None:
        if stop and now.round == rounds:
            raise KeyboardInterrupt

    try:
        run_text(Settings.of(settings, values), folder / "run", progress=halt)
    except KeyboardInterrupt:
        assert stop
    return folder / "run"


def ledger_of(run: Path) -> Path:
    return run.parent / "reviews.csv.gape-ledger.sqlite"


def received(run: Path, **changes: str) -> Path:
    """The same folder as somebody else has it, with other lines in its settings."""
    file = run / "internal" / "settings.toml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    kept = [line for line in lines if line.partition(" =")[0] not in changes]
    file.write_text("\n".join([*kept, *(f"{name} = {value}" for name, value in changes.items())]) + "\n")
    return run


def hostile(server: FaultyServer) -> dict[str, str]:
    """Settings that would send private texts, under the user's own token, to somebody else's address."""
    return {
        "embedder": '"openai:x"',
        "embedder_base_url": json.dumps(server.url),
        "embedder_key_variable": '"GITHUB_TOKEN"',
        "private_text_may_leave": "true",
    }


class TestSeal:
    def test_what_this_user_wrote_is_known_and_any_change_of_it_is_not(self) -> None:
        mark = seal(b"content")
        assert is_sealed(b"content", mark)
        assert not is_sealed(b"content!", mark)
        assert not is_sealed(b"content", "0" * 64)
        assert not is_sealed(b"content", "ö")

    def test_the_key_is_for_its_owner_alone(self) -> None:
        seal(b"")
        (key,) = state_folder().iterdir()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600

    def test_another_user_or_machine_has_another_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mark = seal(b"content")
        monkeypatch.setenv("GAPE_STATE", str(tmp_path / "elsewhere"))
        assert not is_sealed(b"content", mark)
        assert seal(b"content") != mark

    @pytest.mark.parametrize("harm", ["mode", "length", "link"])
    def test_a_key_that_others_could_have_put_there_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
    ) -> None:
        monkeypatch.setenv("GAPE_STATE", str(tmp_path))
        mark = seal(b"content")
        key = tmp_path / "seal.key"
        if harm == "mode":
            key.chmod(0o644)
        elif harm == "length":
            key.write_bytes(b"short")
        else:
            key.rename(tmp_path / "other")
            key.symlink_to(tmp_path / "other")
        with pytest.raises(PrivacyError, match=r"seal\.key"):
            is_sealed(b"content", mark)

    def test_where_no_key_can_be_kept_nothing_is_sealed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("GAPE_STATE", str(tmp_path / "file" / "below"))
        assert seal(b"content") == ""
        assert not is_sealed(b"content", "")

    def test_a_run_is_its_users_until_somebody_changes_it_and_wherever_it_is_moved(self, here: Path) -> None:
        run = a_run(here)
        assert SettingsFolder(run).own
        shutil.move(run, here / "moved")
        assert SettingsFolder(here / "moved").own
        file = here / "moved" / "internal" / "settings.toml"
        file.write_text(file.read_text().replace("seed = 0", "seed = 1"))
        assert not SettingsFolder(here / "moved").own

    def test_consent_is_not_stored(self, here: Path, server: FaultyServer) -> None:
        run = a_run(here, embedder="openai:x", base_url=server.url, private_text_may_leave=True, stop=True)
        assert "may_leave" not in (run / "internal" / "settings.toml").read_text()
        with pytest.raises(PrivacyError, match="private_text_may_leave"):
            resume(run)
        assert len(resume(run, private_text_may_leave=True)) == 6

    def test_a_file_of_settings_cannot_consent(self, tmp_path: Path) -> None:
        (tmp_path / "run.toml").write_text("private_text_may_leave = true\n")
        with pytest.raises(PrivacyError, match="--private-text-may-leave"):
            read_toml(tmp_path / "run.toml")


class TestNothingIsSent:
    """What a folder wants is named, and not done."""

    def test_evaluate_sends_nothing_to_an_address_of_the_folder(self, here: Path, server: FaultyServer) -> None:
        run = a_run(here)
        embedder = (run / "internal" / "settings.json").read_text().replace("MiniLM(", "OpenAIEmbedder(")
        (run / "internal" / "settings.json").write_text(embedder)
        received(run, **hostile(server))
        said = one_line_error(gape("evaluate", run, "--private", here / "reviews.csv"))
        assert server.url in said
        assert "GITHUB_TOKEN" in said
        assert TOKEN not in said
        said = one_line_error(gape("evaluate", run, "--private", here / "reviews.csv", "--private-text-may-leave"))
        assert server.url in said
        assert server.bodies == []

    def test_resume_sends_nothing_to_an_address_of_the_folder(self, here: Path, server: FaultyServer) -> None:
        run = received(a_run(here, stop=True), ledger='":memory:"', **hostile(server))
        shutil.rmtree(run / "internal" / "rounds")
        (run / "internal" / "settings.json").unlink()  # as if nothing had begun: there is no part to compare with
        said = one_line_error(gape("resume", run))
        assert server.url in said
        assert "--embedder-base-url" in said
        assert ":memory:" in said
        assert server.bodies == []

    def test_a_generator_that_is_not_the_recorded_one_writes_nothing(self, here: Path) -> None:
        run = received(a_run(here), generator=f'"corpus:{here / "secret.txt"}"')
        with pytest.raises(PrivacyError, match=r"secret\.txt"):
            expand(run, 12)
        with pytest.raises(RunError, match="was made by the generator"):
            expand(run, 12, generator=f"corpus:{here / 'secret.txt'}")
        said = one_line_error(gape("expand", run, "--count", 12, "--out", here / "more.csv"))
        assert "diary" not in said
        assert not (here / "more.csv").exists()
        assert len(expand(run, 12, generator=f"corpus:{here / 'public.txt'}")) == 12

    def test_the_users_own_run_needs_no_flags(self, here: Path) -> None:
        assert len(expand(a_run(here), 12)) == 12

    def test_expand_of_the_users_own_run_refuses_a_corpus_that_has_changed(self, here: Path) -> None:
        run = a_run(here)
        (here / "public.txt").write_text((here / "secret.txt").read_text())
        with pytest.raises(RunError, match="was made by the generator"):
            expand(run, 12)

    def test_a_strangers_run_is_resumed_by_what_the_user_gives(self, here: Path) -> None:
        run = received(a_run(here, stop=True))
        with pytest.raises(PrivacyError, match="--generator --data"):
            resume(run)
        given: dict[str, Any] = {"data": str(here / "reviews.csv"), "generator": f"corpus:{here / 'public.txt'}"}
        assert len(resume(run, **given)) == 6
        assert SettingsFolder(run).own

    def test_a_report_reads_no_data_and_loads_no_model_that_a_stranger_names(self, here: Path) -> None:
        run = received(a_run(here), data=json.dumps(str(here / "secret.txt")))
        said = one_line_error(gape("report", run, "--internal"))
        assert "--private" in said
        assert "diary" not in said

    def test_an_engine_of_a_stranger_is_not_used(self, here: Path) -> None:
        run = received(a_run(here, stop=True), engine='"ray:127.0.0.1:1"')
        with pytest.raises(PrivacyError, match="--engine"):
            resume(run, data=str(here / "reviews.csv"), generator=f"corpus:{here / 'public.txt'}")

    def test_vectors_of_a_stranger_name_no_ledger(self, here: Path) -> None:
        assert gape("embed", here / "reviews.csv", "--text", "review", "--out", here / "vectors").exit_code == 0
        manifest = here / "vectors" / "gape-vectors.json"
        values = json.loads(manifest.read_text())
        assert values.pop("seal")
        manifest.write_text(json.dumps(values))
        said = one_line_error(gape("plan", here / "vectors", "--epsilon", 1))
        assert "--ledger" in said
        given = ["--ledger", here / "reviews.csv.gape-ledger.sqlite"]
        assert gape("plan", here / "vectors", "--epsilon", 1, *given).exit_code == 0


class TestLedgers:
    @pytest.fixture
    def bookmarks(self, here: Path) -> Path:
        path = here / "bookmarks.sqlite"
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE bookmarks (address TEXT)")
            database.commit()
        path.chmod(0o600)
        return path

    @pytest.mark.parametrize("command", ["status", "audit", "resume"])
    def test_another_database_stays_as_it_is(self, here: Path, bookmarks: Path, command: str) -> None:
        run = a_run(here, stop=True)
        before = bookmarks.read_bytes(), {path.name for path in here.iterdir()}
        theirs = received(run, ledger=json.dumps(str(bookmarks)))
        gape(command, theirs)
        given = ["--data", here / "reviews.csv", "--generator", f"corpus:{here / 'public.txt'}"]
        result = gape(command, theirs, "--ledger", bookmarks, *(given if command == "resume" else []))
        assert "is not a ledger" in one_line_error(result)
        assert (bookmarks.read_bytes(), {path.name for path in here.iterdir()}) == before

    @pytest.mark.parametrize(
        "statement",
        [
            "CREATE TRIGGER t AFTER INSERT ON releases BEGIN DELETE FROM releases; END",
            "CREATE VIEW v AS SELECT * FROM facts",
            "CREATE INDEX i ON facts (upper(value))",
            "ALTER TABLE releases ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))",
        ],
        ids=["trigger", "view", "index", "computed column"],
    )
    def test_a_ledger_that_computes_something_is_refused(self, tmp_path: Path, statement: str) -> None:
        path = tmp_path / "ledger"
        with closing(Ledger(path, Budget(1.0, 1e-5))):
            pass
        with closing(sqlite3.connect(path)) as database:
            database.execute(statement)
            database.commit()
        with pytest.raises(RunError, match="triggers"):
            Ledger(path)

    def test_what_a_stranger_says_of_the_ledger_is_not_looked_up(self, here: Path) -> None:
        run = a_run(here)
        known = SettingsFolder(run).status()
        assert known.epsilon_spent is not None
        received(run)
        assert SettingsFolder(run).status().epsilon_spent is None
        assert "give --ledger" in gape("status", run).stdout
        given = SettingsFolder(run).status(str(here / "reviews.csv.gape-ledger.sqlite"))
        assert given.epsilon_spent == known.epsilon_spent

    def test_a_link_to_the_data_leads_to_its_ledger(self, here: Path) -> None:
        a_run(here)
        (here / "alias.csv").symlink_to("reviews.csv")
        arguments = ["--text", "review", "--epsilon", 4, "--generator", f"corpus:{here / 'public.txt'}"]
        said = one_line_error(gape("run", here / "alias.csv", *arguments, "--out", here / "second"))
        assert "above its budget" in said
        assert not list(here.glob("alias*ledger*"))

    def test_a_plan_finds_the_ledger_of_a_folder_however_it_is_written(self, here: Path) -> None:
        folder = here / "texts"
        folder.mkdir()
        for number, row in enumerate(private_rows(30)):
            (folder / f"{number}.txt").write_text(row["review"])
        arguments = ["--epsilon", 4, "--generator", f"corpus:{here / 'public.txt'}", "--samples", 4, "--rounds", 1]
        assert gape("run", folder, *arguments, "--out", here / "run").exit_code == 0
        for name in (f"{folder}", f"{folder}/", "texts", "texts/"):
            assert "This run exceeds the rest" in " ".join(gape("plan", name, *arguments).stdout.split())

    def test_a_total_says_which_ledger_it_was_added_up_by(self, here: Path) -> None:
        run = a_run(here)
        with closing(Ledger(here / "reviews.csv.gape-ledger.sqlite")) as ledger:
            mark = ledger.id[:12]
        assert f"By the ledger {mark}, all releases about this dataset" in (run / "release" / "PRIVACY.txt").read_text()

    def test_without_a_ledger_no_total_is_stated(self, here: Path) -> None:
        said = (a_run(here, ledger=":memory:") / "release" / "PRIVACY.txt").read_text()
        assert "No ledger was kept" in said
        assert "add up" not in said


class TestContradictions:
    """Each command that takes a folder refuses one whose files do not tell one story."""

    @pytest.fixture
    def run(self, here: Path, template: Path) -> Path:
        return Path(shutil.copytree(template, here / "run"))

    def commands(self, run: Path) -> Iterator[tuple[str, ...]]:
        here = run.parent
        yield "status", str(run)
        yield "report", str(run), "--no-map"
        yield "evaluate", str(run), "--private", str(here / "reviews.csv")
        yield "export", str(run), "--out", str(here / "out.csv")
        yield "expand", str(run), "--count", "12", "--out", str(here / "more.csv")
        yield "resume", str(run)

    def refused_by_all(self, run: Path, said: str, ledger: Path) -> None:
        for command in self.commands(run):
            assert said in one_line_error(gape(*command)), command[0]
        audit = gape("audit", run, "--ledger", ledger)
        assert audit.exit_code == 1
        assert "FAILED  folder" in audit.stdout

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sigma", [9.0, 9.0]),
            ("epsilon", 3.0),
            ("delta", 0.5),
            ("neighbours", "add_remove"),
            ("votes_per_unit", 2),
            ("dataset_epsilon", 0.1),
            ("unit", "user"),
            ("ledger", "0123456789ab"),
        ],
    )
    def test_a_statement_that_contradicts_its_plan(self, run: Path, template: Path, name: str, value: object) -> None:
        file = run / "release" / "privacy.json"
        values = json.loads(file.read_text())
        if name in {"sigma", "neighbours", "votes_per_unit"}:
            values |= {"epsilon": 3.9, "dataset_epsilon": 3.9}  # a claim that would hold by itself
        file.write_text(json.dumps(values | {name: value}))
        self.refused_by_all(run, "privacy.json", ledger_of(template))

    def test_a_run_without_noise_that_states_a_guarantee(self, here: Path, template: Path) -> None:
        run = a_run(here, epsilon=math.inf)
        shutil.copy(template / "release" / "privacy.json", run / "release")
        self.refused_by_all(run, "privacy.json", ledger_of(run))

    def test_settings_that_are_not_those_the_run_began_with(self, run: Path, template: Path) -> None:
        received(run, samples="7")
        self.refused_by_all(run, "samples", ledger_of(template))

    def test_another_generator_than_the_recorded_one(self, run: Path, template: Path) -> None:
        received(run, generator='"embedded"', variation='"resample"')
        self.refused_by_all(run, "generator", ledger_of(template))

    def test_samples_that_no_candidate_was(self, run: Path, template: Path) -> None:
        file = run / "internal" / "rounds" / "002" / "synthetic.parquet"
        table = pq.read_table(file)
        texts = pa.array([*table["sample"].to_pylist()[:-1], f"something else, {CANARIES[0]}"])
        pq.write_table(table.set_column(table.column_names.index("sample"), "sample", texts), file)
        self.refused_by_all(run, "do not belong together", ledger_of(template))

    def test_candidates_that_were_kept_and_are_others(self, run: Path) -> None:
        file = run / "internal" / "rounds" / "001" / "candidates.parquet"
        table = pq.read_table(file)
        texts = table["sample"].to_pylist()
        chosen = pq.read_table(file.with_name("synthetic.parquet"))["candidate"].to_pylist()
        place = next(i for i in range(6) if i not in chosen)
        texts[place] = "something else"
        pq.write_table(table.set_column(table.column_names.index("sample"), "sample", pa.array(texts)), file)
        with pytest.raises(ContradictionError, match="do not belong together"):
            read_run(run)

    def test_words_that_are_not_those_of_the_statement(self, run: Path) -> None:
        file = run / "release" / "PRIVACY.txt"
        file.write_text(file.read_text().replace("differentially private", "perfectly private"))
        for command in ("export", "expand"):
            options = ["--count", 12] if command == "expand" else []
            assert "PRIVACY.txt" in one_line_error(gape(command, run, "--out", run.parent / "out.csv", *options))

    def test_what_agrees_is_read(self, run: Path, template: Path) -> None:
        record = read_run(run)
        assert record.finished
        assert record.last == 2
        assert gape("audit", run).exit_code == 0


def test_an_evaluation_is_for_its_owner_alone(here: Path) -> None:
    run = a_run(here)
    evaluate(run, str(here / "reviews.csv"))
    assert stat.S_IMODE((run / "internal" / "evaluation.json").stat().st_mode) == 0o600


class TestExactVotes:
    """What a service is asked would tell it of votes that no noise covers."""

    def test_a_run_without_noise_asks_for_consent(self, here: Path, server: FaultyServer) -> None:
        arguments = ["--text", "review", "--epsilon", "inf", "--samples", 4, "--rounds", 1, "--copies", 1]
        (here / "prompts.toml").write_text(PROMPTS)
        arguments += ["--prompts", here / "prompts.toml", "--selector", "ranking"]
        service = ["--generator", "openai:x", "--base-url", server.url, "--out", here / "run"]
        said = one_line_error(gape("run", here / "reviews.csv", *arguments, *service))
        assert "exact_votes_may_leave" in said
        assert server.bodies == []
        assert gape("run", here / "reviews.csv", *arguments, *service, "--exact-votes-may-leave").exit_code == 0

    def test_a_comparison_asks_for_consent(self, here: Path, server: FaultyServer) -> None:
        arguments = ["--text", "review", "--epsilons", "1", "--methods", "ranking", "--seeds", 1, "--jobs", 1]
        small = ["--samples", 4, "--rounds", 1, "--copies", 1, "--out", here / "comparison"]
        service = ["--generator", "openai:x", "--base-url", server.url]
        said = one_line_error(gape("compare", here / "reviews.csv", *arguments, *small, *service))
        assert "exact_votes_may_leave" in said
        assert server.bodies == []
        assert not (here / "comparison" / "cells").exists() or not list((here / "comparison" / "cells").glob("*.json"))
