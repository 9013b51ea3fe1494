import importlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from gape.core.errors import InputError
from gape.selection.flow import simplex as flow
from gape.selection.flow.blocked import BlockedSearch
from gape.selection.flow.effort import SearchProgress
from gape.selection.flow.objective import flow_cost, signed_points
from gape.selection.flow.search import Search
from gape.selection.local_search import Gape, LocalSearchResult, local_search
from gape.selection.reference import improving_swap, reference_flow_cost, reference_flow_costs, reference_local_search

INF = float("inf")


def certify(instance: strategies.Instance, size: int, threshold: float) -> LocalSearchResult:
    """Run the search and check all it promises, by linear programs."""
    points, weights, separation = instance.points, instance.weights, instance.separation
    result = local_search(points, weights, size, separation=separation, threshold=threshold)
    above = np.flatnonzero(weights > threshold)
    assert result.certified
    assert result.candidates == len(above)
    assert result.indices.dtype == np.int64
    expected = reference_flow_cost(points, weights, result.indices, separation)
    assert result.cost == pytest.approx(expected, rel=1e-9, abs=instance.rounding), instance
    if not len(above) or instance.total < 0:
        np.testing.assert_array_equal(result.indices, [np.argmax(weights)])
        return result
    assert len(set(result.indices.tolist())) == len(result.indices) == min(size, len(above))
    assert np.all(weights[result.indices] > threshold)
    start = above[np.argsort(-weights[above], kind="stable")][:size]
    assert result.cost <= flow_cost(points, weights, start, separation) * (1 + 1e-12)
    swap = improving_swap(points, weights, result.indices, separation=separation, threshold=threshold)
    assert swap is None, (swap, result, size, threshold, instance)
    return result


def certify_many(seed: int, count: int, fewest: int, most: int) -> tuple[int, int]:
    """Certify `count` random instances; return how many left something to search, and the swaps made."""
    rng = np.random.default_rng(seed)
    searched = swaps = 0
    for _ in range(count):
        instance = strategies.random_instance(rng, int(rng.integers(fewest, most + 1)), weightings=strategies.SIGNED)
        size = int(rng.integers(1, max(2, len(instance.weights) // 3)))
        threshold = float(rng.choice([0.0, 0.0, 1.0, -2.5]))
        result = certify(instance, size, threshold)
        searched += result.cost < INF and result.candidates > size
        swaps += result.swaps
    return searched, swaps


class TestBlocks:
    """The search for sets too large to hold, on sets small enough to check."""

    @pytest.mark.parametrize("memory", [0.0, 1e9], ids=["nothing kept", "all kept"])
    def test_no_swap_pays_at_the_flow_it_ends_with(self, memory: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gape.selection.flow.near.NEAR", 3)
        monkeypatch.setattr("gape.selection.flow.blocked._ROWS", 7)
        rng = np.random.default_rng(0)
        swaps = 0
        for _ in range(60):
            instance = strategies.random_instance(rng, 40, weightings=strategies.SIGNED)
            signed = signed_points(instance.points, instance.weights, instance.separation)
            above = np.flatnonzero(instance.weights > 0)
            if not signed.feasible or len(above) < 5:
                continue
            start = np.argsort(-instance.weights[above], kind="stable")[:4]
            search = BlockedSearch(signed, above, start, memory)
            search.run(certify=False)
            chosen, cost = search.best
            swaps += search.swaps
            expected = reference_flow_cost(instance.points, instance.weights, above[chosen], instance.separation)
            assert cost == pytest.approx(expected, rel=2e-7, abs=instance.rounding)  # distances in float32
            held = flow.root_flow(search.net)
            distances = signed.costs(above, signed.sources)
            least = held @ distances[chosen].min(axis=0)
            for slot in range(4):
                for candidate in set(range(len(above))) - set(chosen.tolist()):
                    swapped = np.append(np.delete(chosen, slot), candidate)
                    assert held @ distances[swapped].min(axis=0) >= least - 1e-6 * max(cost, 1.0)
        assert swaps > 30

    def test_the_memory_decides_and_the_result_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(1)
        points = rng.normal(size=(300, 3)).astype(np.float32)
        votes = rng.integers(-3, 9, 300)
        precise = local_search(points, votes, 20, separation=INF, threshold=0.0)
        assert precise.method == "float64"
        monkeypatch.setattr(importlib.import_module("gape.selection.local_search"), "_SMALL", 100)
        results = {
            memory: local_search(points, votes, 20, separation=INF, threshold=0.0, memory=memory)
            for memory in (4e9, 1e4)
        }
        assert [result.method for result in results.values()] == ["float32", "blocks"]
        assert [result.certified for result in results.values()] == [True, False]
        assert results[4e9].cost == pytest.approx(precise.cost, rel=1e-6)
        assert results[1e4].cost == pytest.approx(precise.cost, rel=0.1)  # another local optimum

    @pytest.mark.parametrize("memory", [0.0, 1e9], ids=["nothing kept", "all kept"])
    def test_without_negative_weights_it_is_certified(self, memory: float, monkeypatch: pytest.MonkeyPatch) -> None:
        module = importlib.import_module("gape.selection.local_search")
        monkeypatch.setattr(module, "_method", lambda *_: "blocks")
        monkeypatch.setattr("gape.selection.flow.blocked._ROWS", 7)
        rng = np.random.default_rng(2)
        swaps = 0
        for _ in range(20):
            points = rng.normal(size=(40, 3)).astype(np.float32)
            weights = np.maximum(rng.integers(-9, 20, 40), 0)
            result = local_search(points, weights, 5, separation=INF, threshold=0.0, memory=memory)
            assert (result.method, result.certified) == ("blocks", True)
            distances = np.linalg.norm(points[:, None].astype(np.float64) - points, axis=2)
            least = weights @ distances[result.indices].min(axis=0)  # a k-median, which needs no linear program
            assert result.cost == pytest.approx(least, rel=2e-7)  # distances in float32
            for slot, candidate in itertools.product(range(5), np.flatnonzero(weights > 0)):
                swapped = np.append(np.delete(result.indices, slot), candidate)
                assert weights @ distances[swapped].min(axis=0) >= least * (1 - 1e-6)
            swaps += result.swaps
        assert swaps > 20

    def test_costs_lie_row_by_row_as_kernels_read_them(self) -> None:
        points = np.random.default_rng(3).normal(size=(30, 4)).astype(np.float32)
        signed = signed_points(points, np.ones(30), INF)
        search = BlockedSearch(signed, np.arange(20), np.arange(3), 1e9)
        some = search.to_candidates(slice(4, 9), np.arange(0, 30, 2))
        assert some.flags.c_contiguous
        np.testing.assert_array_equal(some, signed.costs(np.arange(4, 9), np.arange(0, 30, 2), np.float32))


class TestNoSwapImproves:
    @pytest.mark.parametrize("seed", range(10))
    def test_small_instances(self, seed: int) -> None:
        searched, swaps = certify_many(seed, 60, fewest=6, most=20)
        assert searched > 35
        assert swaps > 6

    @pytest.mark.parametrize("seed", range(12))
    def test_large_instances(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        layout = strategies.LAYOUTS[seed % 4]
        weighting = ("integer", "noisy", "fractional")[seed % 3]
        separation = ("inf", "truncating")[seed // 6]
        instance = strategies.random_instance(
            rng, 40 + 2 * (seed % 11), layouts=(layout,), weightings=(weighting,), separations=(separation,)
        )
        result = certify(instance, 4 + seed % 4, threshold=0.0)
        assert result.candidates > 15
        assert 0 < result.cost < INF

    @given(strategies.instances(most=10), st.integers(1, 4), st.sampled_from([-100.0, -1.0, 0.0, 2.0]))
    @settings(max_examples=100, deadline=None)
    def test_instances_that_shrink(self, instance: strategies.Instance, size: int, threshold: float) -> None:
        certify(instance, size, threshold)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(100, 200))
    def test_many_more_small_instances(self, seed: int) -> None:
        certify_many(seed, 60, fewest=6, most=20)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(200, 230))
    def test_many_more_large_instances(self, seed: int) -> None:
        certify_many(seed, 4, fewest=40, most=60)


class TestAgainstTheReference:
    """Where there is nothing to search, the answer is one and the same; elsewhere both are local optima."""

    def check_same(self, weights: list[float], size: int, threshold: float) -> LocalSearchResult:
        points = np.random.default_rng(0).standard_normal((len(weights), 2)).astype(np.float32)
        w = np.array(weights)
        fast, slow = (
            search(points, w, size, separation=2.0, threshold=threshold)
            for search in (local_search, reference_local_search)
        )
        np.testing.assert_array_equal(fast.indices, slow.indices)
        assert fast.cost == pytest.approx(slow.cost, rel=1e-9)
        assert (fast.swaps, fast.certified, fast.candidates) == (slow.swaps, slow.certified, slow.candidates)
        return fast

    def test_nothing_above_the_threshold(self) -> None:
        result = self.check_same([1, 3, 2, 3, -1], size=2, threshold=3.0)
        assert result.indices.tolist() == [1]
        assert result.candidates == 0
        assert 0 < result.cost < INF

    def test_negative_total(self) -> None:
        result = self.check_same([1, -3, 2, -3, 1], size=2, threshold=0.0)
        assert result.indices.tolist() == [2]
        assert result.candidates == 3
        assert result.cost == INF

    def test_no_vote_at_all(self) -> None:
        assert self.check_same([0, 0, 0], size=2, threshold=0.0).indices.tolist() == [0]
        assert self.check_same([-1, -5, -1], size=2, threshold=0.0).indices.tolist() == [0]

    def test_no_vote_but_a_negative_threshold(self) -> None:
        result = self.check_same([0, 0, 0], size=2, threshold=-1.0)
        assert result.indices.tolist() == [0, 1]
        assert result.cost == 0

    def test_fewer_candidates_than_asked_for(self) -> None:
        result = self.check_same([4, -1, 9, 0, 9], size=4, threshold=0.0)
        assert result.indices.tolist() == [2, 4, 0]

    def test_as_many_candidates_as_asked_for(self) -> None:
        assert self.check_same([4, -1, 9, 0, 9], size=3, threshold=0.0).indices.tolist() == [2, 4, 0]

    def test_one_candidate(self) -> None:
        assert self.check_same([5], size=1, threshold=0.0).indices.tolist() == [0]

    def test_all_points_the_same(self) -> None:
        points = np.full((6, 2), 3.0, dtype=np.float32)
        weights = np.array([1, 5, -2, 5, 3, 0])
        for search in (local_search, reference_local_search):
            result = search(points, weights, 2, separation=1.0, threshold=0.0)
            assert result.indices.tolist() == [1, 3]
            assert (result.cost, result.swaps) == (0, 0)

    def test_size_one_with_positive_weights_is_the_best_of_all(self) -> None:
        # With one selected point every other candidate is a swap away: a local optimum is a global one.
        rng = np.random.default_rng(0)
        for _ in range(30):
            instance = strategies.random_instance(rng, 12, weightings=strategies.SIGNED)
            if instance.total < 0 or not np.any(instance.weights > 0):
                continue
            result = local_search(instance.points, instance.weights, 1, separation=instance.separation, threshold=0.0)
            costs = reference_flow_costs(
                [
                    (instance.points, instance.weights, np.array([z]), instance.separation)
                    for z in np.flatnonzero(instance.weights > 0)
                ]
            )
            assert result.cost == pytest.approx(min(costs), rel=1e-9, abs=instance.rounding)

    def test_well_separated_clusters_have_one_local_optimum(self) -> None:
        rng = np.random.default_rng(3)
        centres = 50 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
        points = (np.repeat(centres, 6, axis=0) + rng.standard_normal((24, 2))).astype(np.float32)
        weights = rng.integers(1, 9, 24)
        fast, slow = (
            search(points, weights, 4, separation=INF, threshold=0.0)
            for search in (local_search, reference_local_search)
        )
        assert sorted(fast.indices // 6) == [0, 1, 2, 3]
        assert set(fast.indices.tolist()) == set(slow.indices.tolist())
        assert fast.cost == pytest.approx(slow.cost, rel=1e-9)


class TestResult:
    def test_is_the_same_every_time(self) -> None:
        rng = np.random.default_rng(5)
        for _ in range(20):
            instance = strategies.random_instance(rng, 40, weightings=strategies.SIGNED)
            once, again = (
                local_search(
                    instance.points.copy(),
                    instance.weights.copy(),
                    6,
                    separation=instance.separation,
                    threshold=0.0,
                )
                for _ in range(2)
            )
            np.testing.assert_array_equal(once.indices, again.indices)
            assert (once.cost, once.swaps) == (again.cost, again.swaps)

    @pytest.mark.parametrize(
        ("rule", "fields"),
        [
            (Gape.paper(3.0, 1.5), "3.0, threshold=1.5|0.0, signed=True, noise=None, centres=1.0, distinct=False"),
            (Gape.without_memory(1.5), "inf, threshold=1.5|2.0, signed=False, noise=None, centres=0.5, distinct=False"),
            (
                Gape.without_memory(1.5, 80),
                "inf, threshold=1.5|2.5, signed=False, noise=None, centres=0.625, distinct=False",
            ),
            (Gape.for_corpus(1.5), "inf, threshold=inf|2.0, signed=False, noise=1.5, centres=1.0, distinct=False"),
        ],
    )
    def test_named_rules_are_described_as_run_folders_store_them(self, rule: Gape, fields: str) -> None:
        assert repr(rule) == f"Gape(separation={fields.replace('|', ', certify=None, spare=')})"

    def test_the_selector_is_the_function(self) -> None:
        instance = strategies.random_instance(np.random.default_rng(0), 30, layouts=("cloud",), weightings=("integer",))
        votes = instance.weights.astype(np.int64)
        chosen = Gape(separation=2.0, threshold=1.0)(votes, instance.points, 4, np.random.default_rng(0))
        expected = local_search(instance.points, votes, 4, separation=2.0, threshold=1.0)
        np.testing.assert_array_equal(chosen.indices, expected.indices)
        assert chosen.cost == expected.cost

    def test_negative_votes_move_the_choice(self) -> None:
        # Noise cancels the votes on the right; the one survivor belongs where real votes remain.
        points = np.array([[0.0], [0.1], [9.0], [9.1]], dtype=np.float32)
        for votes, best in (([4, 0, 5, 0], 2), ([4, 0, 5, -4], 0)):
            chosen = local_search(points, np.array(votes), 1, separation=INF, threshold=0.0)
            assert chosen.indices.tolist() == [best]

    def test_without_certificate_it_stops_where_no_swap_pays_with_the_flow_held(self) -> None:
        rng = np.random.default_rng(4)
        points = rng.normal(size=(120, 3)).astype(np.float32)
        votes = rng.integers(-8, 14, 120)
        quick = local_search(points, votes, 12, separation=INF, threshold=0.0, certify=False)
        whole = local_search(points, votes, 12, separation=INF, threshold=0.0)
        start = flow_cost(points, votes, np.argsort(-votes, kind="stable")[:12], INF)
        assert not quick.certified
        assert whole.certified
        assert whole.cost < quick.cost < start

    def test_interrupted_it_returns_the_best_so_far_and_says_so(self) -> None:
        rng = np.random.default_rng(5)
        points = rng.normal(size=(200, 3)).astype(np.float32)
        votes = rng.integers(-8, 14, 200)
        seen: list[float] = []

        def stop_after_three_swaps(progress: SearchProgress) -> None:
            seen.append(progress.cost)
            if progress.swaps == 3:
                raise KeyboardInterrupt

        result = local_search(points, votes, 20, separation=INF, threshold=0.0, progress=stop_after_three_swaps)
        assert result.interrupted
        assert not result.certified
        assert result.swaps == 3
        assert result.cost == min(seen)
        assert result.cost == pytest.approx(flow_cost(points, votes, result.indices, INF), rel=1e-9)

    def test_interrupted_before_its_first_flow_is_known_it_returns_the_start(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(flow, "optimise", interrupt)
        points = np.arange(6, dtype=np.float32)[:, None]
        result = local_search(points, np.array([1, 5, -2, 9, 4, 7]), 2, separation=INF, threshold=0.0)
        assert result.indices.tolist() == [3, 5]
        assert result.interrupted
        assert not result.certified
        assert result.swaps == 0
        assert math.isnan(result.cost)

    def test_is_the_same_on_any_number_of_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(7)
        points = rng.normal(size=(400, 4)).astype(np.float32)
        votes = np.rint(3 + 6 * rng.normal(size=400)).astype(np.int64)
        results = []
        for count in (1, 2, 5):
            for module in ("search", "near"):
                monkeypatch.setattr(f"gape.selection.flow.{module}.threads", lambda count=count: count)
            results.append(local_search(points, votes, 40, separation=INF, threshold=0.0))
        assert results[0].swaps > 20
        for result in results[1:]:
            np.testing.assert_array_equal(result.indices, results[0].indices)
            assert (result.cost, result.swaps) == (results[0].cost, results[0].swaps)

    def test_an_interrupted_selection_stops_the_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Search, "run", interrupt)
        points = np.arange(6, dtype=np.float32)[:, None]
        with pytest.raises(KeyboardInterrupt):
            Gape(separation=INF, threshold=0.0)(np.arange(1, 7), points, 2, np.random.default_rng(0))


class TestErrors:
    points = np.zeros((3, 2), dtype=np.float32)

    @pytest.mark.parametrize("size", [0, -1])
    def test_size(self, size: int) -> None:
        with pytest.raises(InputError, match=f"size must be at least 1, got {size}"):
            local_search(self.points, np.array([1, 2, 3]), size, separation=1.0, threshold=0.0)

    def test_threshold(self) -> None:
        with pytest.raises(InputError, match="threshold must be a number, got nan"):
            local_search(self.points, np.array([1, 2, 3]), 1, separation=1.0, threshold=float("nan"))

    def test_separation_and_shapes(self) -> None:
        with pytest.raises(InputError, match="separation"):
            local_search(self.points, np.array([1, 2, 3]), 1, separation=0.0, threshold=0.0)
        with pytest.raises(InputError, match="one weight per point"):
            local_search(self.points, np.array([1, 2]), 1, separation=1.0, threshold=0.0)
