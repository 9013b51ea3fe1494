"""What happens to private texts on their way to a vote: each is embedded by itself, and none is in a public corpus."""

import csv
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import gape, one_line_error
from gape.core.errors import PrivacyError
from gape.core.types import Points, Samples
from gape.distributed.cluster import TextShard
from gape.evaluation.compare.texts import compare_texts
from gape.evaluation.evaluate import evaluate
from gape.runs.embedding import embed_texts
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text
from made_up import STARS, private_rows, public_texts, write_corpus, write_csv

PRIVATE = frozenset(row["review"] for row in private_rows())


class Padding:
    """An embedder as services and GPUs are: what it computes together is padded to one length, which changes bits."""

    def __init__(self, met: list[str], *, together: bool = False) -> None:
        """Note in `met` the private texts that were computed together with others."""
        self._met, self._together = met, together

    def __repr__(self) -> str:
        return "MiniLM(padding)"  # what the settings name

    def for_public_samples(self) -> "Padding":
        return Padding(self._met, together=True)

    def embed(self, samples: Samples) -> Points:
        longest = max(map(len, samples)) if self._together else 0
        if self._together:
            self._met += PRIVATE & set(samples.tolist())
        angles = np.array([len(text) + sum(map(ord, text)) / 999 + longest / 10 for text in samples])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_csv(tmp_path / "reviews.csv", private_rows())
    write_corpus(tmp_path / "public.txt")
    return tmp_path


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Private texts that are embedded together with others, by any part of the package."""
    found: list[str] = []
    for name in ("runs.engine", "runs.synthesize", "runs.embedding", "evaluation.sources", "evaluation.compare.texts"):
        monkeypatch.setattr(importlib.import_module(f"gape.{name}"), "make_embedder", lambda *_: Padding(found))
    return found


def settings(here: Path, **values: Any) -> Settings:
    small = {"epsilon": 4.0, "samples": 6, "rounds": 1, "scales": [0.4, 0.8], "text": "review"}
    return Settings.of(small, {"data": str(here / "reviews.csv"), "generator": f"corpus:{here / 'public.txt'}"}, values)


def a_run(here: Path) -> object:
    return run_text(settings(here), here / "run")


def a_run_with_labels(here: Path) -> object:
    return run_text(settings(here, label="stars", labels=STARS), here / "run")


def vectors_on_disk(here: Path) -> object:
    return embed_texts(settings(here, generator="embedded"), here / "vectors")


def an_evaluation(here: Path) -> object:
    made = [{"review": text} for text in public_texts()[:40]]
    return evaluate(made, here / "reviews.csv", text="review", held_out=here / "reviews.csv")


def a_comparison(here: Path) -> object:
    chosen = replace(settings(here, samples=4), epsilon=None)
    return compare_texts(chosen, here / "comparison", methods=["ranking"], epsilons=[1.0], seeds=1)


def a_worker(here: Path) -> object:
    found: list[str] = []
    block = TextShard(str(here / "reviews.csv"), lambda: Padding(found), "review").read()
    assert not found
    return block


@pytest.mark.parametrize(
    "use",
    [a_run, a_run_with_labels, vectors_on_disk, an_evaluation, a_comparison, a_worker],
    ids=lambda use: use.__name__,
)
def test_private_texts_are_embedded_one_by_one(here: Path, met: list[str], use: Callable[[Path], object]) -> None:
    use(here)
    assert met == []


def test_texts_that_are_embedded_together_are_noticed(here: Path, met: list[str]) -> None:
    texts = np.array(sorted(PRIVATE), dtype=object)
    other = np.where(texts == texts[3], "x" * 500, texts)
    alone, together = Padding(met), Padding(met).for_public_samples()
    assert np.array_equal(np.delete(alone.embed(texts), 3, 0), np.delete(alone.embed(other), 3, 0))
    assert met == []
    assert not np.array_equal(np.delete(together.embed(texts), 3, 0), np.delete(together.embed(other), 3, 0))
    assert met


def copies(here: Path) -> dict[str, Path]:
    """The private records in other files, one of them with a single record among public texts."""
    texts = sorted(PRIVATE)
    (here / "copy.txt").write_text("\n".join(texts) + "\n")
    (here / "one.txt").write_text("\n".join([*public_texts(), f"  {texts[7].upper()} "]) + "\n")
    (here / "copy.jsonl").write_text("".join(json.dumps({"said": text}) + "\n" for text in texts))
    (here / "folder").mkdir()
    for number, text in enumerate([*public_texts()[:5], texts[0]]):
        (here / "folder" / f"{number}.txt").write_text(text)
    return {name: here / name for name in ("copy.txt", "one.txt", "copy.jsonl", "folder")}


def test_a_corpus_that_shares_a_record_is_refused_wherever_it_lies(here: Path) -> None:
    for corpus in copies(here).values():
        with pytest.raises(PrivacyError, match="contains at least one private record") as refused:
            run_text(settings(here, generator=f"corpus:{corpus}"), here / "run")
        assert not any(text in str(refused.value) for text in PRIVATE)
        arguments = ["--text", "review", "--epsilon", 4, "--generator", f"corpus:{corpus}"]
        for command in ("plan", "run"):
            assert "at least one private record" in one_line_error(gape(command, here / "reviews.csv", *arguments))
    assert not (here / "run").exists()
    assert not list(here.glob("*ledger*"))
    chosen = replace(settings(here, generator=f"corpus:{here / 'one.txt'}"), epsilon=None)
    with pytest.raises(PrivacyError, match="contains at least one private record"):
        compare_texts(chosen, here / "comparison")


def test_a_corpus_is_compared_with_vectors_on_disk(here: Path) -> None:
    copies(here)
    embed_texts(settings(here, generator="embedded"), here / "vectors")
    given = {"data": str(here / "vectors"), "text": None}
    with pytest.raises(PrivacyError, match="contains at least one private record"):
        run_text(settings(here, generator=f"corpus:{here / 'one.txt'}", **given), here / "run")
    assert len(run_text(settings(here, **given), here / "run")) == 6


def test_the_owner_may_agree_and_is_asked_in_every_process(here: Path) -> None:
    corpus = copies(here)["one.txt"]

    def halt(now: Any) -> None:
        if now.round == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_text(settings(here, generator=f"corpus:{corpus}", corpus_may_share=True), here / "run", progress=halt)
    assert "may_share" not in (here / "run" / "internal" / "settings.toml").read_text()
    with pytest.raises(PrivacyError, match="corpus_may_share"):
        resume(here / "run")
    assert len(resume(here / "run", corpus_may_share=True)) == 6


def test_users_in_a_file_are_protected_as_one(here: Path) -> None:
    rows = [row | {"who": name} for row, name in zip(private_rows(6), ("7", "7.0", "A", "a ", "b", "B"), strict=True)]
    with (here / "few.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["review", "stars", "who"])
        writer.writeheader()
        writer.writerows(rows)
    said = gape("plan", here / "few.csv", "--text", "review", "--user", "who", "--epsilon", 1, "--samples", 2).stdout
    assert "3 users" in said
