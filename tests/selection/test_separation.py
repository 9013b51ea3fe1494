"""The paper's rule for R, on public points."""

import numpy as np
import pytest

from gape import paper_separation
from gape.core.errors import InputError


def clusters(rng: np.random.Generator, radius: float = 0.3) -> np.ndarray:
    """Three discs of this radius, far apart, 200 points each, with a point on the rim of one."""
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    angles, lengths = rng.uniform(0, 2 * np.pi, (3, 200)), radius * np.sqrt(rng.random((3, 200)))
    points = centres[:, None] + np.stack([np.cos(angles), np.sin(angles)], axis=-1) * lengths[..., None]
    return points.reshape(-1, 2)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_ten_times_the_radius_of_clusters_that_are_found(seed: int) -> None:
    points = clusters(np.random.default_rng(seed))
    found = paper_separation(points, 3, seed=seed)
    within = points.reshape(3, 200, 2)
    radius = np.linalg.norm(within - within.mean(axis=1, keepdims=True), axis=-1).max()
    assert found == pytest.approx(10 * radius, rel=1e-5)


def test_it_scales_with_the_points_and_shrinks_with_more_centres() -> None:
    points = clusters(np.random.default_rng(0))
    assert paper_separation(4 * points, 3) == pytest.approx(4 * paper_separation(points, 3), rel=1e-5)
    assert paper_separation(points, 60) < paper_separation(points, 3)


def test_what_gives_no_r_is_refused() -> None:
    points = clusters(np.random.default_rng(0))
    with pytest.raises(InputError, match="less than the 600 different points, got 600; give more public points"):
        paper_separation(points, 600)
    with pytest.raises(InputError, match="less than the 2 different points, got 2"):
        paper_separation(np.repeat([[0.0, 1.0], [2.0, 3.0]], 9, axis=0), 2)
