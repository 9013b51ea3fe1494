import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import parts
from gape.errors import BudgetError, RunError
from gape.files import read_json, samples_from_arrow, samples_to_arrow, write_json, write_table
from gape.privacy.accounting import noise_scale
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SecureNoise
from gape.run_folder import RunFolder


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
    assert np.array_equal(RunFolder(tmp_path / "run", "", longer).synthetic(2), first.synthetic)


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
    folder = RunFolder(tmp_path / "run", "", parts.PLAN)
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
