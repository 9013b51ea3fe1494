import math
import sys
from pathlib import Path

import numpy as np
import pytest

from figures import is_a_drawing
from gape.cli.demos import clusters, digits
from gape.cli.demos.digits import run_digits
from gape.cli.demos.questions import run_questions
from gape.core.errors import InputError, RunError
from gape.evaluation import plots
from gape.privacy.accounting import spent
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SeededNoise


def test_the_mixture_is_the_papers() -> None:
    private = clusters.mixture(np.random.default_rng(1))
    assert private.shape == (2000, 2)
    assert private.dtype == np.float32
    right = private[:, 0] > 0
    assert right.mean() == pytest.approx(0.1, abs=0.03)
    for side, centre in ((~right, -1.0), (right, 1.0)):
        assert private[side].mean(axis=0) == pytest.approx([centre, 0.0], abs=0.03)
        assert private[side].std(axis=0) == pytest.approx([0.1, 0.1], abs=0.02)


def test_a_variation_has_standard_deviation_a_tenth_in_each_coordinate() -> None:
    plan = clusters.mixture_plan(math.inf, seed=0)
    varied = clusters.mixture_generator().vary(
        np.zeros((20_000, 2)), np.full(20_000, plan.scales[0]), np.random.default_rng(0)
    )
    assert varied.std(axis=0) == pytest.approx([0.1, 0.1], abs=0.003)
    assert plan.candidates == 9  # three points and two variations of each


@pytest.mark.parametrize(
    ("samples", "kept"),
    [([[-1, 0]], 1), ([[-1.2, 0.3], [0.9, 0.1]], 2), ([[0, 0]], 0), ([[1, 0], [1, 0.1], [0, 2]], 1)],
)
def test_a_cluster_is_kept_by_a_sample_within_half_of_its_centre(samples: list[list[float]], kept: int) -> None:
    assert clusters.clusters_kept(np.array(samples)) == kept


def test_a_trajectory_knows_where_each_sample_comes_from() -> None:
    private = clusters.mixture(np.random.default_rng(0))
    path = clusters.trajectory(clusters.selectors()["GAPE"], private, clusters.mixture_plan(math.inf, 0, rounds=6))
    assert path.last == 6
    assert len(path.samples) == 7
    assert len(path.parents) == 6
    way = path.ancestry(6)
    assert way.shape == (7, len(path.samples[-1]), 2)
    assert {tuple(point) for point in way[0]} <= {tuple(point) for point in clusters.START}
    steps = np.linalg.norm(np.diff(way, axis=0), axis=2)
    assert steps.max() < 0.6  # six standard deviations: a variation lies near its parent


def test_gape_keeps_both_clusters_and_the_baselines_do_not() -> None:
    private = clusters.mixture(np.random.default_rng(0))
    plan = clusters.mixture_plan(4.0, 0)
    kept = {
        name: clusters.clusters_kept(clusters.trajectory(rule, private, plan, SeededNoise(0)).samples[-1])
        for name, rule in clusters.selectors().items()
    }
    assert kept == {"Ranking": 1, "Subsampling": 1, "K-medoids": 2, "GAPE": 2}


def test_the_demo_spends_its_budget_on_three_runs_and_says_so(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    result = clusters.run_clusters(
        tmp_path / "demo", epsilon=4.0, rounds=3, progress=lambda name, state: seen.append((name, state.round))
    )
    plan = clusters.mixture_plan(4.0, 0, rounds=3)
    assert [each.method for each in result.runs] == ["Ranking", "Subsampling", "GAPE"]
    assert all(each.statement.private and each.statement.epsilon <= 4.0 for each in result.runs)
    assert result.dataset_epsilon == spent(plan.releases * 3, plan.delta)
    assert result.runs[-1].statement.dataset_epsilon == result.dataset_epsilon
    assert {name for name, _ in seen} == {"Ranking", "Subsampling", "GAPE"}
    ledger = Ledger(tmp_path / "demo" / "ledger.sqlite")
    assert not ledger.budget.allows((*ledger.releases(), plan.release))
    ledger.close()
    for path in (result.comparison, *(each.figure for each in result.runs)):
        assert is_a_drawing(path)
    for method in ("ranking", "subsampling", "gape"):
        assert (tmp_path / "demo" / method / "release" / "PRIVACY.txt").exists()


def test_a_demo_without_noise_is_marked(tmp_path: Path) -> None:
    result = clusters.run_clusters(tmp_path / "demo", epsilon=math.inf, rounds=1)
    assert not any(each.statement.private for each in result.runs)
    assert math.isinf(result.dataset_epsilon)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="must be empty and is not"):
        clusters.run_clusters(tmp_path, rounds=1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]


def test_without_matplotlib_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"plots need matplotlib; install gape\[plot\]"):
        clusters.run_clusters(tmp_path / "demo", rounds=1)
    assert not (tmp_path / "demo").exists()
    with pytest.raises(InputError, match="plots need matplotlib"), plots.figure(tmp_path / "x.png", size=(1, 1)):
        pass


@pytest.mark.slow
def test_the_questions_come_nearer_to_the_data_by_the_embedded_model(tmp_path: Path) -> None:
    made = run_questions(tmp_path / "demo", seed=1)
    assert made.records == 525
    assert len(made.result) == 24
    assert made.result.privacy.private
    assert made.result.privacy.epsilon <= 4.0
    assert made.gaps[-1] < made.gaps[0] - 0.03
    assert len(made.pairs) == 4
    assert is_a_drawing(made.figure)
    again = run_questions(tmp_path / "demo", seed=1)  # finished: nothing is written or paid for again
    assert again.result.texts == made.result.texts


def test_synthetic_digits_get_closer_and_teach_a_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, (images, labels) = digits.read_mnist()
    monkeypatch.setattr(digits, "read_mnist", lambda: (train, (images[:3_000], labels[:3_000])))
    made = run_digits(tmp_path / "demo", private=1500)
    assert made.result.privacy.private
    assert made.gaps[-1] < made.gaps[0]
    assert made.accuracy[1] > made.accuracy[0] > 0.1
    assert is_a_drawing(made.figure)
    again = run_digits(tmp_path / "demo", private=1500)
    assert again.result.texts == made.result.texts
