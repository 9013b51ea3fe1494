"""The books of real runs: in order as they are written, and found out when anything in them is changed."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parts
from gape._support.files import read_json, write_json, write_table
from gape.audit import RunAudit, audit_run
from gape.core.errors import InputError, RunError
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.state import State
from gape.privacy.accounting import spent
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SecureNoise, SeededNoise
from gape.privacy.statement import PrivacyStatement
from gape.runs.run import run
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from gape.voting.electorate import LocalElectorate
from made_up import private_rows, write_corpus, write_csv


def make_run(folder: Path, **options: Any) -> None:
    with closing(Ledger(folder / "ledger", parts.BUDGET)) as ledger:
        parts.small_run(folder / "run", ledger, **({"noise": SecureNoise()} | options))


def audited(folder: Path) -> RunAudit:
    return audit_run(folder / "run", folder / "ledger")


def failed(folder: Path) -> list[str]:
    return [check.name for check in audited(folder).checks if not check.passed]


def change_ledger(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "ledger")) as database, database:
        database.execute(statement)


def change_statement(folder: Path, **values: object) -> None:
    file = folder / "run" / "release" / "privacy.json"
    write_json(file, read_json(file) | values)


def change_plan(folder: Path, **values: object) -> None:
    file = folder / "run" / "internal" / "settings.json"
    settings = read_json(file)
    write_json(file, settings | {"plan": settings["plan"] | values})


def test_the_books_of_a_finished_run_are_in_order(tmp_path: Path) -> None:
    make_run(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    found = audited(tmp_path)
    assert found.passed, found
    assert found.finished
    assert found.epsilon == pytest.approx(2.0, rel=1e-3)
    assert "The books are in order: statement, plan and ledger agree; 2 of 2 releases" in found.text()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_books_of_a_run_that_was_stopped_are_in_order_so_far(tmp_path: Path) -> None:
    def stop(state: State) -> None:
        if state.round == 1:
            raise KeyboardInterrupt

    electorate, embedder = LocalElectorate(parts.private_points()), IdentityEmbedder()
    with closing(Ledger(tmp_path / "ledger", parts.BUDGET)) as ledger, pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", parts.PLAN, parts.GENERATOR, embedder, electorate, parts.SELECT, ledger, progress=stop)
    found = audited(tmp_path)
    assert found.passed, found
    assert not found.finished
    assert "agree so far; 1 of 2 releases" in found.text()


def test_the_books_of_an_extended_run_are_in_order(tmp_path: Path) -> None:
    make_run(tmp_path)
    longer = parts.PLAN.extended(3)
    with closing(Ledger(tmp_path / "ledger")) as ledger:
        ledger.change_budget(epsilon=longer.epsilon, delta=longer.delta)
        parts.small_run(tmp_path / "run", ledger, plan=longer, noise=SecureNoise())
    found = audited(tmp_path)
    assert found.passed, found
    assert found.releases == 3


def test_another_run_on_the_data_changes_nothing_for_the_first(tmp_path: Path) -> None:
    make_run(tmp_path)
    with closing(Ledger(tmp_path / "ledger")) as ledger:
        ledger.change_budget(epsilon=4.0, delta=parts.PLAN.delta)
        parts.small_run(tmp_path / "second", ledger, noise=SecureNoise())
    assert audited(tmp_path).passed
    assert audit_run(tmp_path / "second", tmp_path / "ledger").passed


def test_a_text_run_says_where_its_ledger_is(tmp_path: Path) -> None:
    write_csv(tmp_path / "reviews.csv", private_rows())
    write_corpus(tmp_path / "public.txt")
    values = {"data": str(tmp_path / "reviews.csv"), "text": "review", "epsilon": 4.0, "samples": 6, "rounds": 2}
    settings = Settings.of(values, {"generator": f"corpus:{tmp_path / 'public.txt'}", "scales": (0.4,)})
    run_text(settings, tmp_path / "run")
    found = audit_run(tmp_path / "run")
    assert found.passed, found
    assert found.plan.epsilon == 4.0


def second_draw(folder: Path) -> None:
    """Replace the votes of round 2 in the ledger by others, as a ledger that forgot the first would."""
    with closing(sqlite3.connect(folder / "ledger")) as database, database:
        (votes,) = database.execute("SELECT votes FROM releases WHERE round = 2").fetchone()
        other = (np.frombuffer(votes, dtype="<i8") + 1).tobytes()
        database.execute("UPDATE releases SET votes = ? WHERE round = 2", (other,))


def forge_statement(folder: Path) -> None:
    """State one release of the two, with the epsilon of one, in figures and in words."""
    release, cost = folder / "run" / "release", spent([parts.PLAN.release], parts.PLAN.delta)
    change_statement(folder, sigma=[parts.PLAN.sigma], epsilon=cost)
    file = release / "privacy.json"
    values = read_json(file)
    forged = PrivacyStatement(**(values | {"sigma": tuple(values["sigma"])}))
    (release / "PRIVACY.txt").write_text(forged.text() + "\n")


def extra_votes(folder: Path) -> None:
    third = folder / "run" / "internal" / "rounds" / "003"
    third.mkdir()
    write_table(third / "votes.parquet", {"noisy_votes": np.arange(15)})


def change_text(folder: Path) -> None:
    file = folder / "run" / "release" / "PRIVACY.txt"
    file.write_text(file.read_text().replace("(2, 1e-05)", "(0.1, 1e-05)"))


TAMPERINGS: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "less noise in the ledger": (
        lambda at: change_ledger(at, "UPDATE releases SET sigma = sigma / 2 WHERE round = 1"),
        {"sigma", "budget", "statement"},
    ),
    "more noise claimed by plan and statement than was added": (
        lambda at: change_ledger(at, "UPDATE releases SET sigma = sigma * 0.99"),
        {"sigma", "budget", "statement"},
    ),
    "a plan with the noise of one round": (
        lambda at: change_plan(at, sigma=parts.PLAN.sigma / 2**0.5),
        {"folder", "accounts", "sigma"},
    ),
    "a plan that claims a smaller epsilon": (lambda at: change_plan(at, epsilon=1.0), {"accounts"}),
    "more votes for a unit": (
        lambda at: change_ledger(at, "UPDATE releases SET votes_per_unit = 2"),
        {"unit", "budget", "statement"},
    ),
    "other neighbours": (
        lambda at: change_ledger(at, "UPDATE facts SET value = 'add_remove' WHERE name = 'neighbours'"),
        {"unit", "statement"},
    ),
    "a release that is missing": (
        lambda at: change_ledger(at, "DELETE FROM releases WHERE round = 1"),
        {"releases", "votes", "statement"},
    ),
    "a release too many": (
        lambda at: change_ledger(
            at,
            "INSERT INTO releases SELECT run, 3, sigma, votes_per_unit, secure, candidates, votes, released_at "
            "FROM releases WHERE round = 2",
        ),
        {"releases", "budget", "statement"},
    ),
    "votes drawn twice": (second_draw, {"votes"}),
    "votes that nobody paid for": (extra_votes, {"votes"}),
    "a budget lowered afterwards": (
        lambda at: change_ledger(at, "UPDATE facts SET value = '0.5' WHERE name = 'epsilon'"),
        {"budget"},
    ),
    "another ledger": (
        lambda at: change_ledger(at, "UPDATE facts SET value = 'x' WHERE name = 'id'"),
        {"ledger", "statement"},
    ),
    "a smaller epsilon in the statement": (lambda at: change_statement(at, epsilon=1.0), {"folder", "statement"}),
    "a smaller delta in the statement": (lambda at: change_statement(at, delta=1e-9), {"folder", "statement"}),
    "a statement that forgets a release": (
        lambda at: change_statement(at, sigma=[parts.PLAN.sigma]),
        {"folder", "statement"},
    ),
    "a statement of fewer releases, consistent in itself": (forge_statement, {"statement"}),
    "words that are not those of the figures": (
        change_text,
        {"statement"},
    ),
    "something unpaid": (lambda at: change_statement(at, unpaid="the separation"), {"folder", "statement"}),
    "noise from a seed, hidden in the statement": (
        lambda at: change_ledger(at, "UPDATE releases SET secure = 0 WHERE round = 2"),
        {"source", "budget", "statement"},
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_is_changed_is_found(tmp_path: Path, name: str) -> None:
    make_run(tmp_path)
    assert failed(tmp_path) == []
    tamper, expected = TAMPERINGS[name]
    tamper(tmp_path)
    assert set(failed(tmp_path)) == expected
    assert "THE BOOKS ARE NOT IN ORDER" in audited(tmp_path).text()


def test_a_seeded_run_is_not_private_as_it_says(tmp_path: Path) -> None:
    make_run(tmp_path, noise=SeededNoise(5))
    assert failed(tmp_path) == ["source", "budget", "statement"]
    assert "itself says NOT PRIVATE" in audited(tmp_path).checks[-1].finding


def test_a_run_without_noise_is_not_private_as_it_says(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger", Budget(float("inf"), 1e-5))) as ledger:
        plan = replace(parts.PLAN, epsilon=float("inf"), sigma=0.0)
        parts.small_run(tmp_path / "run", ledger, plan=plan, noise=SecureNoise())
    assert failed(tmp_path) == ["accounts", "statement"]
    assert "NOT PRIVATE" in audited(tmp_path).checks[2].finding


def test_what_is_no_run_or_no_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not the folder of a run"):
        audit_run(tmp_path)
    make_run(tmp_path)
    with pytest.raises(InputError, match="does not record where its ledger is"):
        audit_run(tmp_path / "run")
    with pytest.raises(RunError, match="no ledger at"):
        audit_run(tmp_path / "run", tmp_path / "elsewhere")
    (tmp_path / "noise").write_text("not a database, though it is long enough to be taken for one" * 20)
    with pytest.raises(RunError, match="cannot be used as a ledger"):
        audit_run(tmp_path / "run", tmp_path / "noise")
    (tmp_path / "run" / "internal" / "settings.json").write_text(json.dumps({"format": 1, "run": "x", "ledger": "y"}))
    with pytest.raises(RunError, match="was not written by a run"):
        audited(tmp_path)
