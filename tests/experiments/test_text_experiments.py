"""The experiments with language models, made small."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gape.modalities import load_texts

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "data" / "stories260K"
QUESTIONS = ROOT / "src" / "gape" / "cli" / "demos" / "questions.csv.gz"


def script(experiment: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / "experiments" / experiment / "run.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    lines = [json.dumps({"abstract": text}) for text in load_texts(QUESTIONS, "text").texts[:160]]
    path.write_text("\n".join(lines[:80]))
    (tmp_path / "public.jsonl").write_text("\n".join(lines[80:]))
    return path


@pytest.mark.slow
def test_the_paper_grid_runs_goes_on_and_is_drawn_again(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    common = ("pubmed", "--out", out)
    asked = ("--private", texts, "--generator", f"corpus:{tmp_path / 'public.jsonl'}", "--corpus-text", "abstract")
    sizes = ("--samples", 6, "--rounds", 2, "--seeds", 1)
    script("paper_text", *common, *asked, *sizes, "--epsilons", 1, "--methods", "augpe")
    script("paper_text", *common, *asked, *sizes, "--epsilons", 1, 4)
    cells = {path.stem for path in (out / "cells").glob("*.json")}
    methods = ("augpe", "gape", "subsamplepe")
    assert cells == {"real--seed-0", *(f"{name}--eps-{epsilon}--seed-0" for name in methods for epsilon in (1, 4))}
    table = sorted((out / "table.md").read_text().splitlines())
    (out / "table.md").unlink()
    script("paper_text", *common, "--draw")
    assert sorted((out / "table.md").read_text().splitlines()) == table  # methods as they were first asked for
    first = json.loads((out / "cells" / "gape--eps-1--seed-0.json").read_text())
    assert [turn["samples"] for turn in first["turns"]] == [12, 6, 6]  # 2m to begin with


def test_files_of_one_run_share_no_text_and_miss_none(texts: Path, tmp_path: Path) -> None:
    script("paper_text", "pubmed", "--private", texts, "--words", 5, "--split", "--out", tmp_path / "data")
    found = {
        name: load_texts(tmp_path / "data" / f"pubmed-{name}.jsonl.gz", "abstract").texts.tolist()
        for name in ("held-out", "voting")
    }
    assert [len(rows) for rows in found.values()] == [8, 72]
    cut = [" ".join(text.split()[:5]) for text in load_texts(texts, "abstract").texts]
    assert sorted(found["held-out"] + found["voting"]) == sorted(cut)
    assert found["held-out"] != cut[:8]


@pytest.mark.slow
def test_the_dimension_is_measured_kept_and_drawn(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("--private", texts, "--text", "abstract", "--generator", f"hf:{MODEL}", "--words", 20, "--out", out)
    sizes = ("--texts", 2, "--variations", 10)
    script("intrinsic_dimension", *asked, *sizes, "--temperatures", 0.6, "--no-draw")
    (kept, *_) = sorted((out / "cells").iterdir())
    before = kept.stat().st_mtime_ns
    script("intrinsic_dimension", *asked, *sizes, "--temperatures", 0.6, 1.2)
    assert kept.stat().st_mtime_ns == before
    rows = [json.loads(path.read_text()) for path in (out / "cells").iterdir()]
    assert len(rows) == 4
    assert all(1 <= row["dimension"] <= 10 and row["ambient"] == 384 for row in rows)
    assert (out / "dimension.png").exists()
    assert len((out / "dimension.md").read_text().splitlines()) == 4


@pytest.mark.slow
def test_rare_kinds_are_scored_by_themselves(tmp_path: Path) -> None:
    questions = load_texts(QUESTIONS, "text", label="topic")
    assert questions.labels is not None
    kinds: list[object] = []
    for kind, share in (("science", 0.8), ("advice", 0.2)):
        some = questions.texts[questions.labels == kind][:120]
        (tmp_path / f"{kind}.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in some))
        kinds += ["--kind", kind, tmp_path / f"{kind}.jsonl", "text", share]
    sizes = ("--public", 40, "--voters", 40, "--scoring", 20, "--samples", 8, "--rounds", 2)
    script("unbalanced_text", *kinds, *sizes, "--epsilons", 8, "--seeds", 2, "--out", tmp_path / "out")
    with (tmp_path / "out" / "kinds.csv").open(newline="") as file:
        rows = {row["score"]: row for row in csv.DictReader(file)}
    assert set(rows) == {f"{what}, {kind}" for what in ("recall", "share") for kind in ("science", "advice")} | {"W1"}
    for method in ("SubsamplePE", "AugPE", "GAPE"):
        assert float(rows["share, science"][method]) + float(rows["share, advice"][method]) == pytest.approx(
            1, abs=1e-3
        )
        assert 0 <= float(rows["recall, advice"][method]) <= 1
    assert (tmp_path / "out" / "kinds.png").exists()
