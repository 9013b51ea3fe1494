import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gape
import parts
from gape._support.files import read_json, write_json, write_table
from gape.audit.books import audit_run
from gape.core.errors import BudgetError, PrivacyError, RunError
from gape.core.types import Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.state import State
from gape.modalities.arrow import samples_from_arrow, samples_to_arrow
from gape.privacy.accounting import noise_scale
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SecureNoise
from gape.report import write_report
from gape.runs.folder.record import read_statement
from gape.runs.folder.rounds import RunFolder, read_begun
from gape.runs.folder.versions import VersionWarning, versions_in_words
from gape.runs.run import run
from gape.voting.electorate import LocalElectorate
from report.reading import words_of


def new_ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", parts.BUDGET)


def test_a_run_leaves_what_may_be_published_apart_from_the_rest(tmp_path: Path) -> None:
    state, statement = parts.small_run(tmp_path / "run", new_ledger(tmp_path), noise=SecureNoise())
    release, internal = tmp_path / "run" / "release", tmp_path / "run" / "internal"
    assert {path.name for path in release.iterdir()} == {"synthetic.parquet", "privacy.json", "PRIVACY.txt"}
    assert internal.stat().st_mode & 0o777 == 0o700
    published = samples_from_arrow(pq.read_table(release / "synthetic.parquet")["sample"])
    assert np.array_equal(published, state.synthetic)
    assert statement.private
    assert statement.epsilon <= 2.0
    assert statement.sigma == (noise_scale(2.0, 1e-5, 2),) * 2
    stored = json.loads((release / "privacy.json").read_text())
    assert stored["private"] is True
    assert stored["epsilon"] == statement.epsilon
    text = (release / "PRIVACY.txt").read_text()
    for part in ("replacing one record", "1e-05", "2 adaptive releases", "discrete Gaussian", "Taken as public"):
        assert part in text


def test_every_file_is_in_a_plain_format(tmp_path: Path) -> None:
    parts.small_run(tmp_path / "run", new_ledger(tmp_path))
    kinds = {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "lock"}
    assert kinds == {".parquet", ".json", ".txt"}


def test_lineage_and_votes_are_kept(tmp_path: Path) -> None:
    parts.small_run(tmp_path / "run", new_ledger(tmp_path))
    first = tmp_path / "run" / "internal" / "rounds" / "001"
    candidates = pq.read_table(first / "candidates.parquet")
    assert candidates.column_names == ["sample", "parent", "scale"]
    assert len(pq.read_table(first / "votes.parquet")) == len(candidates) == parts.PLAN.candidates
    chosen = pq.read_table(first / "synthetic.parquet")
    kept = samples_from_arrow(candidates["sample"])[chosen["candidate"].to_numpy()]
    assert np.array_equal(kept, samples_from_arrow(chosen["sample"]))
    selection = read_json(first / "selection.json")
    assert selection["rule"] == "LocalSearchResult"
    assert selection["certified"] is True


def test_seeded_noise_is_stated_as_not_private(tmp_path: Path) -> None:
    _, statement = parts.small_run(tmp_path / "run", new_ledger(tmp_path))
    assert not statement.private
    assert "NOT PRIVATE" in (tmp_path / "run" / "release" / "PRIVACY.txt").read_text()
    assert read_json(tmp_path / "run" / "release" / "privacy.json")["secure_noise"] is False


def test_no_noise_is_stated_as_not_private(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", Budget(float("inf"), 1e-5))
    plan = replace(parts.PLAN, epsilon=float("inf"), sigma=0.0)
    _, statement = parts.small_run(tmp_path / "run", ledger, plan=plan, noise=SecureNoise())
    assert not statement.private
    assert statement.epsilon == float("inf")
    assert "without noise" in statement.text()
    assert read_json(tmp_path / "run" / "release" / "privacy.json")["epsilon"] == "inf"


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    first, _ = parts.small_run(tmp_path / "run", ledger)
    again, _ = parts.small_run(tmp_path / "run", ledger)
    assert np.array_equal(first.synthetic, again.synthetic)
    assert len(ledger.releases()) == 2


def test_an_extended_run_pays_for_what_it_adds(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    first, statement = parts.small_run(tmp_path / "run", ledger)
    longer = parts.PLAN.extended(4)
    with pytest.raises(BudgetError, match="2 more releases"):
        parts.small_run(tmp_path / "run", ledger, plan=longer)
    parts.small_run(tmp_path / "run", ledger)  # the refused extension has left the run as it was
    ledger.change_budget(epsilon=longer.epsilon, delta=1e-5)
    state, extended = parts.small_run(tmp_path / "run", ledger, plan=longer)
    assert state.round == 4
    assert len(ledger.releases()) == 4
    assert statement.epsilon < extended.epsilon <= longer.epsilon * (1 + 1e-6)
    assert np.array_equal(RunFolder(tmp_path / "run", "", longer, {}, None).synthetic(2), first.synthetic)


def test_a_report_of_fewer_rounds_does_not_stay_beside_an_extended_run(tmp_path: Path) -> None:
    longer = parts.PLAN.extended(4)
    ledger = Ledger(tmp_path / "ledger", Budget(longer.epsilon, 1e-5))
    parts.small_run(tmp_path / "run", ledger, noise=SecureNoise())
    report = write_report(tmp_path / "run")
    parts.small_run(tmp_path / "run", ledger, noise=SecureNoise())  # the same run once more
    assert report.exists()
    parts.small_run(tmp_path / "run", ledger, plan=longer, noise=SecureNoise())
    assert not report.exists()


def test_a_ledger_that_has_forgotten_releases_is_refused(tmp_path: Path) -> None:
    longer = parts.PLAN.extended(4)
    ledger = Ledger(tmp_path / "ledger", Budget(longer.epsilon, 1e-5))
    ledger.close()
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    ledger = Ledger(tmp_path / "ledger")
    parts.small_run(tmp_path / "run", ledger, noise=SecureNoise())
    ledger.close()
    words = (tmp_path / "run" / "release" / "PRIVACY.txt").read_text()
    shutil.copy(tmp_path / "copy", tmp_path / "ledger")
    with pytest.raises(PrivacyError, match=r"has 0 releases of .*, which has 2: it is an older copy"):
        parts.small_run(tmp_path / "run", Ledger(tmp_path / "ledger"), plan=longer, noise=SecureNoise())
    assert (tmp_path / "run" / "release" / "PRIVACY.txt").read_text() == words


def test_what_an_older_version_did_not_pay_for_is_not_forgotten(tmp_path: Path) -> None:
    plan, ledger = parts.PLAN, Ledger(tmp_path / "ledger", Budget(20.0, 1e-5))
    electorate = LocalElectorate(parts.private_points())
    given = (plan, parts.GENERATOR, IdentityEmbedder(), electorate, parts.SELECT, ledger)
    run(tmp_path / "a", *given)
    name = read_json(tmp_path / "a" / "internal" / "settings.json")["run"]
    path = tmp_path / "a" / "release" / "privacy.json"
    stated = read_json(path)

    def remark(unpaid: str) -> None:
        write_json(path, stated | {"unpaid": unpaid, "private": not unpaid})
        with closing(sqlite3.connect(tmp_path / "ledger")) as database, database:
            database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (f"unpaid by run {name}", unpaid))

    remark("")
    assert run(tmp_path / "a", *given)[1].private
    assert read_statement(path).private
    remark("the separation R of its selection")
    with pytest.raises(PrivacyError, match="NOT PRIVATE: it used private data without noise; do not publish"):
        run(tmp_path / "a", *given)
    with pytest.raises(RunError, match="NOT PRIVATE, because its run used private data without noise; do not publish"):
        read_statement(path)
    failed = [check.name for check in audit_run(tmp_path / "a", tmp_path / "ledger").checks if not check.passed]
    assert failed == ["folder", "source", "budget", "statement"]
    _, other = run(tmp_path / "b", *given)  # which is private itself, and cannot make up for the first
    assert other.private
    assert other.epsilon <= plan.epsilon
    assert other.dataset_epsilon == float("inf")
    assert "another release about this dataset has no guarantee" in other.text()
    assert other.in_total.startswith("no guarantee together, because another one has none, by the ledger ")
    assert read_json(tmp_path / "b" / "release" / "privacy.json")["dataset_epsilon"] == "inf"


def test_a_run_that_begins_beside_another_does_not_take_what_that_one_needs(tmp_path: Path) -> None:
    """Each alone fits the budget and both do not: one comes to its end, the other is refused before it releases."""
    ledger, electorate = new_ledger(tmp_path), LocalElectorate(parts.private_points())
    given = (parts.PLAN, parts.GENERATOR, IdentityEmbedder(), electorate, parts.SELECT)
    refused = []

    def another(state: State) -> None:
        if state.round == 0 and state.proposal is None:  # the first has begun, and released nothing
            second = Ledger(tmp_path / "ledger")
            with pytest.raises(BudgetError, match="and 2 are reserved by another run in progress"):
                run(tmp_path / "second", *given, second)
            refused.append(len(second.releases()))
            second.close()

    _, statement = run(tmp_path / "first", *given, ledger, progress=another)
    assert refused == [0]
    assert statement.private
    assert len(ledger.releases()) == 2


def test_a_run_that_was_killed_keeps_nothing_from_others(tmp_path: Path) -> None:
    ledger, electorate = new_ledger(tmp_path), LocalElectorate(parts.private_points())
    given = (parts.PLAN, parts.GENERATOR, IdentityEmbedder(), electorate, parts.SELECT, ledger)

    def kill(_: State) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "first", *given, progress=kill)
    assert run(tmp_path / "second", *given)[1].private


class Rounded:
    """An embedder whose last bits differ from call to call, as those of batches do."""

    calls = 0

    def __repr__(self) -> str:
        return "Rounded()"

    def embed(self, samples: Samples) -> Points:
        Rounded.calls += 1
        return np.asarray(samples, dtype=np.float32) * np.float32(1 + Rounded.calls * 2**-22)


def test_a_round_that_was_paid_for_goes_on_whatever_the_last_bits_of_its_candidates(tmp_path: Path) -> None:
    class Stopped(type(parts.SELECT)):  # type: ignore[misc]
        def __repr__(self) -> str:
            return repr(parts.SELECT)

        def __call__(self, *_: object) -> None:
            raise KeyboardInterrupt

    ledger, electorate = new_ledger(tmp_path), LocalElectorate(parts.private_points())
    given = (tmp_path / "run", parts.PLAN, parts.GENERATOR, Rounded(), electorate)
    with pytest.raises(KeyboardInterrupt):
        run(*given, Stopped(separation=3.0, threshold=0.0), ledger)
    assert len(ledger.releases()) == 1  # paid for, and not yet selected from
    state, statement = run(*given, parts.SELECT, ledger)
    assert state.round == 2
    assert statement.private
    assert len(ledger.releases()) == 2


def test_a_run_beyond_the_budget_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BudgetError):
        parts.small_run(tmp_path / "run", new_ledger(tmp_path), plan=parts.PLAN.extended(4))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 1.0, "sigma": -1.0}, "started with epsilon 2.0, not 1.0"),
        ({"seed": 12}, "started with seed 11, not 12"),
        ({"samples": 4}, "started with samples 3, not 4"),
        ({"delta": 1e-6}, "started with delta 1e-05, not 1e-06"),
        ({"sigma": 1.0}, "started with sigma"),
    ],
)
def test_a_folder_goes_on_with_the_run_it_began_or_not_at_all(
    tmp_path: Path, changes: dict[str, float], message: str
) -> None:
    ledger = new_ledger(tmp_path)
    parts.small_run(tmp_path / "run", ledger)
    with pytest.raises(RunError, match=message):
        parts.small_run(tmp_path / "run", ledger, plan=replace(parts.PLAN, **changes))  # type: ignore[arg-type]
    assert len(ledger.releases()) == 2


def set_versions(run: Path, versions: object) -> None:
    """Have a run say that other versions made it."""
    file = run / "internal" / "settings.json"
    write_json(file, read_json(file) | {"versions": versions})


def interrupted_run(tmp_path: Path) -> tuple[Path, Ledger]:
    """A run that has done its first round."""
    ledger = new_ledger(tmp_path)
    parts.small_run(tmp_path / "run", ledger)
    shutil.rmtree(tmp_path / "run" / "internal" / "rounds" / "002")
    shutil.rmtree(tmp_path / "run" / "release")
    return tmp_path / "run", ledger


def test_a_run_knows_what_made_it(tmp_path: Path) -> None:
    run, ledger = interrupted_run(tmp_path)
    (began,) = read_begun(run).versions
    assert began.since == 0
    assert began.packages["gape"] == gape.__version__
    assert began.packages["numpy"] == np.__version__
    assert {"opendp", "numba"} <= set(began.packages)
    parts.small_run(run, ledger)  # by the same versions: without a warning, which would be an error here
    assert read_begun(run).versions == [began]


def test_other_versions_are_said_and_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    run, ledger = interrupted_run(tmp_path)
    (now,) = read_begun(run).versions
    older = now.packages | {"gape": "0.0.9", "opendp": "0.15.1", "no-longer-used": "1.2"}
    set_versions(run, [{"since": 0, "packages": older}])
    said = f"was made with gape 0.0.9, opendp 0.15.1 so far and is resumed with gape {gape.__version__}, opendp "
    with pytest.warns(VersionWarning, match=said):
        parts.small_run(run, ledger)
    assert ledger.releases() == parts.PLAN.releases
    first, second = read_begun(run).versions
    assert (first.packages, second.packages) == (older, now.packages)
    assert (first.since, second.since) == (0, 2)
    assert f"from round 2 on gape {gape.__version__}, opendp " in versions_in_words([first, second])
    assert f"from round 2 on gape {gape.__version__}, opendp " in words_of(write_report(run, with_map=False))
    set_versions(run, [{"since": 0, "packages": older}])
    parts.small_run(run, ledger)  # there is nothing left to do, and nothing to say
    assert len(read_begun(run).versions) == 1


def test_a_folder_that_does_not_know_its_versions_goes_on_without_a_word(tmp_path: Path) -> None:
    run, ledger = interrupted_run(tmp_path)
    file = run / "internal" / "settings.json"
    write_json(file, {name: value for name, value in read_json(file).items() if name != "versions"})
    assert read_begun(file.parents[1]).versions == []
    parts.small_run(run, ledger)
    assert [each.since for each in read_begun(file.parents[1]).versions] == [2]


@pytest.mark.parametrize(
    "versions",
    [3, {"a": 1}, ["x"], [{"since": 0}], [{"since": 0, "packages": {}}], [{"since": 0, "packages": {"gape": "1\n2"}}]],
)
def test_spoiled_versions_are_refused(tmp_path: Path, versions: object) -> None:
    run, ledger = interrupted_run(tmp_path)
    set_versions(run, versions)
    for use in (lambda: parts.small_run(run, ledger), lambda: read_begun(run).versions):
        with pytest.raises(RunError, match=r"settings\.json was not written by a run"):
            use()


def test_another_format_is_refused_whatever_else_is_there(tmp_path: Path) -> None:
    run, ledger = interrupted_run(tmp_path)
    write_json(run / "internal" / "settings.json", {"format": 2, "versions": "otherwise"})
    with pytest.raises(RunError, match="was written in format 2, not 1"):
        parts.small_run(run, ledger)


def test_of_two_processes_that_begin_in_a_folder_one_does(tmp_path: Path) -> None:
    """A second run in the settings of a first would have its releases paid for twice."""
    described = {"generator": "G()", "embedder": "E()", "selector": "S()"}
    first, second = (RunFolder.find(tmp_path / "run", parts.PLAN, described, "ledger") for _ in range(2))
    first.prepare()
    with pytest.raises(RunError, match="another process has begun a run"):
        second.prepare()
    assert read_json(tmp_path / "run" / "internal" / "settings.json")["run"] == first.run


def test_another_ledger_is_refused(tmp_path: Path) -> None:
    parts.small_run(tmp_path / "run", new_ledger(tmp_path))
    other = Ledger(tmp_path / "other", parts.BUDGET)
    with pytest.raises(RunError, match="another ledger"):
        parts.small_run(tmp_path / "run", other)


def test_a_folder_with_other_content_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    ledger = Ledger(":memory:", parts.BUDGET)
    with pytest.raises(RunError, match="not a run folder"):
        parts.small_run(tmp_path, ledger)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    parts.small_run(tmp_path / "run", ledger)
    folder = RunFolder(tmp_path / "run", "", parts.PLAN, {}, None)
    with folder.locked(), pytest.raises(RunError, match="in use by another process"):
        parts.small_run(tmp_path / "run", ledger)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    parts.small_run(tmp_path / "run", ledger)
    (tmp_path / "run" / "internal" / "rounds" / "002" / "synthetic.parquet").write_bytes(b"garbage")
    with pytest.raises(RunError, match=r"002.synthetic\.parquet cannot be read as parquet"):
        parts.small_run(tmp_path / "run", ledger)
    (tmp_path / "run" / "internal" / "settings.json").write_text("{")
    with pytest.raises(RunError, match=r"settings\.json cannot be read as JSON"):
        parts.small_run(tmp_path / "run", ledger)


def test_a_table_is_read_without_threads_that_could_outlive_python(tmp_path: Path) -> None:
    """A thread of Arrow's that lets go of Python's memory while the process ends aborts it, after all was done."""
    write_table(tmp_path / "t", {"text": ["a", "b"] * 50, "number": np.arange(100)})
    code = (
        "import os, sys, pathlib; from gape._support.files import read_table;"
        "threads = lambda: len(os.listdir('/proc/self/task'));"
        "before = threads(); table = read_table(pathlib.Path(sys.argv[1])); print(len(table), threads() - before)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "t")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["100", "0"]


def test_rounds_are_counted_beyond_three_digits(tmp_path: Path) -> None:
    described = {"generator": "G()", "embedder": "E()", "selector": "S()"}
    folder = RunFolder.find(tmp_path / "run", replace(parts.PLAN, rounds=1001), described, "ledger")
    folder.prepare()
    for turn in (0, 999, 1000):
        folder.save(State(turn, np.full((1, 2), turn, dtype=np.float32)))
    state = folder.load()
    assert state is not None
    assert (state.round, state.synthetic.tolist()) == (1000, [[1000.0, 1000.0]])


def test_texts_and_vectors_survive_the_disk(tmp_path: Path) -> None:
    texts = np.array(["plain", "umlaut ä", "", "two\nlines", "\U0001f600"], dtype=object)
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    write_table(tmp_path / "t", {"text": samples_to_arrow(texts), "vector": samples_to_arrow(vectors)})
    table = pq.read_table(tmp_path / "t")
    assert samples_from_arrow(table["text"]).tolist() == texts.tolist()
    assert np.array_equal(samples_from_arrow(table["vector"]), vectors)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"old": float("inf")})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"new": object()})
    assert read_json(tmp_path / "a.json") == {"old": "inf"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
