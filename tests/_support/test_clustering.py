import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from gape._support.clustering import assign, k_means
from gape.core.errors import InputError


def blobs(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(40, 3)) + 30 * np.eye(3)[i] for i in range(3)]).astype(np.float32)


def test_far_clusters_get_a_centre_each_at_their_mean() -> None:
    points = blobs()
    centres = k_means(points, 3, np.random.default_rng(1))
    means = np.stack([points[start : start + 40].mean(axis=0) for start in (0, 40, 80)])
    np.testing.assert_allclose(np.sort(centres, axis=0), np.sort(means.astype(np.float64), axis=0), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_another_implementation_would_stay(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(300, 5))
    centres = k_means(points, 12, np.random.default_rng(seed), steps=200)
    again, own = kmeans2(points, centres, iter=1, minit="matrix")
    np.testing.assert_allclose(again, centres, atol=1e-3)
    np.testing.assert_array_equal(own, assign(points, centres)[0])


def test_points_go_to_the_nearest_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    points, centres = rng.normal(size=(101, 40)), rng.normal(size=(7, 40))
    monkeypatch.setattr("gape._support.clustering._BLOCK", 70)
    own, gaps = assign(points, centres)
    np.testing.assert_array_equal(own, cdist(points, centres).argmin(axis=1))
    np.testing.assert_allclose(gaps, cdist(points, centres).min(axis=1))


def test_there_are_no_more_centres_than_different_points() -> None:
    points = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    centres = k_means(points, 8, np.random.default_rng(0))
    assert len(centres) == 3
    assert assign(points, centres)[1].max() == 0


@pytest.mark.parametrize(("count", "k"), [(0, 1), (3, 0)])
def test_nothing_to_do_is_refused(count: int, k: int) -> None:
    with pytest.raises(InputError, match="needs a point and a centre"):
        k_means(np.zeros((count, 2), dtype=np.float32), k, np.random.default_rng(0))
