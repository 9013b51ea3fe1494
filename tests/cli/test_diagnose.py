import json
from pathlib import Path

import pytest

from command import gape, one_line_error
from made_up import CANARIES, private_rows, write_corpus, write_csv


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "public.txt")
    return tmp_path / "public.txt"


def test_a_public_diagnosis(corpus: Path) -> None:
    out = corpus.parent / "diagnosis"
    asked = ["diagnose", "--generator", f"corpus:{corpus}", "--texts", "2", "--variations", "20", "--out", str(out)]
    result = gape(*asked, "--scales", "0.4,0.9")
    assert result.exit_code == 0, result.stderr
    assert "NOT PRIVATE" not in result.stdout
    assert "covers" in result.stdout
    data = json.loads((out / "diagnosis.json").read_text())
    assert [each["scale"] for each in data["scales"]] == [0.4, 0.9]
    assert len(data["scales"][0]["dimensions"]) == 2
    assert data["verdict"]
    for each in data["scales"]:
        assert all(found["bias"] > 0 and found["variance"] > 0 for found in each["moments"])
    assert "bias found for" in result.stdout
    assert data["start"]["samples"] + data["start"]["targets"] == 102
    for name in ("dimension.png", "decay.png", "bias.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_private_targets_mark_it(corpus: Path) -> None:
    data = write_csv(corpus.parent / "reviews.csv", private_rows())
    out = corpus.parent / "diagnosis"
    asked = ["diagnose", str(data), "--text", "review", "--generator", f"corpus:{corpus}", "--scales", "0.9"]
    result = gape(*asked, "--texts", "1", "--variations", "10", "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("NOT PRIVATE")
    written = (out / "diagnosis.json").read_text()
    assert "NOT PRIVATE" in json.loads(written)
    assert not any(canary in written + result.stdout for canary in CANARIES)


def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    result = gape("diagnose", "--generator", f"corpus:{tmp_path}/none.txt", "--out", str(tmp_path / "d"))
    assert "there is no corpus" in one_line_error(result)
    several = gape("diagnose", "--generator", "hf:a", "--also", "hf:b", "--out", str(tmp_path / "out"))
    assert "a diagnosis has one generator, got also 'hf:b'; leave it out" in one_line_error(several)


def test_what_no_diagnosis_has_written_is_left_alone(corpus: Path) -> None:
    out = corpus.parent / "thesis"
    out.mkdir()
    (out / "decay.png").write_bytes(b"mine")
    asked = ["diagnose", "--generator", f"corpus:{corpus}", "--texts", "1", "--variations", "10", "--scales", "0.9"]
    assert "contains decay.png, which no diagnosis writes" in one_line_error(gape(*asked, "--out", str(out)))
    assert (out / "decay.png").read_bytes() == b"mine"
    again = corpus.parent / "diagnosis"
    assert [gape(*asked, "--out", str(again)).exit_code for _ in range(2)] == [0, 0]
