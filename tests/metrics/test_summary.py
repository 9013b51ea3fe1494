import numpy as np
import pytest

from gape import metrics
from gape.core.errors import InputError
from gape.metrics import evaluate_points

RNG = np.random.default_rng(0)
REAL, SYNTHETIC = RNG.standard_normal((300, 6)), RNG.standard_normal((200, 6))


def test_every_figure_is_that_of_its_own_function() -> None:
    found = evaluate_points(REAL, SYNTHETIC, k=2, coverage_k=4, blur=0.5)
    assert found == {
        "precision": metrics.precision(REAL, SYNTHETIC, 2),
        "recall": metrics.recall(REAL, SYNTHETIC, 2),
        "k": 2,
        "density": metrics.density(REAL, SYNTHETIC, 4),
        "coverage": metrics.coverage(REAL, SYNTHETIC, 4),
        "coverage_k": 4,
        "mean_nearest_distance": metrics.mean_nearest_distance(REAL, SYNTHETIC),
        "coverage_error": metrics.coverage_error(REAL, SYNTHETIC),
        "wasserstein1": metrics.wasserstein1(REAL, SYNTHETIC),
        "sinkhorn1": metrics.sinkhorn1(REAL, SYNTHETIC, 0.5).value,
        "sinkhorn_blur": 0.5,
        "sinkhorn_converged": 1.0,
        "transport_real": 300,
        "transport_synthetic": 200,
        "frechet": metrics.frechet(REAL, SYNTHETIC),
    }


def test_transport_of_large_sets_is_that_of_samples_and_says_so() -> None:
    found = evaluate_points(REAL, SYNTHETIC, transport_points=50)
    assert (found["transport_real"], found["transport_synthetic"]) == (50, 50)
    assert found["wasserstein1"] > metrics.wasserstein1(REAL, SYNTHETIC)
    assert found == evaluate_points(REAL, SYNTHETIC, transport_points=50)
    other = evaluate_points(REAL, SYNTHETIC, transport_points=50, rng=np.random.default_rng(1))
    assert other["wasserstein1"] != found["wasserstein1"]
    assert other["recall"] == found["recall"]


def test_refuses_no_points_to_move() -> None:
    with pytest.raises(InputError, match="transport_points must be at least 1"):
        evaluate_points(REAL, SYNTHETIC, transport_points=0)
