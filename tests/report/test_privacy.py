"""A report for release holds nothing private, and an internal one says that it does."""

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import parts
from gape._support.files import read_json, read_table, write_json
from gape.embedders.minilm import MiniLM
from gape.modalities import load_texts
from gape.modalities.arrow import samples_from_arrow
from gape.report import write_report
from gape.voting.nearest import nearest_votes
from made_up import CANARIES
from report.reading import data_of, elements_of, words_of
from report.runs import PRIVATE_NAME, stopped, vector_run


def release_of(run: Path, out: Path) -> bytes:
    return write_report(run, out).read_bytes()


def test_a_release_is_made_without_the_private_data(texts: Path, tmp_path: Path) -> None:
    """The same page comes of a folder whose data and ledger are gone: it cannot depend on them."""
    with_data = release_of(texts, tmp_path / "with.html")
    alone = tmp_path / "elsewhere"
    shutil.copytree(texts, alone)  # dates of files too
    settings = alone / "internal" / "settings.toml"
    moved = settings.read_text().replace(str(texts.parent), "/nowhere/at/all")
    assert moved != settings.read_text()
    settings.write_text(moved)
    assert release_of(alone, tmp_path / "without.html") == with_data


@pytest.mark.parametrize("kind", ["texts", "labelled", "unfinished"])
def test_a_release_holds_no_canary_no_name_and_no_path(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(kind)
    content = release_of(run, tmp_path / "report.html").decode()
    root = str(run.parent)
    for secret in (*CANARIES, PRIVATE_NAME, PRIVATE_NAME.removesuffix(".csv"), "public.txt", root, run.parent.name):
        assert secret not in content
    assert not [private for private in load_texts(texts_of(request), "review").texts if private in content]
    for address in ("http:", "https:", "file:", "/tmp", "sqlite"):  # noqa: S108  (a path to look for)
        assert address not in content.replace("http://www.w3.org/2000/svg", "")


def texts_of(request: pytest.FixtureRequest) -> Path:
    run: Path = request.getfixturevalue("texts")
    return run.parent / PRIVATE_NAME


def test_votes_on_the_page_are_the_noisy_ones_and_not_the_exact(texts: Path, tmp_path: Path) -> None:
    write_report(texts, tmp_path / "report.html")
    data = data_of(tmp_path / "report.html")
    embedder = MiniLM()
    private = embedder.embed(load_texts(texts.parent / PRIVATE_NAME, "review").texts)
    differ = 0
    for turn in (1, 2, 3):
        folder = texts / "internal" / "rounds" / f"{turn:03d}"
        candidates = embedder.embed(samples_from_arrow(read_table(folder / "candidates.parquet")["sample"]))
        exact = nearest_votes(private, candidates)
        noisy = read_table(folder / "votes.parquet")["noisy_votes"].to_numpy()
        if turn == 3:
            chosen = read_table(folder / "synthetic.parquet")["candidate"].to_numpy()
            assert data["rounds"][turn]["votes"] == noisy[chosen].tolist()
            assert data["rounds"][turn]["votes"] != exact[chosen].tolist()
        differ += int((exact != noisy).sum())
    assert differ > 54  # of 108: the noise is there


def test_an_internal_report_is_marked_and_kept_from_others(texts: Path) -> None:
    path = write_report(texts, internal=True)
    assert path == texts / "internal" / "report.html"
    assert path.stat().st_mode & 0o777 == 0o600
    content = path.read_text()
    assert content.split("<title>")[1].startswith("NOT DIFFERENTIALLY PRIVATE")
    assert "INTERNAL: NOT DIFFERENTIALLY PRIVATE" in content[:200]
    words = words_of(path)
    assert words.index("NOT DIFFERENTIALLY PRIVATE. This page was made by looking") < words.index(
        "12 texts, selected in 3 rounds"
    )
    assert "It does not cover this page" in words
    assert ("body", {"class": "internal"}) in elements_of(path)
    data = data_of(path)
    assert len(data["map"]["private"][0]) == 90
    assert "share of the private points" in words
    assert "Recall went from" in words
    assert not any(canary in content for canary in CANARIES)  # points, not texts


def test_the_release_has_none_of_what_makes_a_page_internal(texts: Path, tmp_path: Path) -> None:
    path = write_report(texts, tmp_path / "report.html")
    assert "private" not in data_of(path)["map"]
    assert ("body", {"class": "release"}) in elements_of(path)
    for word in ("Recall", "share of the private", "NOT DIFFERENTIALLY"):
        assert word not in words_of(path)


def test_private_points_in_the_plane_are_where_they_are(vectors: Path, tmp_path: Path) -> None:
    private = parts.private_points()
    np.save(tmp_path / "private.npy", private)
    path = write_report(vectors, tmp_path / "report.html", internal=True, private=tmp_path / "private.npy")
    (x_ticks, _), (xs, _) = data_of(path)["map"]["ticks"], data_of(path)["map"]["private"]
    (a, low), (b, high) = x_ticks[0], x_ticks[-1]
    shown = float(low) + (np.array(xs) - a) / (b - a) * (float(high) - float(low))
    inside = (np.array(xs) > 0) & (np.array(xs) < 10_000)
    assert inside.any()
    assert np.allclose(shown[inside], private[inside, 0], atol=0.02)


def test_times_that_may_depend_on_private_data_are_left_out(texts: Path, tmp_path: Path) -> None:
    """Votes are dated; moving their date must not move the page."""
    run = tmp_path / "run"
    shutil.copytree(texts, run)
    before = release_of(run, tmp_path / "a.html")
    for path in (run / "internal" / "rounds").glob("*/votes.parquet"):
        os.utime(path, (1.0, 1.0))
    assert release_of(run, tmp_path / "b.html") == before


def test_tokens_and_cost_are_those_of_the_stored_answers(texts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(texts, run)
    answers = sqlite3.connect(run / "internal" / "answers.sqlite")
    answers.execute("CREATE TABLE answers (key BLOB PRIMARY KEY, completion TEXT NOT NULL)")
    answers.executemany(
        "INSERT INTO answers VALUES (?, ?)",
        [(bytes([i]), '{"text": "secret answer", "prompt_tokens": 1000, "completion_tokens": 500}') for i in range(3)],
    )
    answers.commit()
    answers.close()
    settings = run / "internal" / "settings.toml"
    settings.write_text(settings.read_text().replace("prompt_price = 0.0", "prompt_price = 2.0"))
    words = words_of(write_report(run, tmp_path / "report.html", with_map=False))
    assert "3,000 input, 1,500 output" in words
    assert "0.006, in the currency of the prices" in words
    assert "secret answer" not in (tmp_path / "report.html").read_text()


def test_a_page_before_the_end_tells_what_the_noise_costs(tmp_path: Path) -> None:
    whole = vector_run(tmp_path)
    file = whole / "internal" / "settings.json"
    settings = read_json(file)
    write_json(file, settings | {"plan": settings["plan"] | {"epsilon": 0.1}})
    page = words_of(write_report(stopped(whole, tmp_path / "stopped", after=1)))
    assert "(2, 1e-05)-differential privacy" in page
    assert "(0.1, 1e-05)" not in page
