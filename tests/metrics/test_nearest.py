import numpy as np
import pytest

from gape.metrics import mean_nearest_distance, nearest_distances
from metrics.pairs import SEEDS, all_distances, random_pair


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_as_far_as_its_nearest_point(seed: int) -> None:
    real, synthetic = random_pair(seed)
    gaps = all_distances(real, synthetic).min(axis=1)
    np.testing.assert_allclose(nearest_distances(real, synthetic), gaps, rtol=1e-12, atol=0)
    assert mean_nearest_distance(real, synthetic) == pytest.approx(gaps.mean(), rel=1e-12)


def test_it_is_the_mean_over_records() -> None:
    assert mean_nearest_distance([[0.0, 0.0], [1.0, 0.0], [0.0, 10.0]], [[0.0, 0.0]]) == pytest.approx(11 / 3)


def test_it_is_zero_where_every_record_was_copied() -> None:
    real = np.random.default_rng(0).standard_normal((40, 5))
    assert mean_nearest_distance(real, np.concatenate([real, real + 100])) == 0.0
