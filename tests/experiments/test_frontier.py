"""The README of experiments/frontier says what its stored runs say."""

from pathlib import Path

import numpy as np
import pytest
from experiments.frontier import tables
from experiments.frontier.rules import balanced

from gape.evaluation.compare import SeedMean

README = Path(tables.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_stored_runs() -> None:
    for table in tables.tables():
        assert "\n".join(table) in README
    for size in ("simulated", "simulated-small"):
        assert (tables.RESULTS / f"{size}.md").read_text().strip() in README


def test_w1_is_nowhere_worse_than_before_beyond_the_interval() -> None:
    for dataset in ("reddit", "pubmed"):
        chosen = {
            (run.epsilon, run.seed): run.figures
            for run in tables.read(tables.RESULTS / dataset)
            if run.method == "chosen"
        }
        before = {
            (run.epsilon, run.seed): run.figures
            for run in tables.read(tables.BEFORE / dataset)
            if run.method == "before"
        }
        for epsilon in (1.0, 4.0):
            seeds = range(3)
            worse = SeedMean(tuple(chosen[epsilon, seed]["W1"] - before[epsilon, seed]["W1"] for seed in seeds))
            assert worse.mean <= worse.reach
            gain = np.mean([chosen[epsilon, seed]["recall"] - before[epsilon, seed]["recall"] for seed in seeds])
            assert gain > 0.02


def test_ranking_with_as_many_votes_has_the_lower_w1_in_all_settings_but_one() -> None:
    gains = {}
    for dataset in tables.DATASETS:
        runs = tables.read(tables.RESULTS / dataset)
        ours, theirs = (
            {(run.epsilon, run.seed): run.figures["W1"] for run in runs if run.method == method}
            for method in ("centres", "ranking")
        )
        for epsilon in {epsilon for epsilon, _ in ours}:
            pairs = [(ours[key], theirs[key]) for key in ours if key in theirs and key[0] == epsilon]
            gains[dataset, epsilon] = float(np.mean([ranked - own for own, ranked in pairs]))
    assert len(gains) == 14
    assert [setting for setting, gain in gains.items() if gain > 0] == [("pubmed", 8.0)]
    assert "in 13 of 14 settings" in README


def test_regions_come_nearer_than_centres_at_the_same_sampling() -> None:
    for dataset in ("reddit", "pubmed", "yelp"):
        regions, centres = (_first(dataset, method, 1.0) for method in ("regions", "centres"))
        assert centres["W1"] - regions["W1"] > 0.002
        assert regions["recall"] - centres["recall"] > 0.01


def test_the_default_has_the_pairs_of_words_of_real_texts_and_no_repetition() -> None:
    for dataset in ("reddit", "pubmed", "yelp"):
        real = np.mean([run.figures["pairs"] for run in tables.read(tables.RESULTS / dataset) if run.method == "real"])
        for epsilon in (1.0, 4.0):
            default, augpe = (_first(dataset, method, epsilon) for method in ("default", "augpe"))
            assert default["pairs"] > 0.85 * real
            assert default["repeat"] == 0
            assert default["openings"] == 1
            assert default["recall"] > augpe["recall"]
            assert default["W1"] < augpe["W1"]
            ranked = _first(dataset, "ranking", epsilon)
            assert -0.0001 < default["W1"] - ranked["W1"] < 0.0105
            assert ranked["repeat"] > 0.5


def _first(dataset: str, method: str, epsilon: float) -> dict[str, float]:
    """Return the figures of the run with seed 0."""
    runs = tables.read(tables.RESULTS / dataset)
    return next(run.figures for run in runs if (run.method, run.epsilon, run.seed) == (method, epsilon, 0))


@pytest.mark.parametrize("seed", range(3))
def test_balanced_moves_a_sample_to_a_cluster_that_has_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(0, 0.1, (20, 2)), rng.normal(0, 0.1, (20, 2)) + 10])
    costs = np.linalg.norm(points[:, None] - points, axis=2).astype(np.float32)
    chosen = balanced(costs, np.ones(40), np.arange(4))  # all of one cluster
    assert sorted((chosen >= 20).tolist()) == [False, False, True, True]
