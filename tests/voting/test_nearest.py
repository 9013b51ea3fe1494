import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from gape.core.errors import InputError
from gape.core.types import Points
from gape.voting import nearest as module
from gape.voting.field import distinct_rows, field_of, tiles
from gape.voting.nearest import check_points, check_widths, nearest, nearest_votes, reference_nearest

COARSE = st.integers(-2, 2).map(float)  # ties everywhere
FINE = st.floats(-100, 100, width=32)
WILD = st.floats(-(2.0**50), 2.0**50, width=32)  # norms that differ by many orders, and subnormals


@st.composite
def sides(draw: st.DrawFn) -> tuple[Points, Points]:
    """Private points (n, d) and candidates (v, d)."""
    d = draw(st.integers(1, 5))
    elements = draw(st.sampled_from([COARSE, FINE, WILD]))
    private, candidates = (draw(arrays(np.float32, (draw(st.integers(1, 12)), d), elements=elements)) for _ in range(2))
    return private, candidates


def gaussian(shape: tuple[int, int], seed: int = 0) -> Points:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def lattice(d: int) -> Points:
    return np.array(list(itertools.product([-1, 0, 1], repeat=d)), dtype=np.float32)


@given(sides(), st.integers(1, 3), st.integers(1, 15))
@settings(max_examples=300)
def test_equals_the_reference_whatever_the_blocks_and_threads(
    points: tuple[Points, Points], threads: int, side: int
) -> None:
    private, candidates = points
    expected = reference_nearest(private, candidates)
    np.testing.assert_array_equal(module._nearest(private, candidates, threads=threads, side=side), expected)
    np.testing.assert_array_equal(nearest(private, candidates), expected)


def test_votes_count_the_winners() -> None:
    private, candidates = gaussian((500, 6)), gaussian((40, 6), seed=1)
    votes = nearest_votes(private, candidates)
    assert votes.dtype == np.int64
    assert votes.shape == (40,)
    assert votes.sum() == 500
    np.testing.assert_array_equal(votes, np.bincount(reference_nearest(private, candidates), minlength=40))


def test_the_reference_on_a_case_worked_by_hand() -> None:
    private = np.array([[0, 0], [3, 0], [1, 0], [9, 9]], dtype=np.float32)
    candidates = np.array([[2, 0], [0, 0], [2, 0], [9, 8]], dtype=np.float32)
    assert reference_nearest(private, candidates).tolist() == [1, 0, 0, 3]
    assert nearest_votes(private, candidates).tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize(("n", "v", "d"), [(1, 1, 1), (1, 50, 3), (50, 1, 3), (60, 70, 1), (300, 200, 100)])
def test_shapes(n: int, v: int, d: int) -> None:
    private, candidates = gaussian((n, d)), gaussian((v, d), seed=1)
    np.testing.assert_array_equal(nearest(private, candidates), reference_nearest(private, candidates))


@pytest.mark.parametrize("side", [1, 7, 64, 1000])
def test_equal_candidates_vote_for_the_first(side: int) -> None:
    distinct = gaussian((50, 8))
    drawn = np.random.default_rng(1).integers(50, size=400)
    candidates = distinct[drawn]
    winners = module._nearest(distinct, candidates, threads=2, side=side)
    np.testing.assert_array_equal(winners, reference_nearest(distinct, candidates))
    present = np.unique(drawn)
    assert winners[present].tolist() == [drawn.tolist().index(j) for j in present]


def test_equal_candidates_are_compared_once() -> None:
    candidates = np.repeat(gaussian((3, 4)), 1000, axis=0)
    assert distinct_rows(candidates).tolist() == [0, 1000, 2000]


def test_negative_zero_ties_with_zero() -> None:
    candidates = np.array([[-0.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    assert nearest(candidates[::-1], candidates).tolist() == [0, 0]


@pytest.mark.parametrize("side", [5, 64, 1000])
def test_lattice_points_with_many_ties(side: int) -> None:
    candidates = lattice(4)[np.random.default_rng(0).permutation(81)]
    private = np.concatenate([lattice(4) / 2, np.zeros((20, 4), dtype=np.float32)])
    winners = module._nearest(private, candidates, threads=2, side=side)
    np.testing.assert_array_equal(winners, reference_nearest(private, candidates))


def test_private_points_equidistant_from_all_candidates() -> None:
    candidates = np.eye(300, dtype=np.float32)
    private = np.full((200, 300), 0.25, dtype=np.float32)
    assert nearest_votes(private, candidates)[0] == 200


def test_candidates_that_differ_in_the_last_bit() -> None:
    private = gaussian((40, 64))
    near = private + np.float32(0.01) * gaussian((40, 64), seed=1)
    columns = np.random.default_rng(2).integers(64, size=(2, 40))
    nudged = [near.copy() for _ in columns]
    for candidates, k in zip(nudged, columns, strict=True):
        rows = np.arange(40)
        candidates[rows, k] = np.nextafter(candidates[rows, k], np.float32(9))
    candidates = np.concatenate([near, *nudged])
    winners = nearest(private, candidates)
    np.testing.assert_array_equal(winners, reference_nearest(private, candidates))
    assert np.unique(winners // 40).tolist() == [0, 1, 2]  # no copy wins always


@pytest.mark.parametrize("offsets", [[1e4], [-1e4, 1e4], [1e9, 0]])
def test_points_far_from_the_origin_and_close_together(offsets: list[float]) -> None:
    offset = np.resize(np.array(offsets), 200)[:, None]
    private, candidates = ((offset + 0.01 * gaussian((200, 16), seed=seed)).astype(np.float32) for seed in range(2))
    np.testing.assert_array_equal(nearest(private, candidates), reference_nearest(private, candidates))


@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e-12, 1e16])
def test_tiny_and_huge_scales(scale: float) -> None:
    private, candidates = ((scale * gaussian((60, 9), seed=seed)).astype(np.float32) for seed in range(2))
    np.testing.assert_array_equal(nearest(private, candidates), reference_nearest(private, candidates))


def test_records_so_far_away_that_float64_itself_sees_ties() -> None:
    private = (1e9 * gaussian((50, 7))).astype(np.float32)
    candidates = (1e-6 * gaussian((60, 7), seed=1)).astype(np.float32)
    expected = reference_nearest(private, candidates)
    true = (private.astype(np.float64) @ candidates.astype(np.float64).T).argmax(axis=1)
    assert (expected != true).any()
    np.testing.assert_array_equal(nearest(private, candidates), expected)


def test_one_distant_candidate_leaves_the_others_decided() -> None:
    private, candidates = gaussian((400, 32)), gaussian((300, 32), seed=1)
    candidates[7] *= 100
    field = field_of(candidates, side=300)
    _, _, is_open = module._lead_block(private, field, side=300)
    assert is_open.mean() < 0.05
    np.testing.assert_array_equal(nearest(private, candidates), reference_nearest(private, candidates))


def test_the_bounds_enclose_the_true_scores() -> None:
    private, candidates = gaussian((100, 500)) + 3, gaussian((80, 500), seed=1) + 3
    field = field_of(candidates, side=80)
    centre = field.centre.astype(np.float64)
    a, b = private - centre, candidates - centre
    true = a @ b.T - (b**2).sum(axis=1) / 2
    A = private - field.centre
    ((_, products),) = tiles(A, field, side=80)
    reach = np.linalg.norm(a, axis=1)[:, None]
    upper = products + reach * field.slope + field.shift
    assert (upper >= true).all()
    assert (upper - 2 * (reach * field.slope + field.blur) <= true).all()


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.astype(np.float64),
        lambda a: a.astype(np.int16),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: np.repeat(a, 2, axis=0)[::2],
    ],
)
def test_other_types_and_layouts(convert: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    private, candidates = (np.rint(10 * gaussian((70, 5), seed=seed)) for seed in range(2))
    expected = reference_nearest(private, candidates)
    np.testing.assert_array_equal(nearest(convert(private), convert(candidates)), expected)


def test_float64_is_rounded_to_float32_first() -> None:
    candidates = np.array([[1 + 1e-12], [1.0]])
    assert nearest(np.array([[1.0]]), candidates).tolist() == [0]


def test_checked_points_are_not_copied_when_they_are_right() -> None:
    points = gaussian((3, 2))
    assert check_points(points, "points") is points
    converted = check_points(points.astype(np.float64)[:, ::-1], "points")
    assert converted.dtype == np.float32
    assert converted.flags.c_contiguous


def test_inputs_are_left_as_they_were() -> None:
    private, candidates = gaussian((30, 4)), gaussian((20, 4), seed=1)
    before = private.copy(), candidates.copy()
    private.flags.writeable = candidates.flags.writeable = False
    nearest(private, candidates)
    np.testing.assert_array_equal(private, before[0])
    np.testing.assert_array_equal(candidates, before[1])


def test_calls_at_once_agree_and_restore_the_threads_of_the_blas() -> None:
    def blas_threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert set(before) == {2}
        private, candidates = gaussian((300, 16)), gaussian((200, 16), seed=1)
        results: list[NDArray[np.int64]] = []
        workers = [threading.Thread(target=lambda: results.append(nearest(private, candidates))) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(results) == 4
        assert all((result == reference_nearest(private, candidates)).all() for result in results)
        assert blas_threads() == before


SECRET = 12345.678
GOOD = np.ones((2, 2), dtype=np.float32)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.full(3, SECRET),
            r"P must be 2-D \(points, dimensions\), got shape \(3,\); reshape them",
        ),
        (
            np.zeros((0, 2)),
            r"P must not be empty, got shape \(0, 2\); give at least one row and column",
        ),
        (
            np.zeros((2, 0)),
            r"P must not be empty, got shape \(2, 0\); give at least one row and column",
        ),
        (
            np.array([[SECRET, np.nan]]),
            "P contain NaN or infinite values as float32; remove or correct those rows",
        ),
        (
            np.array([[SECRET, 0], [-np.inf, 0]]),
            "P contain NaN or infinite values as float32; remove or correct those rows",
        ),
        (
            np.array([[SECRET * 1e295, 0]]),
            "P contain NaN or infinite values as float32; remove or correct those rows",
        ),
        (
            np.array([[SECRET * 1e15, 0]]),
            r"P must have norms below 1e\+18, got larger ones; rescale all points alike",
        ),
        (
            np.array([[SECRET * 1e30, 0]]),
            r"P must have norms below 1e\+18, got larger ones; rescale all points alike",
        ),
        (
            np.array([[SECRET, None]], dtype=object),
            "P must be real numbers, got dtype object; convert them to float32",
        ),
        (
            np.array([[str(SECRET)]]),
            "P must be real numbers, got dtype <U9; convert them to float32",
        ),
        (
            np.array([[SECRET + 1j]]),
            "P must be real numbers, got dtype complex128; convert them to float32",
        ),
        (
            np.broadcast_to(np.float32(SECRET), (1, 2**20 + 1)),
            r"P must have at most 1048576 columns, got shape \(1, 1048577\); reduce their dimension",
        ),
    ],
)
def test_refusals_name_the_rule_and_no_value(array: NDArray[Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$") as refusal:
        check_points(array, "P")
    assert "12345" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None
    for function in (nearest, nearest_votes):
        with pytest.raises(InputError, match=f"^{message.replace('P', 'private embeddings', 1)}$"):
            function(array, GOOD)
        with pytest.raises(InputError, match=f"^{message.replace('P', 'candidate embeddings', 1)}$"):
            function(GOOD, array)


def test_different_widths_are_refused() -> None:
    message = (
        "^private and candidate embeddings must have the same width, got 3 and 2; embed both with the same embedder$"
    )
    with pytest.raises(InputError, match=message):
        check_widths(np.ones((5, 3), dtype=np.float32), GOOD)
    with pytest.raises(InputError, match=message):
        nearest_votes(np.full((5, 3), SECRET), GOOD)
