import importlib

import numpy as np
import pytest

import strategies
from gape._support.geometry import distances
from gape._support.parallel import cuda
from gape.core.types import Points
from gape.selection.flow import simplex as flow
from gape.selection.flow.device import DeviceCosts
from gape.selection.local_search import local_search

INF = float("inf")


@pytest.fixture(params=["cpu", cuda()], ids=["cpu", "cuda, or cpu where there is none"])
def device(request: pytest.FixtureRequest) -> str:
    """Torch computes the same on every device; a GPU is used where there is one."""
    return request.param or "cpu"


def close_points(rng: np.random.Generator, width: int) -> Points:
    """Clusters far from the origin, with duplicates: the expansion of the square has nothing left of the distances."""
    centres = 100 * rng.normal(size=(5, width))
    points = np.repeat(centres, 12, axis=0) + 1e-3 * rng.normal(size=(60, width))
    points[1::12] = points[::12]
    return points.astype(np.float32)


@pytest.mark.parametrize("width", [2, 40, 200])
@pytest.mark.parametrize("cap", [INF, 90.0])
def test_costs_are_those_of_the_processor(device: str, width: int, cap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gape.selection.flow.device._BYTES", 8 * 30 * 7)  # a few rows at a time
    points = close_points(np.random.default_rng(width), width)
    rows, columns = np.arange(0, 60, 2), np.arange(30)
    grid = flow.grid_of(1000.0)
    found = DeviceCosts(points, device).costs(rows, columns, cap, grid, np.float64)
    expected = np.minimum(distances(points[rows], points[columns]), cap)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=grid)
    assert np.all(found[expected == 0] == 0)
    np.testing.assert_array_equal(found, grid * np.rint(found / grid))
    rounded = DeviceCosts(points, device).costs(rows, columns, cap, grid, np.float32)
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, found.astype(np.float32))


def test_no_points_at_all(device: str) -> None:
    none = np.zeros(0, dtype=np.int64)
    points = np.zeros((3, 2), dtype=np.float32)
    assert DeviceCosts(points, device).costs(none, np.arange(3), INF, 0.0, np.float32).shape == (0, 3)
    assert DeviceCosts(points, device).costs(np.arange(3), none, INF, 0.0, np.float32).shape == (3, 0)
    assert not DeviceCosts(points, device).costs(np.arange(3), np.arange(3), INF, 0.0, np.float32).any()


@pytest.mark.parametrize("memory", [4e9, 1e4], ids=["held", "by blocks"])
def test_the_search_ends_as_on_the_processor(device: str, memory: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("gape.selection.local_search"), "_SMALL", 10)
    rng = np.random.default_rng(0)
    swaps = 0
    for _ in range(10):
        instance = strategies.random_instance(rng, 60, layouts=("cloud",), weightings=("integer",))
        plain, by_device = (
            local_search(
                instance.points, instance.weights, 5, separation=instance.separation, threshold=0.0, memory=memory,
                _device=name,
            )
            for name in (None, device)
        )  # fmt: skip
        if plain.method == "none":
            continue
        assert by_device.method == ("float32" if memory > 1e6 else "blocks") + f", {device}"
        assert by_device.cost == pytest.approx(plain.cost, rel=1e-6)
        np.testing.assert_array_equal(by_device.indices, plain.indices)
        swaps += by_device.swaps
    assert swaps > 10
