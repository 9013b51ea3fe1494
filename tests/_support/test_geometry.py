import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gape._support.geometry import distances
from gape.core.types import Floats, Points


def direct(left: Points | Floats, right: Points | Floats) -> Floats:
    """Return the same distances by subtraction in extended precision, one pair at a time."""
    a, b = left.astype(np.longdouble), right.astype(np.longdouble)
    return np.array([[np.sqrt(np.sum((x - y) ** 2)) for y in b] for x in a], dtype=np.float64)


@pytest.mark.parametrize("width", [1, 2, 32, 33, 64, 700])
@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 3000.0])
def test_equals_subtraction_however_far_from_the_origin(width: int, offset: float) -> None:
    rng = np.random.default_rng(width)
    left = offset + rng.standard_normal((7, width))
    right = offset + rng.standard_normal((5, width))
    np.testing.assert_allclose(distances(left, right), direct(left, right), rtol=1e-8)


@pytest.mark.parametrize("width", [2, 33, 384])
def test_near_duplicates_keep_their_digits(width: int) -> None:
    rng = np.random.default_rng(width)
    base = 5.0 + rng.standard_normal((40, width))
    shift = np.logspace(-12, 1, 40)[:, None] * rng.standard_normal((40, width))
    np.testing.assert_allclose(distances(base, base + shift), direct(base, base + shift), rtol=1e-8)


@pytest.mark.parametrize("width", [1, 32, 33, 256])
def test_identical_points_are_at_distance_exactly_zero(width: int) -> None:
    points = np.random.default_rng(0).standard_normal((9, width)).astype(np.float32)
    doubled = np.concatenate([points, points, np.zeros((1, width), dtype=np.float32)])
    rho = distances(doubled, doubled)
    assert np.all(np.diag(rho) == 0)
    assert np.all(np.diag(rho[:9, 9:18]) == 0)
    assert np.count_nonzero(rho == 0) == 9 * 4 + 1


@pytest.mark.parametrize("width", [3, 40])
def test_more_than_one_block_of_near_duplicates(width: int) -> None:
    points = np.ones((90, width)) + 1e-9 * np.random.default_rng(0).standard_normal((90, width))
    np.testing.assert_allclose(distances(points, points), direct(points, points), rtol=1e-8)


@pytest.mark.parametrize("width", [3, 40])
def test_the_result_is_float64_and_of_the_right_shape(width: int) -> None:
    rho = distances(np.ones((2, width), dtype=np.float32), np.zeros((3, width), dtype=np.float32))
    assert rho.dtype == np.float64
    assert rho.shape == (2, 3)
    np.testing.assert_allclose(rho, np.sqrt(width), rtol=1e-15)
    assert distances(np.ones((0, width)), np.ones((3, width))).shape == (0, 3)


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 33]))
@settings(max_examples=50)
def test_is_a_metric(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, (8, width)).astype(np.float32)
    rho = distances(points, points)
    np.testing.assert_array_equal(rho, rho.T)
    through = np.min(rho[:, :, None] + rho[None, :, :], axis=1)
    assert np.all(rho <= through + 1e-12)
