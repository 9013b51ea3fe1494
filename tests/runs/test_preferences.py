"""Pairs for preference training, from noisy votes alone."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from folders import finished_folder, plan_for, statement_of
from gape.core.errors import InputError
from gape.privacy.noise import SecureNoise
from gape.runs.export import export
from gape.runs.folder.record import read_run
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from made_up import STARS, leaks, private_rows, public_texts, write_corpus, write_csv


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with private data, and runs without and with labels."""
    folder = tmp_path_factory.mktemp("home")
    data = write_csv(folder / "reviews.csv", private_rows(600))
    corpus = write_corpus(folder / "public.txt")
    small = {"epsilon": 40.0, "samples": 6, "rounds": 2, "scales": [0.4, 0.8], "text": "review", "domain": "notes"}
    settings = Settings.of(small, {"data": str(data), "generator": f"corpus:{corpus}", "budget_epsilon": 200.0})
    run_text(settings, folder / "plain", noise=SecureNoise())
    labels = {"label": "stars", "labels": STARS[:2]}
    run_text(settings.with_values(**labels), folder / "labelled", noise=SecureNoise())
    return folder


def pairs(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["plain", "labelled"])
def test_the_chosen_of_a_pair_has_clearly_more_noisy_votes(home: Path, tmp_path: Path, name: str) -> None:
    written = export(home / name, tmp_path / "p.jsonl", "preferences")
    assert written == [tmp_path / "p.privacy.json", tmp_path / "p.card.md", tmp_path / "p.jsonl"]
    record = read_run(home / name)
    rows = pairs(tmp_path / "p.jsonl")
    assert len(rows) >= 4
    assert {row["round"] for row in rows} <= {1, 2}
    for row in rows:
        assert [message["role"] for part in ("prompt", "chosen", "rejected") for message in row[part]] == [
            "user",
            "assistant",
            "assistant",
        ]
        folder = home / name / "internal" / "rounds" / f"{row['round']:03d}"
        votes = pq.read_table(folder / "votes.parquet")["noisy_votes"].to_pylist()
        samples = pq.read_table(folder / "candidates.parquet")["sample"].to_pylist()
        known = [sample if isinstance(sample, str) else sample["text"] for sample in samples]
        chosen, rejected = (
            [votes[i] for i, text in enumerate(known) if text == row[part][0]["content"]]
            for part in ("chosen", "rejected")
        )
        apart = {a - b for a in chosen for b in rejected}
        assert row["votes_apart"] in apart
        assert row["votes_apart"] > 2 * math.sqrt(2) * record.sigma
        assert row["chosen"][0]["content"] in set(public_texts())


def test_the_prompt_asks_for_a_text_of_the_domain_and_its_label(home: Path, tmp_path: Path) -> None:
    export(home / "labelled", tmp_path / "p.jsonl", "preferences")
    for row in pairs(tmp_path / "p.jsonl"):
        asked = row["prompt"][0]["content"]
        assert "notes" in asked
        assert asked.endswith(("stars: low", "stars: mid"))


def test_the_same_run_gives_the_same_pairs_and_they_leak_nothing(home: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export(home / "plain", tmp_path / f"{name}.jsonl", "preferences")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert leaks(tmp_path) == []


def test_the_pairs_need_nothing_but_the_folder(home: Path, tmp_path: Path) -> None:
    """The private data and the ledger are gone, and the noisy votes are all there is."""
    run = shutil.copytree(home / "plain", tmp_path / "elsewhere")
    export(home / "plain", tmp_path / "a.jsonl", "preferences")
    export(run, tmp_path / "b.jsonl", "preferences")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_the_card_says_that_the_pairs_are_free(home: Path, tmp_path: Path) -> None:
    shown = gape("export", home / "plain", "--format", "preferences", "--out", tmp_path / "p.jsonl")
    assert shown.exit_code == 0, shown.stderr
    card = (tmp_path / "p.card.md").read_text()
    assert f"{len(pairs(tmp_path / 'p.jsonl'))} synthetic pairs" in card
    assert "free of further privacy cost" in card
    assert "differentially private" in card


def test_runs_without_prompts_votes_or_signal_are_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = np.array(["a", "b"], dtype=object)
    run = finished_folder(tmp_path / "run", texts, plan_for(texts), statement_of(plan_for(texts)))
    with pytest.raises(InputError, match="preferences are made from a run of texts by `gape run`"):
        export(run, tmp_path / "p.jsonl", "preferences")
    with pytest.raises(InputError, match="have no votes, so no preferences"):
        export(home / "plain", tmp_path / "p.jsonl", "preferences", texts)
    refused = gape("expand", home / "plain", "--count", 9, "--out", tmp_path / "p.jsonl", "--format", "preferences")
    assert "have no votes, so no preferences" in one_line_error(refused)
    monkeypatch.setattr("gape.runs.preferences.CLEARLY", 1e6)
    with pytest.raises(InputError, match="differ by more than their noise"):
        export(home / "plain", tmp_path / "p.jsonl", "preferences")


def test_prompts_outside_a_folder_of_somebody_else_are_not_read(home: Path, tmp_path: Path) -> None:
    run = shutil.copytree(home / "plain", tmp_path / "run")
    file = run / "internal" / "settings.toml"
    file.write_text(file.read_text().replace('domain = "notes"', 'domain = "notes"\nprompts = "/etc/secret.toml"'))
    with pytest.raises(InputError, match="it was not written by you on this machine"):
        export(run, tmp_path / "p.jsonl", "preferences")
