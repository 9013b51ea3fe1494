import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gape.core.errors import InputError
from gape.core.types import Points
from gape.metrics import balls, classical_recall, coverage, density, neighbours, precision, recall
from gape.metrics.neighbours import neighbour_squares
from metrics.pairs import all_distances, random_pair

SEEDS = [seed for seed in range(120) if min(map(len, random_pair(seed))) > 4]


def by_definition(real: Points, synthetic: Points, k: int) -> dict[str, float]:
    def radii(points: Points) -> list[float]:
        return [sorted(np.delete(row, i))[k - 1] for i, row in enumerate(all_distances(points, points))]

    between = all_distances(real, synthetic)
    n, m = between.shape
    around_real = [[between[i, j] <= radius for j in range(m)] for i, radius in enumerate(radii(real))]
    around_synthetic = [[between[i, j] <= radius for i in range(n)] for j, radius in enumerate(radii(synthetic))]
    return {
        "precision": sum(any(row[j] for row in around_real) for j in range(m)) / m,
        "recall": sum(any(row) for row in around_real) / n,
        "classical": sum(any(row[i] for row in around_synthetic) for i in range(n)) / n,
        "density": sum(map(sum, around_real)) / (k * m),
    }


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_are_what_their_definitions_say(seed: int, k: int) -> None:
    real, synthetic = random_pair(seed)
    expected = by_definition(real, synthetic, k)
    assert precision(real, synthetic, k) == pytest.approx(expected["precision"], rel=1e-12)
    assert recall(real, synthetic, k) == pytest.approx(expected["recall"], rel=1e-12)
    assert coverage(real, synthetic, k) == pytest.approx(expected["recall"], rel=1e-12)
    assert density(real, synthetic, k) == pytest.approx(expected["density"], rel=1e-12)
    assert classical_recall(real, synthetic, k) == pytest.approx(expected["classical"], rel=1e-12)


def exact_squares(points: Points, k: int) -> list[list[float]]:
    """By the definition, summed in float64 in the order of the coordinates."""
    wide = points.astype(np.float64)
    rows = [np.cumsum((wide - x) ** 2, axis=1)[:, -1] for x in wide]
    return [sorted(np.delete(row, i))[:k] for i, row in enumerate(rows)]


def crowd(kind: str) -> Points:
    rng = np.random.default_rng(0)
    if kind == "a hair apart":  # closer than float32 products can tell, and more of them than are kept
        points = 100 + np.repeat(rng.standard_normal((30, 20)), 40, axis=0) + 1e-5 * rng.standard_normal((1200, 20))
    elif kind == "lattice":
        points = rng.integers(0, 4, (1500, 3)).astype(np.float64)
    elif kind == "duplicates":
        points = np.repeat(rng.standard_normal((60, 9)), 25, axis=0)
    elif kind == "far from zero":
        points = 1e4 + rng.standard_normal((1000, 5))
    else:
        points = rng.standard_normal((1100, 40))
    return rng.permutation(points).astype(np.float32)


class TestNeighbours:
    @pytest.mark.parametrize("kind", ["cloud", "a hair apart", "lattice", "duplicates", "far from zero"])
    @pytest.mark.parametrize("k", [1, 3, 30])
    def test_are_those_of_the_definition_to_the_last_bit(self, kind: str, k: int) -> None:
        points = crowd(kind)
        assert neighbour_squares(points, k).tolist() == exact_squares(points, k)

    def test_rows_that_rounding_leaves_open_are_met(self, monkeypatch: pytest.MonkeyPatch) -> None:
        met: list[int] = []
        whole = neighbours._keep_exact

        def watched(products: Points, *rest: object) -> None:
            met.append(len(products))
            whole(products, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(neighbours, "_keep_exact", watched)
        neighbour_squares(crowd("a hair apart"), 3)
        assert sum(met) > 0

    @given(st.data())
    def test_ties_and_duplicates_count_by_index(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(2, 40))
        points = data.draw(arrays(np.float32, (n, 2), elements=st.integers(-2, 2).map(float)))
        k = data.draw(st.integers(1, n - 1))
        assert neighbour_squares(points, k).tolist() == exact_squares(points, k)

    def test_of_all_ranks_up_to_the_last(self) -> None:
        points = crowd("cloud")[:20]
        assert neighbour_squares(points, 19).tolist() == exact_squares(points, 19)


def test_blocks_do_not_show() -> None:
    rng = np.random.default_rng(1)
    real = rng.standard_normal((2500, 12), dtype=np.float32)
    synthetic = np.concatenate([real[:300], rng.standard_normal((1100, 12), dtype=np.float32)])
    (score,) = balls(real, synthetic, 3)
    own = all_distances(real, real)
    np.fill_diagonal(own, np.inf)
    inside = all_distances(real, synthetic) <= np.sort(own, axis=1)[:, [2]]
    assert score.precision == inside.any(axis=0).mean()
    assert score.recall == inside.any(axis=1).mean()
    assert score.density == pytest.approx(inside.sum() / (3 * len(synthetic)), rel=1e-12)


def test_points_exactly_on_a_sphere_are_inside() -> None:
    real = [[0.0], [1.0], [2.0], [3.0]]
    assert recall(real, [[-1.0]], k=1) == 0.25
    assert recall(real, [[np.nextafter(np.float32(-1), np.float32(-2))]], k=1) == 0.0


def test_a_duplicate_is_another_point_with_another_index() -> None:
    real = [[0.0], [0.0], [0.0], [5.0], [9.0]]
    # The first three have balls of radius zero at k = 2, which hold only what is on the spot.
    assert recall(real, [[0.0]], k=2) == 1.0
    assert recall(real, [[0.01]], k=2) == 0.4


class TestTheTrapOfTheClassicalRecall:
    """The paper's sanity check: points extremely far away must not look like good recall."""

    def test_two_far_points_score_near_one_there_and_zero_here(self) -> None:
        real = np.random.default_rng(0).standard_normal((500, 8))
        far = np.full((2, 8), 1e6) * [[1], [-1]]
        # Each ball reaches to the other point, so that only the data between them can be outside of both.
        assert classical_recall(real, far, k=1) > 0.99
        assert recall(real, far, k=1) == 0.0
        assert precision(real, far, k=1) == 0.0

    @pytest.mark.parametrize("k", [3, 5])
    def test_so_do_k_plus_one(self, k: int) -> None:
        real = np.random.default_rng(0).standard_normal((500, 8))
        far = 1e6 * np.random.default_rng(1).standard_normal((k + 1, 8))
        assert classical_recall(real, far, k) > 0.99
        assert recall(real, far, k) == 0.0


class TestTheNumberOfNeighbours:
    @pytest.mark.parametrize("k", [0, -1, 4, 5])
    @pytest.mark.parametrize("metric", [precision, recall, density, coverage])
    def test_must_leave_another_real_point(self, metric: type, k: int) -> None:
        with pytest.raises(InputError, match=rf"k must be at least 1 and below the number of real.* k = {k} and 4"):
            metric(np.eye(4), np.eye(4)[:1], k)

    @pytest.mark.parametrize("k", [0, 2, 3])
    def test_must_leave_another_synthetic_one_for_the_classical_recall(self, k: int) -> None:
        with pytest.raises(InputError, match=rf"below the number of synthetic points.* k = {k} and 2"):
            classical_recall(np.eye(4), np.eye(4)[:2], k)

    def test_is_kept_with_the_scores(self) -> None:
        real, synthetic = crowd("cloud")[:100], crowd("cloud")[100:150]
        assert [score.k for score in balls(real, synthetic, 3, 5)] == [3, 5]
        assert balls(real, synthetic, 3, 5)[0] == balls(real, synthetic, 3)[0]
