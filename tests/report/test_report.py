import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from folders import finished_folder, plan_for, statement_of
from gape._support.files import read_json, write_json
from gape.core.errors import InputError, PrivacyError, RunError
from gape.privacy.statement import PrivacyStatement
from gape.report import EmbeddingProgress, write_report
from gape.report.page import as_script
from gape.runs.folder.record import read_run
from report.reading import data_of, elements_of, words_of
from report.runs import HOSTILE, stopped, vector_run


def test_the_command_writes_one_file_that_says_what_was_made_and_under_which_guarantee(texts: Path) -> None:
    result = gape("report", texts)
    assert result.exit_code == 0
    path = texts / "release" / "report.html"
    assert result.stdout == f"{path}\n"
    words = words_of(path)
    statement = read_json(texts / "release" / "privacy.json")
    for said in (
        "12 synthetic texts",
        PrivacyStatement(**statement).text(),
        "replace-one: replacing one record by another",
        "discrete Gaussian noise. Each record votes for the candidate nearest to it in the embedding",
        "Assumed public the number of records in the private data",
        "Not protected",
        "108 in 3 rounds",
        "none: texts from a public corpus",
        "all-MiniLM-L6-v2",
        "Coverage by region",
    ):
        assert said in words
    assert "NOT" not in path.read_text().split("</title>")[0].split("<title>")[1]
    assert len(path.read_bytes()) < 150_000


def test_lineage_leads_back_to_the_start(texts: Path) -> None:
    data = data_of(write_report(texts, with_map=False))
    rounds = texts / "internal" / "rounds"
    last = data["rounds"][-1]
    published = pq.read_table(texts / "release" / "synthetic.parquet")["text"].to_pylist()
    assert [data["texts"][place] for place in last["text"]] == published
    for i in range(len(published)):
        place = i  # in what the page holds of the round
        member = i  # in S(t)
        for turn in (3, 2, 1):
            survivors = pq.read_table(rounds / f"{turn:03d}" / "synthetic.parquet")
            candidates = pq.read_table(rounds / f"{turn:03d}" / "candidates.parquet")
            votes = pq.read_table(rounds / f"{turn:03d}" / "votes.parquet")["noisy_votes"].to_pylist()
            chosen = survivors["candidate"][member].as_py()
            page = data["rounds"][turn]
            assert page["votes"][place] == votes[chosen]
            assert data["scales"][page["scale"][place]] == candidates["scale"][chosen].as_py()
            assert data["texts"][page["text"][place]] == survivors["sample"][member].as_py()
            member, place = candidates["parent"][chosen].as_py(), page["parent"][place]
        start = pq.read_table(rounds / "000" / "synthetic.parquet")["sample"].to_pylist()
        assert data["texts"][data["rounds"][0]["text"][place]] == start[member]


def test_the_same_run_gives_the_same_page(texts: Path, tmp_path: Path) -> None:
    first, second = (write_report(texts, tmp_path / f"{name}.html").read_bytes() for name in "ab")
    assert first == second


def test_it_says_plainly_how_much_the_texts_repeat_one_another(texts: Path, vectors: Path, tmp_path: Path) -> None:
    words, record = words_of(write_report(texts)), read_run(texts)
    assert "0% of the 12 texts share eight consecutive words with another text" in words
    assert f"{len(record.families[-1])} of the 12 initial lineages are left" in words
    assert "These texts repeat one another" not in words
    copies = np.array([f"the very same words stand at the head of all, number {i}" for i in range(9)], dtype=object)
    plan = plan_for(copies)
    copied = finished_folder(tmp_path / "copies", copies, plan, statement_of(plan))
    said = words_of(write_report(copied, with_map=False))
    assert "These texts repeat one another: 100% of the 9 texts" in said
    assert "eight consecutive words" not in words_of(write_report(vectors, tmp_path / "plane.html"))


def test_a_run_in_the_plane_is_drawn_as_it_is(vectors: Path) -> None:
    path = write_report(vectors)
    data = data_of(path)
    final = pq.read_table(vectors / "release" / "synthetic.parquet")["sample"].to_pylist()
    xs, ys = data["map"]["rounds"][-1]
    drawn, real = np.array([xs, ys]).T, np.array(final)
    stretch = np.linalg.norm(drawn[0] - drawn[1]) / np.linalg.norm(real[0] - real[1])
    gaps = np.linalg.norm(drawn - drawn[0], axis=1) / stretch
    assert np.allclose(gaps, np.linalg.norm(real - real[0], axis=1), atol=2 / stretch)
    assert data["map"]["ticks"]
    assert data["isText"] is False
    assert "3 synthetic points" in words_of(path)
    assert "GaussianGenerator" in words_of(path)


def test_labels_are_shown_with_their_shares(labelled: Path) -> None:
    path = write_report(labelled)
    data = data_of(path)
    published = pq.read_table(labelled / "release" / "synthetic.parquet")
    assert [data["labels"][place] for place in data["rounds"][-1]["text"]] == published["label"].to_pylist()
    assert "Labels Each label gets its share of the noisy votes of all rounds" in words_of(path)
    rounds = [done.diagnostics["noisy_votes"] for done in read_run(labelled).rounds]
    assert len(rounds) > 1
    for label in rounds[-1]:
        assert f"{label} {sum(votes.get(label, 0) for votes in rounds):,}" in words_of(path)
    assert "one user" in words_of(path)
    kept = set(published["label"].to_pylist())
    gone = {"low", "mid", "high"} - kept
    assert ("No texts are left with" in words_of(path)) == bool(gone)


def test_an_unfinished_run_says_so_and_stays_out_of_the_release(unfinished: Path, texts: Path, tmp_path: Path) -> None:
    result = gape("report", unfinished)
    path = unfinished / "internal" / "report.html"
    assert result.stdout.startswith(f"{path}\n")
    assert "is not finished" in result.stdout
    assert not (unfinished / "release").exists()
    words = words_of(path)
    assert "Not finished: 2 of 3 rounds are done" in words
    assert "No guarantee is stated before the run ends" in words
    assert "secure" not in words  # where the noise came from is stated with the guarantee
    assert "This synthetic dataset is" not in words
    only_start = write_report(stopped(texts, tmp_path / "start", after=0), with_map=True)
    assert "No votes yet" in words_of(only_start)
    assert len(data_of(only_start)["rounds"]) == 1


def test_a_run_that_is_not_private_says_so_first(tmp_path: Path, hostile: Path) -> None:
    path = write_report(vector_run(tmp_path, epsilon=math.inf))
    assert path.read_text().split("<title>")[1].startswith("NOT PRIVATE")
    words = words_of(path)
    assert words.index("NOT PRIVATE: this run gives no privacy guarantee") < words.index(
        "3 points, selected in 2 rounds"
    )
    assert "No noise was added" in words
    for claim in ("differentially private:", "Epsilon", "secure generator", "Not protected"):
        assert claim not in words
    settings = read_json(hostile / "internal" / "settings.json")
    assert settings["plan"]["epsilon"] == "inf"
    unended = write_report(stopped(hostile, tmp_path / "stopped", after=1), with_map=False)
    assert "NOT PRIVATE: this run releases its votes without noise" in words_of(unended)


def test_seeded_noise_is_no_privacy(vectors: Path, tmp_path: Path) -> None:
    run = shutil.copytree(vectors, tmp_path / "run")
    statement = PrivacyStatement(**read_json(run / "release" / "privacy.json"))
    seeded = replace(statement, private=False, secure_noise=False, sigma=tuple(statement.sigma))
    write_json(run / "release" / "privacy.json", vars(seeded))
    (run / "release" / "PRIVACY.txt").write_text(seeded.text() + "\n")
    words = words_of(write_report(run))
    assert "its noise came from a known seed" in words
    assert "guarantee none" in words or "none guarantee" in words


def test_hostile_texts_stay_texts(hostile: Path) -> None:
    path = write_report(hostile, title="</title><script>window.hacked=9</script>\ud800")
    data = data_of(path)
    assert set(data["texts"]) == set(HOSTILE)
    elements = elements_of(path)
    assert [tag for tag, _ in elements if tag == "script"] == ["script", "script"]
    assert not [tag for tag, _ in elements if tag in {"img", "iframe", "object", "base", "b"}]
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    content = path.read_bytes()
    assert "\u2028".encode() not in content.split(b'application/json">')[1]
    assert "window.hacked=9" in words_of(path)


def test_half_a_character_in_the_data_is_written_as_json() -> None:
    written = as_script({"text": "a\ud800b\udc00 \u2028</script><!--&"})
    written.encode()
    assert all(sign not in written for sign in ("<", ">", "&", "\u2028"))
    assert "\\ud800" in written


def test_nothing_but_a_report_is_overwritten(texts: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    assert "is not a report, so it is not overwritten" in one_line_error(
        gape("report", texts, "--out", notes, "--no-map")
    )
    assert notes.read_text() == "mine"
    assert "is a folder" in one_line_error(gape("report", texts, "--out", tmp_path))
    assert "make it first" in one_line_error(gape("report", texts, "--out", tmp_path / "no" / "a.html"))
    out = tmp_path / "report.html"
    for title in ("First", "Second"):
        assert gape("report", texts, "--out", out, "--no-map", "--title", title).exit_code == 0
    assert "Second" in words_of(out)
    assert data_of(out)["map"] is None


def test_what_is_no_run_is_refused(tmp_path: Path, texts: Path) -> None:
    with pytest.raises(RunError, match="not the folder of a run"):
        write_report(tmp_path)
    empty = stopped(texts, tmp_path / "empty", after=-1)
    with pytest.raises(RunError, match="has written nothing yet"):
        write_report(empty)


def test_private_data_is_for_internal_reports_alone(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only shown in an internal report"):
        write_report(texts, private=tmp_path / "private.csv")
    with pytest.raises(PrivacyError, match="folder to be published"):
        write_report(texts, texts / "release" / "internal.html", internal=True)


def test_vectors_need_an_array_of_their_width(vectors: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which this run does not name"):
        write_report(vectors, internal=True)
    np.save(tmp_path / "wide.npy", np.zeros((5, 3)))
    with pytest.raises(InputError, match="rows of 2 numbers"):
        write_report(vectors, internal=True, private=tmp_path / "wide.npy")
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(InputError, match="is not an array of vectors"):
        write_report(vectors, internal=True, private=tmp_path / "text.npy")


def test_progress_counts_up_to_its_total(texts: Path, tmp_path: Path) -> None:
    seen: list[EmbeddingProgress] = []
    write_report(texts, tmp_path / "a.html", progress=seen.append)
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[-1] == EmbeddingProgress(seen[-1].total, seen[-1].total)
    assert seen[-1].total == 4 * 12 + 36


def test_a_service_embedder_is_not_asked(texts: Path, tmp_path: Path) -> None:
    run = shutil.copytree(texts, tmp_path / "run")
    settings = run / "internal" / "settings.toml"
    settings.write_text(settings.read_text().replace('embedder = "minilm"', 'embedder = "openai:text-embedding-9"'))
    begun = run / "internal" / "settings.json"
    begun.write_text(begun.read_text().replace("MiniLM(", "OpenAIEmbedder("))
    data: dict[str, Any] = data_of(write_report(run))  # there is no service here that could answer
    assert data["map"]["rounds"]
