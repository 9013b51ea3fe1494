"""The experiments run, and show what their READMEs say: a glance at each by default, the full sizes if slow."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.corpus_text import run as corpus
from experiments.mixture_2d import run as mixture
from experiments.ranking_subsampling_fail import run as dilution
from experiments.reachability_2d import run as reachability
from experiments.rules import METHODS, PAPER, THRESHOLD_ZERO
from experiments.snaking_path import run as snake

from figures import is_a_drawing
from gape.core.types import Points, Samples
from gape.embedders.minilm import MiniLM
from gape.modalities import load_texts

ROOT = Path(__file__).parents[2]
EXPERIMENTS = (
    "cluster_discovery",
    "corpus_text",
    "intrinsic_dimension",
    "llm_text",
    "mixture_2d",
    "ranking_subsampling_fail",
    "rates",
    "reachability_2d",
    "settings_of_gape",
    "snaking_path",
)


def published(experiment: str, table: str) -> list[dict[str, str]]:
    """Read a table as it is kept in the repository."""
    with (ROOT / "experiments" / experiment / "results" / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def written(out: Path, table: str, rows: list[dict[str, Any]], *figures: str) -> bool:
    """Whether an experiment wrote its table, in both forms, and its figures."""
    lines = (out / f"{table}.md").read_text().splitlines()
    with (out / f"{table}.csv").open(newline="") as file:
        same = len(list(csv.DictReader(file))) == len(rows) == len(lines) - 2
    return same and all(is_a_drawing(out / f"{name}.png") for name in figures)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_experiment_keeps_its_results_and_says_how_to_repeat_them(experiment: str) -> None:
    folder = ROOT / "experiments" / experiment
    readme = (folder / "README.md").read_text()
    assert f"python experiments/{experiment}/run.py" in readme
    figures = sorted((folder / "results").glob("*.png"))
    assert figures
    for figure in figures:
        assert figure.name in readme
        assert is_a_drawing(figure)
    for table in (folder / "results").glob("*.md"):
        assert table.name in readme


def cells(experiment: str, method: str, columns: int) -> list[str]:
    """Return the cells of a method in the table of a README that has so many columns of figures."""
    lines = (ROOT / "experiments" / experiment / "README.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    (found,) = [row[1:] for row in rows if row[0] == method and len(row) == 1 + columns]
    return found


@pytest.mark.parametrize("method", METHODS)
def test_the_shares_of_the_mixture_are_those_of_the_stored_runs(method: str) -> None:
    stored = {
        row["epsilon"]: 100 * float(row["share"])
        for row in published("mixture_2d", "shares")
        if row["method"] == method and row["R"] in ("", "3") and row["selected stay candidates"] == "yes"
    }
    printed = cells("mixture_2d", method, columns=7)
    for epsilon, cell in zip(("inf", "8", "4", "2", "1", "0.5", "0.1"), printed, strict=True):
        assert cell == "as above" if epsilon not in stored else cell.split(" ")[0] == f"{stored[epsilon]:g}%"


@pytest.mark.parametrize("method", METHODS)
def test_the_shares_of_many_clusters_are_those_of_the_stored_runs(method: str) -> None:
    stored = {
        (row["clusters"], row["m"], row["epsilon"]): (
            f"{float(row['share kept']):.2f}".removeprefix("0") + f" ({row['all clusters kept']} of {row['runs']})"
        )
        for row in published("cluster_discovery", "practical")
        if row["method"] == method and row["sweep"] == "many clusters"
    }
    settings = [(k, m, epsilon) for k, m in (("8", "10"), ("10", "10"), ("10", "40")) for epsilon in ("1", "4")]
    assert cells("cluster_discovery", method, columns=6) == [stored[setting] for setting in settings]


def test_mixture_glance(tmp_path: Path) -> None:
    rows = mixture.run(tmp_path, seeds=1, jobs=1, cases=(*mixture.NOISELESS, *mixture.NOISY[:7]))
    names = [f"trajectory_{name}" for name in ("ranking", "subsampling", "k_medoids", "gape")]
    assert written(tmp_path, "shares", rows, *names, "trajectories", "share_by_epsilon", "share_by_separation")


def test_corpus_glance(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    private, public = (rng.standard_normal((size, 8)).astype(np.float32) for size in (60, 80))
    data = corpus.Data(private, tuple(str(place) for place in range(len(public))), public)
    rows = corpus.run(tmp_path, data, seeds=1, jobs=1, samples=5, rounds=2, certify=True)
    assert written(tmp_path, "scores", rows, "recall")
    assert len(rows) == 1 + len(corpus.METHODS) * len(corpus.EPSILONS) + 2 + 2


def test_recall_is_based_on_the_data() -> None:
    line = np.arange(10, dtype=np.float32)[:, None]  # the third nearest is 3 away from the ends, 2 elsewhere
    assert corpus.score(line, line).recall == 1.0
    assert corpus.score(line, np.full((2, 1), 12.0, dtype=np.float32)) == corpus.Score(0.1, 7.5, 1)


def test_embeddings_are_kept_by_what_the_texts_say(tmp_path: Path) -> None:
    class Lengths:
        asked = 0

        def __repr__(self) -> str:
            return "Lengths"

        def embed(self, samples: Samples) -> Points:
            self.asked += len(samples)
            return np.array([[len(text)] for text in samples], dtype=np.float32)

    embedder = Lengths()
    first = corpus.embedded(("a", "bb"), embedder, tmp_path / "cache")
    assert np.array_equal(corpus.embedded(("a", "bb"), embedder, tmp_path / "cache"), first)
    assert embedder.asked == 2
    assert not np.array_equal(corpus.embedded(("a", "bbb"), embedder, tmp_path / "cache"), first)
    assert embedder.asked == 4


def test_dilution_glance(tmp_path: Path) -> None:
    rows = dilution.run(tmp_path, seeds=2, jobs=1)
    assert written(tmp_path, "survival", rows, "survival")


def test_reachability_glance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "CAP", 60)
    rows = reachability.run(tmp_path, seeds=1, jobs=1)
    assert written(tmp_path, "rounds", rows, "rounds")
    assert rows[-1]["largest second coordinate"] == 0.0


def test_snake_glance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snake, "ROUNDS", 10)
    rows = snake.run(tmp_path, seeds=1, jobs=1)
    assert written(tmp_path, "distances", rows, "snake")


@pytest.mark.slow
def test_gape_keeps_both_clusters_where_ranking_and_subsampling_never_do() -> None:
    cases = (
        mixture.Case("Ranking"),
        mixture.Case("Subsampling"),
        mixture.Case("K-medoids"),
        *(mixture.Case(THRESHOLD_ZERO, separation=R) for R in (3.0, 6.0, math.inf)),
        mixture.Case(THRESHOLD_ZERO, epsilon=4.0),
        mixture.Case(PAPER, epsilon=4.0),
        mixture.Case("Ranking", epsilon=4.0),
    )
    rows = mixture.table(cases, seeds=200, jobs=2)
    ranking, subsampling, medoids, *gape, noisy_ranking = (row["share"] for row in rows)
    assert ranking <= 0.02
    assert subsampling <= 0.02
    assert noisy_ranking <= 0.02
    assert min(medoids, *gape) >= 0.99
    kept = [row for row in published("mixture_2d", "shares") if row["selected stay candidates"] == "yes"]
    shares = {(row["method"], row["R"], row["epsilon"]): float(row["share"]) for row in kept}
    for row in rows:
        R = f"{row['R']:g}" if row["R"] else ""
        # The same seeds: only rounding, which may differ between processors, can change a run.
        assert row["share"] == pytest.approx(shares[row["method"], R, f"{row['epsilon']:g}"], abs=0.02)


@pytest.mark.slow
def test_texts_of_a_corpus_come_nearer_to_held_out_ones(tmp_path: Path) -> None:
    questions = load_texts(ROOT / "src" / "gape" / "cli" / "demos" / "questions.csv.gz", "text").texts[:600]
    cut = tuple(" ".join(text.split()[:40]) for text in questions)
    private, public = cut[::2], cut[1::2]
    embedder = MiniLM()
    data = corpus.Data(corpus.embedded(private, embedder, None), public, corpus.embedded(public, embedder, None))
    rows = corpus.run(tmp_path, data, seeds=2, jobs=2, samples=20, rounds=3)
    assert written(tmp_path, "scores", rows, "recall")
    recall = {(row["texts"], row["epsilon"]): row["recall"] for row in rows}
    for method in ("Ranking", "GAPE"):
        assert recall[method, math.inf] > recall["Random start", ""]
        assert recall[method, math.inf] <= recall["Whole corpus", ""]


@pytest.mark.slow
def test_clusters_die_as_theory_says(tmp_path: Path) -> None:
    rows = dilution.run(tmp_path, seeds=dilution.SEEDS, jobs=2)
    for row in rows:
        if row["by theory"] != "":
            spread = math.sqrt(row["by theory"] * (1 - row["by theory"]) / row["seeds"])
            assert abs(row["share"] - row["by theory"]) <= 4 * spread + 1 / row["seeds"]
        if row["method"] in {"K-medoids", "GAPE"}:
            assert row["share"] == 1.0


@pytest.mark.slow
def test_rounds_grow_with_the_effective_rank_but_more_slowly(tmp_path: Path) -> None:
    rows = reachability.run(tmp_path, seeds=reachability.SEEDS, jobs=2)
    *covered, uncovered = rows
    medians = [row["rounds, median"] for row in covered]
    assert all(row["reached"] == row["seeds"] for row in covered)
    assert medians[2:] == sorted(medians[2:])
    assert medians[-1] >= 3 * medians[0]
    assert 0.3 <= reachability.slope(rows) <= 0.7  # the paper's bound is in proportion to lambda: slope 1
    assert uncovered["reached"] == 0
    assert uncovered["largest second coordinate"] == 0.0


@pytest.mark.slow
def test_evolution_stalls_on_the_snake_unless_its_steps_can_jump(tmp_path: Path) -> None:
    for row in snake.run(tmp_path, seeds=snake.SEEDS, jobs=2):
        if row["generator"] == "round Gaussian":
            assert row["arrived"] == row["seeds"]
        elif row["step s"] <= 1.0:
            assert row["arrived"] == 0
            assert row["stayed at the start"] == row["seeds"]
        elif row["step s"] == 4.0:
            assert row["arrived"] >= 0.9 * row["seeds"]
