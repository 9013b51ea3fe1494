import re

import numpy as np
import pytest

from contracts.generator import VectorGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.core.types import Floats, Points
from gape.embedders.identity import IdentityEmbedder
from gape.generators.vectors import GaussianGenerator, SnakingPath, StartFromBox, StartFromSet

BOX = StartFromBox((-1.0, 0.0, 2.0), (1.0, 0.5, 5.0))
SET = StartFromSet(np.arange(40, dtype=np.float32).reshape(20, 2))


class TestIsotropic(VectorGeneratorContract):
    def make(self) -> Generator:
        return GaussianGenerator.isotropic(BOX, 3)


class TestDiagonal(VectorGeneratorContract):
    def make(self) -> Generator:
        return GaussianGenerator.diagonal(BOX, (1.0, 4.0, 0.0))


class TestLowRank(VectorGeneratorContract):
    def make(self) -> Generator:
        return GaussianGenerator.low_rank(SET, np.array([[1.0], [2.0]]))


class TestSnaking(VectorGeneratorContract):
    def make(self) -> Generator:
        return SnakingPath(start_at=11.0, spacing=0.3)


def steps(generator: Generator, at: list[float], scale: float) -> Floats:
    """Return 40,000 independent steps from one point, (40000, d)."""
    samples = np.tile(np.array(at, dtype=np.float32), (40_000, 1))
    varied = generator.vary(samples, np.full(len(samples), scale), np.random.default_rng(0))
    return np.asarray(varied - samples, dtype=np.float64)


def check_moments(drawn: Floats, covariance: Floats) -> None:
    """Check mean zero and the covariance, within five standard deviations and the rounding to float32."""
    count, variances = len(drawn), np.diag(covariance)
    assert np.all(np.abs(drawn.mean(axis=0)) <= 5 * np.sqrt(variances / count) + 1e-6)
    allowed = 5 * np.sqrt((np.outer(variances, variances) + covariance**2) / count) + 1e-6
    assert np.all(np.abs(drawn.T @ drawn / count - covariance) <= allowed)


class TestGaussianGenerator:
    @pytest.mark.parametrize("scale", [0.04, 1.0, 9.0])
    @pytest.mark.parametrize("dimension", [1, 2, 5])
    def test_isotropic(self, dimension: int, scale: float) -> None:
        drawn = steps(GaussianGenerator.isotropic(BOX, dimension), [0.5] * dimension, scale)
        check_moments(drawn, scale / dimension * np.eye(dimension))
        assert np.sum(drawn.var(axis=0)) == pytest.approx(scale, rel=0.05)

    def test_diagonal(self) -> None:
        drawn = steps(GaussianGenerator.diagonal(BOX, (1.0, 3.0, 4.0)), [1.0, -2.0, 0.0], 2.0)
        check_moments(drawn, np.diag([0.25, 0.75, 1.0]))

    def test_diagonal_never_moves_a_coordinate_without_variance(self) -> None:
        drawn = steps(GaussianGenerator.diagonal(BOX, (1.0, 0.0, 2.0)), [0.1, 0.7, -3.3], 5.0)
        assert np.all(drawn[:, 1] == 0)
        assert np.sum(drawn.var(axis=0)) == pytest.approx(5.0, rel=0.05)

    @pytest.mark.parametrize("rank", [1, 2, 4])
    def test_low_rank_stays_in_the_affine_span_and_fills_it_evenly(self, rank: int) -> None:
        basis = np.random.default_rng(1).standard_normal((4, rank)) * np.logspace(0, 2, rank)
        drawn = steps(GaussianGenerator.low_rank(BOX, basis), [0.0] * 4, 3.0)
        left, _, _ = np.linalg.svd(basis)
        np.testing.assert_allclose(drawn @ left[:, rank:], 0, atol=1e-5)
        check_moments(drawn @ left[:, :rank], 3.0 / rank * np.eye(rank))

    def test_low_rank_with_dependent_columns_stays_in_their_span(self) -> None:
        line = np.array([1.0, 2.0, -2.0]) / 3
        basis = np.stack([line, 2 * line, 0 * line], axis=1)
        drawn = steps(GaussianGenerator.low_rank(BOX, basis), [0.0] * 3, 4.0)
        np.testing.assert_allclose(drawn, np.outer(drawn @ line, line), atol=1e-5)
        assert np.var(drawn @ line) == pytest.approx(4.0, rel=0.05)

    def test_any_factor_is_scaled_to_total_variance_s2(self) -> None:
        factor = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
        drawn = steps(GaussianGenerator(BOX, factor), [0.0] * 3, 0.6)
        check_moments(drawn, 0.6 * factor @ factor.T / np.sum(factor**2))

    def test_random_is_the_start(self) -> None:
        expected = BOX.random(8, np.random.default_rng(2))
        drawn = GaussianGenerator.isotropic(BOX, 3).random(8, np.random.default_rng(2))
        np.testing.assert_array_equal(drawn, expected)

    def test_errors(self) -> None:
        with pytest.raises(InputError, match=re.escape("numbers of at least 0, got (1.0, -2.0)")):
            GaussianGenerator.diagonal(BOX, (1.0, -2.0))
        still = GaussianGenerator.diagonal(BOX, (0.0, 0.0))
        with pytest.raises(InputError, match="must not be zero"):
            still.vary(np.zeros((1, 2), dtype=np.float32), np.ones(1), np.random.default_rng(0))
        flat = GaussianGenerator.low_rank(BOX, np.zeros((3, 2)))
        with pytest.raises(InputError, match="must not be zero"):
            flat.vary(np.zeros((1, 3), dtype=np.float32), np.ones(1), np.random.default_rng(0))


class TestStarts:
    def test_a_set_gives_itself_where_all_of_it_is_asked_for(self) -> None:
        drawn = SET.random(20, np.random.default_rng(0))
        np.testing.assert_array_equal(drawn, SET.points)
        assert not np.shares_memory(drawn, SET.points)

    def test_a_set_gives_distinct_points_while_they_last(self) -> None:
        for seed in range(10):
            drawn = SET.random(12, np.random.default_rng(seed))
            assert len(np.unique(drawn, axis=0)) == 12
            assert {tuple(row) for row in drawn} <= {tuple(row) for row in SET.points}

    def test_a_set_gives_more_than_it_has_by_repeating(self) -> None:
        drawn = SET.random(50, np.random.default_rng(0))
        assert drawn.shape == (50, 2)
        assert {tuple(row) for row in drawn} <= {tuple(row) for row in SET.points}

    def test_a_set_is_drawn_from_evenly(self) -> None:
        firsts = [SET.random(1, np.random.default_rng(seed))[0, 0] / 2 for seed in range(2_000)]
        counts = np.bincount(np.array(firsts, dtype=np.int64), minlength=20)
        assert np.all(np.abs(counts - 100) < 5 * np.sqrt(95))

    def test_a_set_of_any_precision_gives_float32(self) -> None:
        assert StartFromSet(np.array([[1, 2], [3, 4]])).random(1, np.random.default_rng(0)).dtype == np.float32

    def test_a_box_is_filled_uniformly(self) -> None:
        drawn = BOX.random(20_000, np.random.default_rng(0)).astype(np.float64)
        low, high = np.array(BOX.low), np.array(BOX.high)
        assert np.all((drawn >= low) & (drawn <= high))
        unit = (drawn - low) / (high - low)
        assert np.all(np.abs(unit.mean(axis=0) - 0.5) < 5 * np.sqrt(1 / 12 / 20_000))
        assert np.all(np.abs(unit.var(axis=0) - 1 / 12) < 5 * np.sqrt(1 / 180 / 20_000))

    @pytest.mark.parametrize(("low", "high"), [((0.0, 1.0), (1.0, 1.0)), ((0.0,), (1.0, 1.0)), ((2.0,), (1.0,))])
    def test_a_box_needs_room(self, low: tuple[float, ...], high: tuple[float, ...]) -> None:
        with pytest.raises(InputError, match=re.escape(f"got {low} and {high}")):
            StartFromBox(low, high).random(1, np.random.default_rng(0))


PATHS = [
    SnakingPath(),
    SnakingPath(segments=1),
    SnakingPath(segments=7, height=0.3, gap=0.1),
    SnakingPath(segments=100, height=2.0, gap=0.1),  # x far from zero: float32 is coarse beside the gap
    SnakingPath(segments=3, height=0.01, gap=5.0),
    SnakingPath(segments=40, height=1 / 3, gap=1 / 7),
]


def float32_steps(path: SnakingPath) -> float:
    """What rounding a point on this path to float32 can move it, a few times over."""
    return 4 * float(np.spacing(np.float32(path.segments * path.gap + path.height)))


def special_arcs(path: SnakingPath) -> Floats:
    """Arc lengths at every corner, a hair before and after it, and between."""
    period = path.height + path.gap
    bottoms = period * np.arange(path.segments)
    corners = np.concatenate([bottoms, bottoms + path.height])
    near = [corners + sign * 10.0**-power for sign in (-1, 1) for power in range(2, 12)]
    between = np.linspace(0, path.length, 2_001)
    arcs: Floats = np.clip(np.concatenate([corners, *near, between]), 0, path.length)
    return arcs


def off_the_path(path: SnakingPath, points: Points) -> Floats:
    """Return the distance from each point to the nearest segment or joint, (n,)."""
    corners = [(0.0, 0.0)]
    for segment in range(path.segments):
        end = path.height if segment % 2 == 0 else 0.0
        corners += [(segment * path.gap, end), ((segment + 1) * path.gap, end)]
    corner = np.array(corners[:-1])
    start, along = corner[:-1], np.diff(corner, axis=0)
    offset = points.astype(np.float64)[:, None, :] - start
    share = np.clip(np.sum(offset * along, axis=2) / np.sum(along**2, axis=1), 0, 1)
    away: Floats = np.linalg.norm(offset - share[:, :, None] * along, axis=2).min(axis=1)
    return away


@pytest.mark.parametrize("path", PATHS, ids=str)
class TestSnakingPath:
    def test_arc_inverts_at_everywhere(self, path: SnakingPath) -> None:
        arcs = special_arcs(path)
        np.testing.assert_allclose(path.arc(path.at(arcs)), arcs, rtol=0, atol=float32_steps(path))

    def test_at_inverts_arc_everywhere(self, path: SnakingPath) -> None:
        points = path.at(special_arcs(path))
        np.testing.assert_allclose(path.at(path.arc(points)), points, rtol=0, atol=float32_steps(path))

    def test_every_point_lies_on_the_path(self, path: SnakingPath) -> None:
        assert off_the_path(path, path.at(special_arcs(path))).max() <= float32_steps(path)

    def test_the_path_is_continuous_and_runs_at_unit_speed(self, path: SnakingPath) -> None:
        arcs = np.sort(special_arcs(path))
        points = path.at(arcs).astype(np.float64)
        taxicab = np.abs(np.diff(points, axis=0)).sum(axis=1)  # it turns by right angles only
        np.testing.assert_allclose(taxicab, np.diff(arcs), rtol=0, atol=2 * float32_steps(path))

    def test_the_ends_are_clipped(self, path: SnakingPath) -> None:
        ends = path.at(np.array([0.0, path.length]))
        np.testing.assert_array_equal(path.at(np.array([-3.0, path.length + 3.0])), ends)
        np.testing.assert_array_equal(ends[0], [0, 0])
        top = path.height if path.segments % 2 else 0.0
        np.testing.assert_allclose(ends[1], [(path.segments - 1) * path.gap, top], rtol=1e-6, atol=1e-6)

    def test_variations_stay_on_the_path(self, path: SnakingPath) -> None:
        rng = np.random.default_rng(0)
        points = path.at(rng.uniform(0, path.length, 3_000))
        for scale in (1e-4, 1.0, 1.0, 100.0):
            points = path.vary(points, np.full(len(points), scale), rng)
            assert off_the_path(path, points).max() <= float32_steps(path)

    def test_steps_have_variance_s2_in_arc_length(self, path: SnakingPath) -> None:
        middle = path.at(np.full(20_000, path.length / 2))
        scale = (path.length / 20) ** 2  # ten deviations from either end
        moved = path.arc(path.vary(middle, np.full(len(middle), scale), np.random.default_rng(1))) - path.length / 2
        assert abs(moved.mean()) < 5 * np.sqrt(scale / 20_000)
        assert moved.var() == pytest.approx(scale, rel=0.05)


class TestSnakingStart:
    def test_samples_follow_each_other_along_the_path(self) -> None:
        path = SnakingPath(start_at=3.0, spacing=0.75)
        drawn = path.random(6, np.random.default_rng(0))
        np.testing.assert_allclose(path.arc(drawn), 3.0 + 0.75 * np.arange(6), atol=1e-5)

    def test_by_default_all_start_at_the_beginning(self) -> None:
        np.testing.assert_array_equal(SnakingPath().random(3, np.random.default_rng(0)), np.zeros((3, 2)))

    def test_it_winds(self) -> None:
        path = SnakingPath(segments=3, height=4.0, gap=1.0)
        drawn = path.at(np.array([0, 2, 4, 4.5, 5, 7, 9, 9.5, 10, 14]))
        expected = [[0, 0], [0, 2], [0, 4], [0.5, 4], [1, 4], [1, 2], [1, 0], [1.5, 0], [2, 0], [2, 4]]
        np.testing.assert_array_equal(drawn, np.array(expected, dtype=np.float32))


def test_the_identity_embedder_gives_contiguous_float32_rows() -> None:
    samples = np.arange(12.0).reshape(3, 4).T
    points = IdentityEmbedder().embed(samples)
    assert points.dtype == np.float32
    assert points.flags.c_contiguous
    np.testing.assert_array_equal(points, samples)
