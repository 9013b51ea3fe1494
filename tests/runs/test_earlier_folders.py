"""Run folders and ledgers of the version before the redesign, made by tests/data/before/make.py."""

import hashlib
import hmac
import json
import math
import re
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gape
from command import gape as command
from command import one_line_error
from faulty_server import FaultyServer

ARCHIVES = Path(__file__).parents[1] / "data" / "before"
MADE_IN = "/tmp/gape-before"  # noqa: S108  (where the runs were made, as their settings say)
SEAL = "# Sealed on this machine by whoever wrote the above: "
ROUNDS, SAMPLES, EPSILON = 3, 6, 8.0

FINISHED = ("text", "model", "table")
STOPPED = ("labels-stopped", "model-stopped", "table-stopped")  # in round 2, when its votes were charged and stored

# Other versions of numpy and such than those that made the folders cause a warning.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="session")
def server() -> Iterator[FaultyServer]:
    """Stands for the service that wrote the texts of some of the runs."""
    with FaultyServer() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to put runs into, with the key that their settings are sealed with."""
    monkeypatch.setenv("GAPE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unpack(name: str, place: Path) -> Path:
    """Put a run, its ledger and its data into a folder as they were made."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(place, filter="tar")
    return place / "run"


def served_by(server: FaultyServer, run: Path) -> Path:
    """Have a run made by the service that runs now: its address is part of what a run is known by."""
    for file in (run / "internal" / "settings.toml", run / "internal" / "settings.json"):
        file.write_text(re.sub(r"http://127\.0\.0\.1:\d+/v1", server.url, file.read_text()))
    return run


def moved(name: str, place: Path, server: FaultyServer) -> Path:
    """Put a run into a folder as if it had been made there, by the user who runs this."""
    run = served_by(server, unpack(name, place))
    settings = run / "internal" / "settings.toml"
    content, _, _ = settings.read_text().replace(f"{MADE_IN}/{name}", str(place)).partition(SEAL)
    sealed = hmac.digest((place / "state" / "seal.key").read_bytes(), content.encode(), hashlib.sha256).hex()
    settings.write_text(f"{content}{SEAL}{sealed}\n")
    return run


def ledger_of(place: Path) -> Path:
    return next(place.glob("*ledger.sqlite"))


def data_of(place: Path) -> Path:
    return next(iter([*place.glob("*.csv"), *place.glob("*.npy")]))


def charged(place: Path) -> list[tuple[int, float, int, bytes]]:
    """Read the releases of the ledger: round, sigma, votes of a unit, and the noisy votes."""
    with closing(sqlite3.connect(ledger_of(place))) as database:
        return database.execute("SELECT round, sigma, votes_per_unit, votes FROM releases ORDER BY round").fetchall()


def require_charged_once(place: Path, before: list[tuple[int, float, int, bytes]], epsilon: float = EPSILON) -> None:
    """See that the rounds before the stop are charged as they were, those after it once, and the budget is used up."""
    after = charged(place)
    assert [row[0] for row in after] == list(range(1, ROUNDS + 1))
    assert after[: len(before)] == before
    with closing(gape.Ledger(ledger_of(place))) as ledger:
        budget, releases = ledger.budget, ledger.releases()
    sigma = gape.noise_scale(epsilon, budget.delta, ROUNDS)
    assert releases == (gape.Release(sigma),) * ROUNDS
    assert budget.epsilon == epsilon
    assert budget.allows(releases)
    assert not budget.allows((*releases, releases[0]))
    for turn, _, _, votes in after:
        kept = pq.read_table(place / "run" / "internal" / "rounds" / f"{turn:03d}" / "votes.parquet")["noisy_votes"]
        assert kept.to_pylist() == np.frombuffer(votes, dtype="<i8").tolist()


def published(run: Path) -> int:
    return int(pq.read_table(run / "release" / "synthetic.parquet").num_rows)


def words(*arguments: object) -> str:
    """Run a command that must succeed, and return what it prints, with single spaces."""
    result = command(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_is_read_by_every_command(name: str, place: Path, server: FaultyServer) -> None:
    run = moved(name, place, server)
    before = charged(place)
    status = words("status", run)
    for expected in ("finished", "3 of 3 done", "of a budget of 8"):
        assert expected in status
    assert "books are in order" in words("audit", run)
    words("report", run)
    assert (run / "release" / "report.html").exists()
    words("evaluate", run, "--private", data_of(place))
    words("export", run, "--out", place / "all.jsonl")
    assert len((place / "all.jsonl").read_text().splitlines()) == published(run) == SAMPLES
    words("expand", run, "--count", 9, "--out", place / "more.jsonl")
    assert len((place / "more.jsonl").read_text().splitlines()) == 9
    assert len(gape.resume(run)) == SAMPLES  # it has ended
    require_charged_once(place, before)


def test_texts_that_the_last_pass_has_rewritten_are_published(place: Path, server: FaultyServer) -> None:
    run = moved("model", place, server)
    rewritten = pq.read_table(run / "internal" / "rounds" / "003" / "rewritten.parquet")["sample"].to_pylist()
    assert rewritten
    words("export", run, "--out", place / "all.jsonl")
    texts = [json.loads(line)["text"] for line in (place / "all.jsonl").read_text().splitlines()]
    assert set(rewritten) < set(texts)
    assert gape.resume(run).texts == texts


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_is_read(name: str, place: Path, server: FaultyServer) -> None:
    run = moved(name, place, server)
    status = words("status", run)
    for expected in ("stopped", "gape resume", "1 of 3 done, candidates of the next are written", "of a budget of 8"):
        assert expected in status
    audit = words("audit", run)
    assert "books are in order" in audit
    assert "2 of 3 releases were made" in audit
    words("report", run)
    assert (run / "internal" / "report.html").exists()
    for arguments in (["export", run], ["expand", run, "--count", 9, "--out", place / "more.csv"]):
        assert "not finished its 3 rounds" in one_line_error(command(*arguments))


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_is_resumed_and_no_round_is_paid_for_twice(name: str, place: Path, server: FaultyServer) -> None:
    run = moved(name, place, server)
    before = charged(place)
    assert len(before) == 2
    made = gape.resume(run)
    assert len(made) == published(run) == SAMPLES
    assert made.privacy.private
    assert made.privacy.unit == ("user" if name == "labels-stopped" else "record")
    assert len(made.privacy.sigma) == ROUNDS
    assert made.privacy.epsilon == made.privacy.dataset_epsilon <= EPSILON
    require_charged_once(place, before)
    assert "books are in order" in words("audit", run)
    assert "finished" in words("status", run)
    words("evaluate", run, "--private", data_of(place))


def test_resuming_costs_what_a_run_without_a_stop_has_cost(place: Path, server: FaultyServer) -> None:
    (place / "whole").mkdir()
    unpack("table", place / "whole")
    run = moved("table-stopped", place, server)
    words("resume", run)
    totals, releases = [], []
    for folder in (place, place / "whole"):
        with closing(gape.Ledger(ledger_of(folder))) as ledger:
            totals.append(ledger.total(ledger.budget.delta))
            releases.append(ledger.releases())
    assert totals[0] == totals[1]
    assert releases[0] == releases[1]


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_of_somebody_else_is_resumed_by_what_the_user_gives(
    name: str, tmp_path: Path, server: FaultyServer
) -> None:
    run = served_by(server, unpack(name, tmp_path))
    before = charged(tmp_path)
    assert "unknown: the settings were not written by you" in words("status", run)
    assert "of a budget of 8" in words("status", run, "--ledger", ledger_of(tmp_path))
    refused = one_line_error(command("resume", run))
    assert "was not written by you on this machine" in refused
    reached = {
        "labels-stopped": ["--generator", f"corpus:{tmp_path / 'public.txt'}"],
        "model-stopped": ["--base-url", server.url, "--prompts", str(tmp_path / "prompts.toml")],
        "table-stopped": [],
    }
    words("resume", run, "--data", data_of(tmp_path), *reached[name])
    require_charged_once(tmp_path, before)


def test_a_seal_is_recognised(place: Path) -> None:
    run = unpack("table-stopped", place)
    refused = "was not written by you on this machine"
    assert refused not in command("resume", run).output  # it does not find the data, which is not where it was
    (place / "state" / "seal.key").unlink()
    assert refused in command("resume", run).output


@pytest.mark.parametrize("name", ["text", "table-stopped"])
def test_another_run_on_the_data_is_charged_on_top(name: str, place: Path, server: FaultyServer) -> None:
    """What a run that was stopped has not yet released is not kept for it: no process is at work on it."""
    run = moved(name, place, server)
    data, ledger = data_of(place), str(ledger_of(place))
    schema = str(place / "schema.toml") if name.startswith("table") else None
    corpus = None if schema else f"corpus:{place / 'public.txt'}"
    values = {"ledger": ledger, "schema": schema, "generator": corpus, "text": None if schema else "review"}
    chosen: dict[str, Any] = {key: value for key, value in values.items() if value is not None} | {"rounds": 1}
    with closing(gape.Ledger(ledger)) as opened:
        delta, made = opened.budget.delta, opened.releases()
    with pytest.raises(gape.BudgetError):
        gape.synthesize(str(data), epsilon=8.0, samples=6, folder=place / "second", **chosen)
    chosen["budget_epsilon"] = 12.0
    found = gape.synthesize(str(data), epsilon=4.0, samples=6, folder=place / "second", **chosen).privacy
    both = (*made, gape.Release(gape.noise_scale(4.0, delta, 1)))
    assert found.dataset_epsilon == pytest.approx(gape.spent(both, delta))
    assert "books are in order" in words("audit", run)


def test_a_run_on_other_data_is_refused(place: Path, server: FaultyServer) -> None:
    run = moved("table-stopped", place, server)
    data = data_of(place)
    data.write_text(data.read_text().replace("cat", "dog"))
    refused = one_line_error(command("resume", run))
    assert "has changed, or is read in another way" in refused
    assert len(charged(place)) == 2


class TestVectors:
    """A run put together in Python has no settings: it is resumed by the call that started it."""

    @staticmethod
    def run(place: Path) -> gape.PrivacyStatement:
        """Run with the parts of tests/data/before/make.py."""
        plan = gape.Plan(epsilon=4.0, delta=1e-5, rounds=ROUNDS, samples=3, scales=(0.1, 0.01), copies=2, seed=11)
        generator = gape.GaussianGenerator.isotropic(gape.StartFromBox((-2.0, -2.0), (2.0, 2.0)), 2)
        electorate = gape.LocalElectorate(np.load(place / "points.npy"))
        parts = (generator, gape.IdentityEmbedder(), electorate, gape.Ranking())
        with closing(gape.Ledger(place / "ledger.sqlite")) as ledger:
            return gape.run(place / "run", plan, *parts, ledger)[1]

    @pytest.mark.parametrize("name", ["vectors", "vectors-stopped"])
    def test_it_is_read(self, name: str, tmp_path: Path) -> None:
        run = unpack(name, tmp_path)
        assert "books are in order" in words("audit", run, "--ledger", tmp_path / "ledger.sqlite")
        words("report", run, "--out", tmp_path / "report.html")
        for arguments in (
            ["status", run],
            ["resume", run],
            ["evaluate", run, "--private", tmp_path / "points.npy"],
            ["expand", run, "--count", 9, "--out", tmp_path / "more.csv"],
        ):
            one_line_error(command(*arguments))

    def test_it_is_exported(self, tmp_path: Path) -> None:
        run = unpack("vectors", tmp_path)
        words("export", run, "--out", tmp_path / "all.parquet")
        assert pq.read_table(tmp_path / "all.parquet").num_rows == published(run) == 3

    @pytest.mark.parametrize("name", ["vectors", "vectors-stopped"])
    def test_the_same_call_ends_it_and_pays_for_no_round_twice(self, name: str, tmp_path: Path) -> None:
        unpack(name, tmp_path)
        before = charged(tmp_path)
        assert len(before) == (2 if name == "vectors-stopped" else 3)
        statement = self.run(tmp_path)
        assert statement.private
        assert statement.epsilon == statement.dataset_epsilon <= 4.0
        assert published(tmp_path / "run") == 3
        require_charged_once(tmp_path, before, 4.0)


def test_a_run_that_was_not_private_does_not_become_so(place: Path, server: FaultyServer) -> None:
    """It read its separation off the private data; it is shown for what it is, or refused in one sentence."""
    run = moved("unpaid", place, server)
    page, card = run / "release" / "report.html", place / "all.card.md"
    for arguments, written in (
        (["status", run], None),
        (["resume", run], None),
        (["report", run], page),
        (["export", run, "--out", place / "all.csv"], card),
    ):
        result = command(*arguments)
        if result.exit_code:
            one_line_error(result)
        else:
            assert "NOT PRIVATE" in (result.stdout if written is None else written.read_text())
    with closing(gape.Ledger(ledger_of(place))) as ledger:
        assert ledger.total(ledger.budget.delta) == math.inf
    assert command("audit", run).exit_code == 1


@pytest.mark.parametrize("name", ["text", "labels-stopped", "table"])
@pytest.mark.parametrize("known_as", [0, 99, None, "two"])
def test_a_folder_of_an_unknown_format_is_refused_in_one_sentence(
    name: str, known_as: object, place: Path, server: FaultyServer
) -> None:
    run = moved(name, place, server)
    file = run / "internal" / "settings.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": known_as}))
    before = charged(place)
    for arguments in (
        ["status", run],
        ["resume", run],
        ["report", run],
        ["evaluate", run, "--private", data_of(place)],
        ["export", run],
        ["expand", run, "--count", 9, "--out", place / "more.csv"],
        ["audit", run],
    ):
        assert "format" in one_line_error(command(*arguments)), arguments
    assert charged(place) == before


def test_a_ledger_of_an_unknown_format_is_refused_in_one_sentence(place: Path, server: FaultyServer) -> None:
    run = moved("table-stopped", place, server)
    with closing(sqlite3.connect(ledger_of(place))) as database, database:
        database.execute("UPDATE facts SET value = '99' WHERE name = 'format'")
    for name in ("status", "resume"):
        assert "is not a ledger of format" in one_line_error(command(name, run))
    assert len(charged(place)) == 2


def rewritten(run: Path, before: str, after: str) -> None:
    """Change the settings of a run, whose seal is then broken."""
    file = run / "internal" / "settings.toml"
    content = file.read_text()
    assert before in content
    file.write_text(content.replace(before, after))


@pytest.mark.parametrize("name", [*FINISHED, *STOPPED])
def test_settings_that_were_retired_are_in_every_folder(name: str, place: Path, server: FaultyServer) -> None:
    """The tests above read, resume and charge runs that have them, at the value that was the default."""
    content = (moved(name, place, server) / "internal" / "settings.toml").read_text()
    assert 'threshold = "auto"\n' in content
    assert "signed = false\n" in content


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('threshold = "auto"', "threshold = 1.5", "threshold 1.5"),
        ('threshold = "auto"', 'threshold = "paper"', "threshold 'paper'"),
        ("signed = false", "signed = true", "signed True"),
        ('selector = "gape"', 'selector = "kmedoids"', "selector 'kmedoids'"),
        ('selector = "gape"', 'selector = "bounded-lipschitz"', "selector 'bounded-lipschitz'"),
        ('variation = "rephrase"', 'variation = "fill"', "variation 'fill'"),
    ],
)
def test_a_rule_that_settings_no_longer_name_is_refused_in_one_sentence(
    before: str, after: str, named: str, place: Path, server: FaultyServer
) -> None:
    run = moved("model-stopped", place, server)
    rewritten(run, before, after)
    paid = charged(place)
    for arguments in (
        ["status", run],
        ["resume", run, "--data", data_of(place), "--base-url", server.url],
        ["report", run],
        ["export", run],
        ["audit", run],
    ):
        refused = one_line_error(command(*arguments))
        assert f"is of an earlier version and has {named}, which is left to Python now" in refused, arguments
        assert "use the version that started the run, or start a new run in another folder" in refused
    assert charged(place) == paid
