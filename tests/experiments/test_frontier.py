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
    measured = (Path(tables.__file__).parents[2] / "docs" / "measured.md").read_text(encoding="utf-8")
    for table in (*map(tables.in_brief, (1.0, 4.0)), tables.energies()):
        assert "\n".join(table) in measured
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
    for dataset in tables.DATASETS:
        runs = tables.read(tables.RESULTS / dataset)
        real = np.mean([run.figures["pairs"] for run in runs if run.method == "real"])
        for epsilon in (1.0, 4.0):
            default = [run for run in runs if (run.method, run.epsilon) == ("default", epsilon)]
            assert sorted(run.seed for run in default) == [0, 1, 2]
            assert np.mean([run.figures["pairs"] for run in default]) / real > 0.845
            assert all(run.figures["repeat"] == 0 and run.figures["openings"] == 1 for run in default)


def test_the_default_is_ahead_of_augpe_and_nearer_than_ranking_but_not_in_w1() -> None:
    for dataset in tables.DATASETS:
        for epsilon in (1.0, 4.0):
            assert _gain(dataset, "augpe", epsilon, "recall") > 0
            assert _gain(dataset, "augpe", epsilon, "W1") < 0
    settings = [(dataset, epsilon) for dataset in tables.DATASETS for epsilon in tables.EPSILONS]
    behind = {setting: _gain(setting[0], "ranking-nucleus", setting[1], "W1") for setting in settings}
    assert [setting for setting, loss in behind.items() if loss <= 0] == [("goemotions", 0.5)]
    assert all(0.009 < loss < 0.0185 if name == "yelp" else loss < 0.007 for (name, _), loss in behind.items())
    assert sum(_gain(name, "ranking-nucleus", epsilon, "recall") > 0 for name, epsilon in settings) == 6
    assert sum(_gain(name, "ranking-nucleus", epsilon, "next-word") > 0 for name, epsilon in settings) == 14
    for dataset, epsilon in settings:
        farther = _gain(dataset, "ranking-nucleus", epsilon, "energy")
        assert farther < (0.0014 if epsilon == 8 else 0.0008 if (dataset, epsilon) == ("reddit", 4.0) else 0.00005)
        if dataset == "yelp":
            assert farther < -0.004


def test_the_readme_says_where_ranking_is_ahead() -> None:
    said = " ".join((Path(tables.__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
    settings = [(dataset, epsilon) for dataset in tables.DATASETS for epsilon in (1.0, 4.0)]
    assert all(_gain(name, "ranking-nucleus", epsilon, "W1") > 0 for name, epsilon in settings)
    assert all(_gain(name, "ranking-nucleus", e, "recall") < 0 for name in ("reddit", "yelp") for e in (1.0, 4.0))
    repeated = [
        np.mean([run.figures["repeat"] for run in runs])
        for name, epsilon in settings
        if (
            runs := [
                run
                for run in tables.read(tables.RESULTS / name)
                if (run.method, run.epsilon) == ("ranking-nucleus", epsilon)
            ]
        )
    ]
    assert f"but {min(repeated):.0%} to {max(repeated):.0%} of its texts" in said
    nearer = sum(_gain(name, "ranking-nucleus", epsilon, "energy") < 0.00005 for name, epsilon in settings)
    assert f"nearer or level in {nearer} of these {len(settings)} settings" in said


def test_the_default_is_level_with_the_one_before_regions_but_on_labelled_reviews() -> None:
    for dataset in tables.DATASETS:
        for epsilon in (1.0, 4.0):
            better = dataset != "yelp"
            assert (_gain(dataset, "centres", epsilon, "W1") < 0.0005) == better
            assert (_gain(dataset, "centres", epsilon, "recall") > -0.0035) == better


def _gain(dataset: str, other: str, epsilon: float, figure: str) -> float:
    """Return by how much a figure of the default is larger, in the mean over seeds that both have."""
    runs = tables.read(tables.RESULTS / dataset)
    ours, theirs = (
        {
            run.seed: run.figures[figure]
            for run in runs
            if (run.method, run.epsilon) == (method, epsilon) and figure in run.figures
        }
        for method in ("default", other)
    )
    return float(np.mean([ours[seed] - theirs[seed] for seed in ours if seed in theirs]))


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
