import csv
from pathlib import Path

import numpy as np
import pytest
from experiments.ahead import budgets, votes
from experiments.ahead.run import MEASURES, Shelf, run
from experiments.corpus_text.run import Data, Looked

from gape.core.types import Points
from gape.generators.corpus import CorpusText


def sphere(seed: int, count: int) -> Points:
    """Points of unit length in 24 dimensions, nine in ten of them round one of two centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(2, 24))
    points = centres[rng.choice(2, count, p=(0.9, 0.1))] + 0.8 * rng.normal(size=(count, 24))
    found: Points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return found


TEXTS = tuple(f"text {i}" for i in range(600))
DATA = Data(sphere(0, 1500), TEXTS, sphere(1, 600))


def test_a_shelf_draws_what_a_corpus_draws() -> None:
    embedder = Looked({text: place for place, text in enumerate(TEXTS)}, DATA.points)
    samples = np.array(TEXTS[:200], dtype=object)
    scales = np.random.default_rng(0).uniform(0.2, 1.0, len(samples))
    theirs, ours = (
        kind(TEXTS, embedder).vary(samples, scales, np.random.default_rng(5)) for kind in (CorpusText, Shelf)
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_gape_comes_nearer_than_ranking_under_much_noise(tmp_path: Path) -> None:
    rows = run(tmp_path, DATA, seeds=6, epsilons=(1.0,), samples=30, rounds=4)
    assert [row["measure"] for row in rows] == list(MEASURES)
    gains = {row["measure"]: row["better by"] for row in rows}
    assert gains["mean nearest distance"] > 0  # not so W1, with so few samples in two clusters: see the log
    assert {file.name for file in tmp_path.iterdir()} == {"ahead.csv", "ahead.md", "ahead.png"}


@pytest.mark.parametrize("name", budgets.WAYS)
@pytest.mark.parametrize("rounds", [1, 2, 10])
def test_all_ways_of_spending_cost_the_same(name: str, rounds: int) -> None:
    noises = budgets.noises(budgets.WAYS[name], 7.0, rounds)
    assert len(noises) == rounds
    assert (1 / noises**2).sum() == pytest.approx(rounds / 49)


@pytest.mark.slow
def test_ways_of_spending_are_compared_with_spending_evenly(tmp_path: Path) -> None:
    rows = budgets.run(tmp_path, DATA, seeds=2, epsilons=(0.1, 100.0), samples=20, rounds=3)
    assert [row["way"] for row in rows] == [*budgets.WAYS] * 2
    assert all(row[f"{measure}, better by"] == 0 for row in rows[:: len(budgets.WAYS)] for measure in MEASURES)
    assert all(less["recall"] < more["recall"] for less, more in zip(rows, rows[len(budgets.WAYS) :], strict=False))
    assert {file.name for file in tmp_path.iterdir()} == {"budgets.csv", "budgets.md"}


@pytest.mark.parametrize("name", ["reddit", "pubmed", "reddit-titles", "pubmed-titles"])
def test_the_stored_default_is_nowhere_worse_than_one_vote_beyond_the_interval(name: str) -> None:
    with (Path(votes.__file__).parent / "results" / f"votes-{name}" / "votes.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["way"] == "default"]
    gains = {
        (row["epsilon"], measure): (row[f"{measure}, better by"], row[f"{measure}, ±"])
        for row in rows
        for measure in MEASURES
    }
    assert len(gains) == 4 * len(MEASURES)
    assert all(float(gain) > -float(reach) for gain, reach in gains.values())
    if name in {"reddit", "pubmed"}:
        assert float(gains["1", "recall"][0]) > float(gains["1", "recall"][1])


@pytest.mark.slow
def test_numbers_of_votes_are_compared_with_one_vote(tmp_path: Path) -> None:
    rows = votes.run(tmp_path, DATA, seeds=2, epsilons=(0.5, 100.0), samples=40, rounds=3)
    assert [(row["way"], row["votes"]) for row in rows] == [
        *(("one vote", 1), ("default", 4), ("AugPE", 1)),
        *(("one vote", 1), ("default", 2), ("AugPE", 1)),
    ]
    assert all(row[f"{measure}, better by"] == 0 for row in rows[::3] for measure in MEASURES)
    assert {file.name for file in tmp_path.iterdir()} == {"votes.csv", "votes.md"}
