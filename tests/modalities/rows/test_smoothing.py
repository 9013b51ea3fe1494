"""Noisy counts of a number become smooth where its values are, and stay sharp where they are not."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gape.core.types import Floats
from gape.modalities.rows.cells import ColumnCells
from gape.modalities.rows.columns import Numbers
from gape.modalities.rows.estimates import Level, NoisyColumn
from gape.modalities.rows.smoothing import _Problem, smoothed_counts

CELLS = 60


def bell(centre: float, width: float, total: float = 10_000.0) -> Floats:
    density: Floats = np.exp(-0.5 * ((np.arange(CELLS) - centre) / width) ** 2)
    return np.asarray(total * density / density.sum())


def smoothed(noisy: Floats, noise: float, widths: Floats | None = None) -> Floats:
    widths = np.ones(len(noisy)) if widths is None else widths
    return smoothed_counts(noisy, np.eye(len(noisy)) / noise**2, widths, np.maximum(noisy, 0.0))


def away(counts: Floats, truth: Floats) -> float:
    return float(0.5 * np.abs(counts / counts.sum() - truth / truth.sum()).sum())


@pytest.mark.parametrize("noise", [30.0, 100.0, 300.0])
@pytest.mark.parametrize(("centre", "width"), [(30.0, 10.0), (5.0, 3.0)], ids=["wide", "narrow with a long tail"])
def test_smooth_columns_come_nearer_to_the_truth(centre: float, width: float, noise: float) -> None:
    rng, truth = np.random.default_rng(0), bell(centre, width)
    before, after, merged = [], [], []
    for _ in range(10):
        noisy = truth + noise * rng.normal(size=CELLS)
        column = NoisyColumn.of([Level(np.arange(CELLS), noisy, noise**2)])
        before.append(away(np.maximum(noisy, 0.0), truth))
        merged.append(away(column.nearest(truth.sum(), CELLS), truth))
        after.append(away(smoothed(noisy, noise), truth))
    assert np.mean(after) < 0.6 * np.mean(before)
    assert np.mean(after) < 0.9 * np.mean(merged)


def test_counts_without_noise_stay_as_they_are() -> None:
    truth = np.where(np.arange(CELLS) % 7 == 0, 500.0, bell(20.0, 8.0))
    np.testing.assert_allclose(smoothed(truth, 1e-6), np.maximum(truth, np.exp(-12.0)), atol=0.01)
    assert away(smoothed(np.rint(truth), 1.0), truth) < 0.01


def test_a_value_that_many_records_share_stays() -> None:
    truth = bell(30.0, 10.0)
    truth[40] += 4_000
    found = smoothed(truth + 50 * np.random.default_rng(1).normal(size=CELLS), 50.0)
    assert found[40] == pytest.approx(truth[40], rel=0.05)
    assert found[[38, 39, 41, 42]].max() < truth[40] / 5


def test_the_cell_of_a_single_number_is_not_compared_with_its_neighbours() -> None:
    cells = ColumnCells(Numbers(-50.0, 100.0, 1))
    zero = int(cells.of(np.array([0.0]))[0])
    assert [index for index, width in enumerate(cells.widths) if not width] == [0, zero, cells.count - 1]
    assert cells.widths[1:-1].sum() == 1_501 - 3  # numbers, without both ends and 0
    truth = cells.widths * 10.0
    truth[zero] = 5_000.0
    found = smoothed(truth + 20 * np.random.default_rng(2).normal(size=len(truth)), 20.0, cells.widths)
    assert found[zero] == pytest.approx(5_000, rel=0.02)
    others = np.delete(found / np.maximum(cells.widths, 1), [0, zero, cells.count - 1])
    assert np.abs(others - 10).max() < 3  # by its width, a narrow cell beside 0 has as much as all others


def test_noise_alone_gives_counts_above_nothing() -> None:
    for seed in range(20):
        found = smoothed(100 * np.random.default_rng(seed).normal(size=CELLS), 100.0)
        assert np.isfinite(found).all()
        assert found.min() > 0
    assert smoothed(np.full(CELLS, -1e3), 1.0).max() < 1


def test_the_minimum_is_that_of_another_method() -> None:
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(8, 8)) / 10
    rough = np.diff(np.eye(8), n=2, axis=0)
    problem = _Problem(50 + 20 * rng.normal(size=8), factor @ factor.T, rough, np.zeros(6), np.full(8, 3.0))
    for strength in (100.0, 1.0, 0.01):
        ours = problem.solve(np.full(8, 3.0), strength)
        theirs = minimize(problem.objective, np.full(8, 3.0), (strength,), method="BFGS")
        assert problem.objective(ours, strength) == pytest.approx(theirs.fun, abs=0.01)


def test_the_precision_is_the_inverse_of_the_covariance() -> None:
    blocks = np.array([0, 0, 1, 1, 1, 2])
    fine, coarse = 9.0, 4.0
    onto = (blocks == np.arange(3)[:, None]).astype(float)
    column = NoisyColumn.of([Level(blocks, np.ones(3), coarse), Level(np.arange(6), np.ones(6), fine)])
    np.testing.assert_allclose(column.precision(), np.eye(6) / fine + onto.T @ onto / coarse, atol=1e-12)
    alone = NoisyColumn.of([Level(np.arange(6), np.ones(6), fine)])
    np.testing.assert_allclose(alone.precision(), np.eye(6) / fine)
