"""Text synthesis from end to end, with real embeddings."""

import json
import math
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import command
import faulty_server
import gape
from faulty_server import PASSING, REFUSALS, FaultyServer
from gape.audit.books import audit_run
from gape.core.errors import BudgetError, InputError, PrivacyError, RunError, SpendingError
from gape.language.request import Request
from gape.privacy.noise import SeededNoise
from gape.runs.export import export
from gape.runs.folder.stored import SettingsFolder, ledger_of
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text, synthesize
from generators.writing import write
from made_up import CANARIES, PROMPTS, STARS, leaks, private_rows, public_texts, write_corpus, write_csv


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "reviews.csv", private_rows())


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the server answer in sentences."""
    monkeypatch.setattr(faulty_server, "answer_to", lambda prompt, seed: write(Request(prompt, seed=seed)))


def by_corpus(data: Path, **values: Any) -> Settings:
    corpus = data.parent / "public.txt"
    if not corpus.exists():
        write_corpus(corpus)
    small = {"epsilon": 4.0, "samples": 6, "rounds": 2, "scales": [0.4, 0.8], "text": "review"}
    return Settings.of(small, {"data": str(data), "generator": f"corpus:{corpus}", **values})


def by_service(data: Path, url: str, **values: Any) -> Settings:
    prompts = data.parent / "prompts.toml"
    prompts.write_text(PROMPTS)
    small = {"epsilon": math.inf, "samples": 8, "rounds": 2, "copies": 3, "text": "review", "selector": "ranking"}
    service = {"generator": "openai:tiny", "base_url": url, "prompts": str(prompts), "timeout": 2.0}
    return Settings.of(small, service, {"data": str(data), "exact_votes_may_leave": True, **values})


def settled(server: FaultyServer) -> int:
    """The number of requests, once those that were on their way when a run stopped have come."""
    seen = -1
    while seen != len(server.bodies):
        seen = len(server.bodies)
        time.sleep(0.5)
    return seen


def candidates(folder: Path) -> Iterator[list[str]]:
    for path in sorted((folder / "internal" / "rounds").glob("*/candidates.parquet")):
        yield pq.read_table(path)["sample"].to_pylist()


class TestFolder:
    def test_a_run_publishes_public_text_and_leaks_nothing(self, data: Path, capfd: pytest.CaptureFixture[str]) -> None:
        folder = data.parent / "runs" / "one"
        result = run_text(by_corpus(data), folder)
        assert 1 <= len(result) <= 6
        assert set(result) <= set(public_texts())
        assert result.privacy.private
        assert result.privacy.epsilon <= 4.0
        assert (folder / "internal").stat().st_mode & 0o777 == 0o700
        assert leaks(data.parent, data) == []
        assert data.with_name("reviews.csv.gape-ledger.sqlite").exists()
        said = capfd.readouterr()
        assert not said.out + said.err

    def test_a_separation_read_off_the_data_by_an_older_version_is_refused(self, data: Path) -> None:
        folder = data.parent / "run"
        run_text(by_corpus(data, separation=10.0), folder)
        file = folder / "internal" / "settings.toml"
        file.write_text(file.read_text().replace("separation = 10.0", 'separation = "private-kmeans"'))
        for reading in (resume, audit_run, lambda run: export(run, data.parent / "out.csv", "csv")):
            with pytest.raises(RunError, match="NOT PRIVATE, because its run computes a separation from the private"):
                reading(folder)

    def test_another_run_on_the_data_says_that_all_together_have_no_guarantee(self, data: Path) -> None:
        first, second = data.parent / "first", data.parent / "second"
        run_text(by_corpus(data, budget_epsilon=20.0), first, noise=SeededNoise(0))
        stood = SettingsFolder(first).status()
        assert stood.epsilon_spent == stood.dataset_epsilon == math.inf
        found = run_text(by_corpus(data, budget_epsilon=20.0), second).privacy
        assert found.private
        assert found.dataset_epsilon == math.inf
        stood = SettingsFolder(second).status()
        assert stood.epsilon_spent is not None
        assert stood.epsilon_spent <= 4.0
        assert stood.dataset_epsilon == math.inf
        audited = audit_run(second)
        assert [check.name for check in audited.checks if not check.passed] == ["budget"]
        assert "source" in [check.name for check in audit_run(first).checks if not check.passed]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({}, "the number of records is private, and delta would follow from it; give delta"),
            ({"delta": 1e-3, "samples": None}, "and samples would follow from it; give samples"),
        ],
    )
    def test_nothing_follows_from_a_number_of_records_that_is_private(
        self, data: Path, given: dict[str, Any], message: str
    ) -> None:
        chosen = replace(by_corpus(data), neighbours="add_remove", **given)
        with pytest.raises(InputError, match=message):
            run_text(chosen, data.parent / "run")
        assert not (data.parent / "run").exists()

    def test_neighbours_with_one_record_more_get_the_same_settings_and_statement(self, tmp_path: Path) -> None:
        said = []
        for count in (90, 89):
            data = write_csv(tmp_path / f"{count}.csv", private_rows(count))
            chosen = by_corpus(data, neighbours="add_remove", delta=1e-3)
            found = run_text(chosen, tmp_path / f"run {count}")
            stored = SettingsFolder(tmp_path / f"run {count}").settings()
            said.append((replace(found.privacy, ledger="").text(), replace(stored, data="")))
        assert said[0] == said[1]
        assert "Taken as public: the settings" in said[0][0]

    def test_a_run_that_is_refused_raises_no_budget(self, data: Path) -> None:
        run_text(by_corpus(data), data.parent / "run")
        write_csv(data, private_rows(91))
        with pytest.raises(PrivacyError, match="has changed"):
            run_text(by_corpus(data, budget_epsilon=50.0), data.parent / "again")
        standing = ledger_of(by_corpus(data))
        assert standing is not None
        assert standing.budget.epsilon == 4.0

    def test_a_run_that_came_to_nothing_sets_no_budget(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(sys.modules["gape.runs.synthesize"], "make_electorate", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run_text(by_corpus(data, epsilon=0.5), data.parent / "run")
            with pytest.raises(ZeroDivisionError):
                run_text(by_corpus(data, epsilon=2.0), data.parent / "run")
        assert run_text(by_corpus(data), data.parent / "run").privacy.private
        with pytest.raises(BudgetError, match="above its budget of 4 "):
            run_text(by_corpus(data, epsilon=1.0), data.parent / "again")

    def test_a_budget_that_somebody_set_stays(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(sys.modules["gape.runs.synthesize"], "make_electorate", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run_text(by_corpus(data, epsilon=0.5, budget_epsilon=1.0), data.parent / "run")
        with pytest.raises(BudgetError, match="above its budget of 1 "):
            run_text(by_corpus(data), data.parent / "again")

    def test_a_budget_that_would_not_do_is_not_set(self, data: Path) -> None:
        run_text(by_corpus(data), data.parent / "run")
        with pytest.raises(BudgetError, match=r"above its budget of 4.5"):
            run_text(by_corpus(data, budget_epsilon=4.5), data.parent / "again")
        standing = ledger_of(by_corpus(data))
        assert standing is not None
        assert standing.budget.epsilon == 4.0

    def test_the_private_data_is_no_corpus(self, data: Path) -> None:
        (data.parent / "link.csv").symlink_to(data)
        for name in ("reviews.csv", "link.csv"):
            chosen = replace(by_corpus(data), generator=f"corpus:{data.parent / name}", corpus_text="review")
            with pytest.raises(PrivacyError, match="is the private data, and a corpus is published unchanged"):
                run_text(chosen, data.parent / "run")
        assert not (data.parent / "run").exists()

    def test_a_corpus_whose_texts_cannot_be_told_is_refused_before_any_work(self, data: Path) -> None:
        corpus = write_csv(data.parent / "public.csv", private_rows(9))
        chosen = replace(by_corpus(data), generator=f"corpus:{corpus}")
        with pytest.raises(InputError, match=r"the corpus cannot be used: .* as corpus_text "):
            run_text(chosen, data.parent / "run")
        assert not list(data.parent.glob("*ledger*"))

    def test_every_label_begins_with_a_text(self, data: Path) -> None:
        chosen = by_corpus(data, label="stars", labels=("other", "rare", *STARS), samples=2, epsilon=math.inf)
        with pytest.raises(InputError, match=r"initial must be at least 5, one text per label, got 4"):
            run_text(replace(chosen, initial=4), data.parent / "run")
        made = run_text(chosen, data.parent / "run")
        assert made.labels is not None
        assert set(made.labels) <= set(STARS)  # what no record has is not what survives
        assert SettingsFolder(data.parent / "run").settings().initial == 5

    def test_a_run_goes_on_with_its_own_ledger_alone(self, data: Path) -> None:
        folder, ledger = data.parent / "run", data.parent / "reviews.csv.gape-ledger.sqlite"

        def stop(now: Progress) -> None:
            if now.round == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_text(by_corpus(data), folder, progress=stop)
        before, kept = SettingsFolder(folder).settings(), SettingsFolder(folder).status()
        with pytest.raises(RunError, match=r"is not at .*nope.sqlite; restore it"):
            resume(folder, ledger=str(data.parent / "nope.sqlite"))
        assert not (data.parent / "nope.sqlite").exists()
        other = write_csv(data.parent / "other.csv", private_rows(50))
        run_text(by_corpus(other), data.parent / "second")
        with pytest.raises(RunError, match="is charged to another ledger"):
            resume(folder, ledger=f"{other}.gape-ledger.sqlite")
        assert SettingsFolder(folder).settings() == before
        moved = ledger.rename(data.parent / "elsewhere.sqlite")
        assert SettingsFolder(folder).status().epsilon_spent is None
        shutil.copy(f"{other}.gape-ledger.sqlite", ledger)
        assert SettingsFolder(folder).status().epsilon_spent is None  # not known, and not that of another run
        ledger.unlink()
        moved.rename(ledger)
        assert SettingsFolder(folder).status() == kept
        assert resume(folder).privacy.private

    def test_settings_are_written_in_full(self, data: Path) -> None:
        run_text(by_corpus(data), data.parent / "run")
        stored = SettingsFolder(data.parent / "run").settings()
        assert stored.data == str(data)
        assert stored.delta == pytest.approx(1 / (90 * math.log(90)))
        assert (stored.samples, stored.initial, stored.copies) == (6, 6, 1)

    def test_the_same_call_returns_what_is_there_and_another_is_refused(self, data: Path) -> None:
        folder = data.parent / "run"
        first = run_text(by_corpus(data), folder)
        assert run_text(by_corpus(data), folder).texts == first.texts == resume(folder).texts
        with pytest.raises(RunError, match="was started with samples 6, not 7"):
            run_text(by_corpus(data, samples=7), folder)
        with pytest.raises(InputError, match="rounds cannot change within a run"):
            resume(folder, rounds=9)

    def test_the_data_has_one_budget_whatever_runs_on_it(self, data: Path) -> None:
        run_text(by_corpus(data), data.parent / "run")
        with pytest.raises(BudgetError, match="budget_epsilon"):
            run_text(by_corpus(data), data.parent / "again")
        with pytest.raises(BudgetError, match="budget_epsilon"):  # with labels it is the same data
            run_text(by_corpus(data, label="stars", labels=STARS), data.parent / "again")
        assert not (data.parent / "again").exists()
        assert run_text(by_corpus(data, budget_epsilon=9.0), data.parent / "again").privacy.dataset_epsilon > 4.0

    def test_a_foreign_folder_is_left_alone(self, data: Path) -> None:
        folder = data.parent / "mine"
        folder.mkdir()
        (folder / "thesis.txt").write_text("")
        with pytest.raises(RunError, match="is not the folder of a run"):
            run_text(by_corpus(data), folder)
        with pytest.raises(RunError, match="is not the folder of a run"):
            resume(folder)
        assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
        assert not list(data.parent.glob("*ledger*"))

    def test_changed_data_is_noticed_when_resuming(self, data: Path) -> None:
        folder = data.parent / "run"

        def stop(now: Progress) -> None:
            if now.round == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_text(by_corpus(data), folder, progress=stop)
        whole = data.read_text()
        write_csv(data, private_rows(91))
        with pytest.raises((PrivacyError, RunError), match=r"has changed|was started with"):
            resume(folder)
        data.write_text(whole.replace("number 5.", "number 5!"))
        with pytest.raises(PrivacyError, match=r"reviews.csv has changed, or is read in another way"):
            resume(folder)
        data.write_text(whole)
        assert resume(folder).privacy.private

    def test_status(self, data: Path) -> None:
        folder = data.parent / "run"

        def stop(now: Progress) -> None:
            assert now.round == 0 or SettingsFolder(folder).status().running
            if now.doing == "voting" and now.round == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_text(by_corpus(data), folder, progress=stop)
        halfway = SettingsFolder(folder).status()
        assert (halfway.rounds_done, halfway.voting, halfway.finished, halfway.running) == (1, True, False, False)
        assert halfway.epsilon_spent is not None
        assert 0 < halfway.epsilon_spent < 4
        resume(folder)
        done = SettingsFolder(folder).status()
        assert (done.rounds_done, done.finished) == (2, True)
        assert done.epsilon_spent == pytest.approx(4.0, rel=1e-3)

    def test_other_versions_are_noted_in_one_line_when_resuming(self, data: Path) -> None:
        folder = data.parent / "run"

        def stop(now: Progress) -> None:
            if now.round == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_text(by_corpus(data), folder, progress=stop)
        file = folder / "internal" / "settings.json"
        stored = json.loads(file.read_text())
        assert {"onnxruntime", "tokenizers", "opendp"} <= set(stored["versions"][0]["packages"])
        stored["versions"][0]["packages"] |= {"gape": "0.0.9", "tokenizers": "0.1.0"}
        file.write_text(json.dumps(stored))
        resumed = command.gape("resume", folder)
        assert resumed.exit_code == 0
        notes = [line for line in resumed.stderr.splitlines() if line.startswith("note: ")]
        assert len(notes) == 1
        assert f"{folder} was made with gape 0.0.9, tokenizers 0.1.0 so far and is resumed with gape " in notes[0]
        assert "Warning" not in resumed.stderr
        status = " ".join(command.gape("status", folder).stdout.split())
        assert re.search(r"versions gape 0\.0\.9, .*; from round \d on gape .*, tokenizers ", status)
        assert "note:" not in command.gape("resume", folder).stderr

    def test_a_broken_ledger_is_said(self, data: Path) -> None:
        data.with_name("reviews.csv.gape-ledger.sqlite").write_text("not a database")
        data.with_name("reviews.csv.gape-ledger.sqlite").chmod(0o600)
        with pytest.raises(RunError, match="cannot be used as a ledger"):
            run_text(by_corpus(data), data.parent / "run")


class TestLabelsAndUsers:
    def test_labels_come_with_the_texts(self, data: Path) -> None:
        folder = data.parent / "run"
        result = run_text(by_corpus(data, label="stars", labels=STARS, samples=9, epsilon=math.inf), folder)
        assert result.labels is not None
        assert len(result.labels) == len(result.texts)
        assert set(result.labels) == {"low", "mid"}  # no record votes for the third
        assert leaks(data.parent, data) == []

    def test_users_are_protected_whole(self, data: Path) -> None:
        result = run_text(by_corpus(data, user="who", votes_per_unit=2), data.parent / "run")
        assert result.privacy.unit == "user"
        assert result.privacy.votes_per_unit == 2
        assert "replacing one user by another" in result.privacy.text()
        assert leaks(data.parent, data) == []

    def test_a_failure_names_no_private_text(self, data: Path) -> None:
        rows = [*private_rows(), {"review": "More.", "stars": CANARIES[0], "who": "x"}]
        write_csv(data, rows)
        with pytest.raises(InputError) as caught:
            run_text(by_corpus(data, label="stars", labels=STARS), data.parent / "run")
        assert not any(canary in str(caught.value) for canary in CANARIES)
        assert leaks(data.parent, data) == []


@pytest.mark.usefixtures("writing")
class TestService:
    def test_one_fault_in_ten_costs_little_and_nothing_private_is_sent(self, data: Path) -> None:
        with FaultyServer() as clean:
            run_text(by_service(data, clean.url), data.parent / "clean")
        faults = (*PASSING, *REFUSALS)
        with FaultyServer(faults=faults, rate=0.1, seed=3, retry_after="0", hang=5.0) as faulty:
            folder = data.parent / "faulty"
            result = run_text(by_service(data, faulty.url), folder)
        assert sum(faulty.failed.values()) >= 3
        assert len(result) == 8
        assert all(len(text.split()) >= 4 for text in result)
        assert [len(each) for each in candidates(folder)] == [32, 32]
        assert len(clean.bodies) == 8 + 2 * 24
        assert len(faulty.bodies) <= 1.5 * len(clean.bodies)
        sent = json.dumps([*clean.bodies, *faulty.bodies])
        assert not any(canary in sent for canary in CANARIES)
        assert not any(row["review"] in sent for row in private_rows())
        assert leaks(data.parent, data) == []

    def test_a_run_that_is_stopped_goes_on_to_the_same_end(self, data: Path) -> None:
        def stop(now: Progress) -> None:
            if now.written == 20:
                raise KeyboardInterrupt

        with FaultyServer() as server:
            settings = by_service(data, server.url, epsilon=4.0, concurrency=4)
            ledgers = [settings.with_values(ledger=str(data.parent / name)) for name in ("a", "b")]
            whole = run_text(ledgers[0], data.parent / "whole", noise=SeededNoise(1))
            once = len(server.bodies)
            with pytest.raises(KeyboardInterrupt):
                run_text(ledgers[1], data.parent / "run", progress=stop, noise=SeededNoise(1))
            stored = SettingsFolder(data.parent / "run").status().answers
            assert stored >= 20
            before = settled(server)
            resumed = resume(data.parent / "run", noise=SeededNoise(1), exact_votes_may_leave=True)
            assert len(server.bodies) - before == once - stored
        assert resumed.texts == whole.texts

    def test_a_cap_stops_a_run_which_a_higher_one_lets_go_on(self, data: Path) -> None:
        with FaultyServer() as server:
            settings = by_service(data, server.url, max_tokens_total=1500)
            with pytest.raises(SpendingError, match="raise the cap"):
                run_text(settings, data.parent / "run")
            assert server.tokens <= 1500
            assert len(resume(data.parent / "run", max_tokens_total=10**6, exact_votes_may_leave=True)) == 8

    def test_keys_and_prompts_are_nowhere_on_disk(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_KEY", "sk-very-secret-123")
        with FaultyServer(key="sk-very-secret-123") as server:
            run_text(by_service(data, server.url, key_variable="MY_KEY"), data.parent / "run")
        for path in (data.parent / "run").rglob("*"):
            assert not path.is_file() or b"sk-very-secret" not in path.read_bytes()
        with sqlite3.connect(data.parent / "run" / "internal" / "answers.sqlite") as database:
            stored = repr(database.execute("SELECT * FROM answers").fetchall())
        database.close()
        assert "Say it in other words" not in stored

    def test_private_text_is_embedded_by_a_service_only_with_consent(self, data: Path) -> None:
        with FaultyServer(model="e") as server:
            settings = by_corpus(data, embedder="openai:e", base_url=server.url)
            with pytest.raises(PrivacyError, match="would send the private text"):
                run_text(settings, data.parent / "run")
            assert server.bodies == []
            assert not (data.parent / "run").exists()
            assert not list(data.parent.glob("*ledger*"))
            agreed = settings.with_values(private_text_may_leave=True)
            assert run_text(agreed, data.parent / "run").privacy.private

    def test_caps_cover_embeddings_and_hold_over_all_processes(self, data: Path) -> None:
        with FaultyServer(model="e") as server:
            settings = by_corpus(
                data,
                embedder="openai:e",
                base_url=server.url,
                private_text_may_leave=True,
                embedding_price=1e6,
                concurrency=1,  # each request in flight counts with its bytes
            )
            other = str(data.parent / "other")
            whole, records = data.parent / "whole", len(private_rows())
            run_text(settings, whole)
            needed = server.tokens
            private = sum(len(row["review"].split()) for row in private_rows())
            counts = json.loads((whole / "internal" / "embedded.json").read_text())
            assert counts == {"times": 1, "tokens": needed - private}
            with pytest.raises(SpendingError, match="the cap of a cost of 50; raise the cap"):
                run_text(settings.with_values(max_cost=50.0, ledger=other), data.parent / "early")
            assert not (data.parent / "early").exists()
            folder = data.parent / "run"
            before = server.tokens
            cap = private + 150.0  # the last private text counts with its bytes before it is sent
            with pytest.raises(SpendingError, match="raise the cap to continue"):
                run_text(settings.with_values(max_cost=cap, ledger=other), folder)
            assert private <= server.tokens - before <= cap
            assert len(server.bodies) > records
            with pytest.raises(SpendingError):  # the private texts were paid for once already
                resume(folder, max_cost=private + 160.0, private_text_may_leave=True)
            assert server.tokens - before <= private + 160
            assert json.loads((folder / "internal" / "embedded.json").read_text())["times"] == 1
            assert resume(folder, max_cost=10.0 * needed, private_text_may_leave=True).privacy.private
            counts = json.loads((folder / "internal" / "embedded.json").read_text())
            assert counts["times"] == 2
            assert server.tokens - before == 2 * private + counts["tokens"]


class TestOneLine:
    def test_a_list_of_texts_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        corpus = write_corpus(tmp_path / "public.txt")
        texts = [row["review"] for row in private_rows()]
        result = gape.synthesize(texts, epsilon=4, samples=5, rounds=1, generator=f"corpus:{corpus}")
        assert set(result.texts) <= set(public_texts())
        assert result.labels is None
        assert "differentially private" in result.privacy.text()
        assert leaks(tmp_path) == []

    def test_a_folder_can_be_resumed_with_the_data_given_again(self, tmp_path: Path) -> None:
        corpus = write_corpus(tmp_path / "public.txt")
        rows = private_rows()
        values: dict[str, Any] = {"text": "review", "rounds": 2, "generator": f"corpus:{corpus}", "samples": 5}

        def stop(now: Progress) -> None:
            if now.round == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            synthesize(rows, epsilon=4, folder=tmp_path / "run", progress=stop, **values)
        with pytest.raises(InputError, match="was in memory; give it again"):
            resume(tmp_path / "run")
        result = synthesize(rows, epsilon=4, folder=tmp_path / "run", **values)
        assert result.privacy.epsilon == pytest.approx(4.0, rel=1e-3)
        assert leaks(tmp_path) == []

    def test_a_misspelt_setting_is_refused(self) -> None:
        with pytest.raises(InputError, match="did you mean 'rounds'"):
            synthesize(["a"], epsilon=1, round=3)


def test_expanding_costs_nothing(data: Path) -> None:
    folder = data.parent / "run"
    result = run_text(by_corpus(data, label="stars", labels=STARS), folder)
    ledger = data.with_name("reviews.csv.gape-ledger.sqlite").read_bytes()
    data.unlink()  # it is not needed any more
    more = gape.expand(folder, 40)
    assert len(more) == 40
    assert more["text"].tolist()[: len(result)] == result.texts
    assert set(more["label"]) <= set(result.labels or ())
    assert set(more["text"]) <= set(public_texts())
    assert data.with_name("reviews.csv.gape-ledger.sqlite").read_bytes() == ledger
    with pytest.raises(InputError, match="count must be more than"):
        gape.expand(folder, 1)
    some = gape.expand(folder, 10, where=["stars=low:4|high:1"])
    assert sorted(some["label"]) == ["high"] * 2 + ["low"] * 8
    assert set(some["text"]) <= set(public_texts())
    with pytest.raises(InputError, match="'best' is not a value of 'stars'"):
        gape.expand(folder, 10, where=["stars=best"])


def test_the_embedded_model_writes_the_texts(data: Path) -> None:
    seen: list[Progress] = []
    small = {"samples": 2, "rounds": 1, "scales": [0.6], "words": 12, "epsilon": 8.0, "prompts": "yelp"}
    result = run_text(by_corpus(data, generator="embedded", **small), data.parent / "run", progress=seen.append)
    assert 1 <= len(result) <= 2
    assert all(len(text.split()) >= 3 for text in result)
    embedded = [now.share for now in seen if now.doing == "embedding the private texts"]
    assert embedded[0] is None
    assert embedded[-1] == 1
    assert seen[-1].doing == "done"
    assert seen[-1].share is None
    assert seen[-1].written == seen[-1].texts == 4
    assert seen[-1].tokens > 10
    assert leaks(data.parent, data) == []
