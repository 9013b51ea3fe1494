"""The experiment of cluster discovery: its parts are what they say, its instances meet the theorem, and it shows it."""

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from experiments.cluster_discovery import run as discovery
from experiments.cluster_discovery.covered import (
    ANTICONCENTRATION,
    BELOW,
    COVERED,
    DIAMETER,
    FIVE,
    PAIR,
    RANK,
    RECORDS,
    Instance,
    MergedGape,
    MergedKMedoids,
    RepeatedElectorate,
    ThreeSteps,
)
from experiments.cluster_discovery.practical import SETTINGS, Setting
from experiments.common import over_seeds
from experiments.rules import DEFAULT, METHODS, PAPER, THRESHOLD_ZERO, rule

from contracts.electorate import ElectorateContract
from contracts.generator import VectorGeneratorContract
from figures import is_a_drawing
from gape.core.errors import InputError
from gape.core.types import Floats, NoisyVotes, Points
from gape.evolution.plan import Plan
from gape.evolution.presets import gape_with_guarantee
from gape.generators.vectors import StartFromSet
from gape.runs.advice import suitable_votes
from gape.selection.kmedoids import k_medoids
from gape.selection.local_search import Gape
from gape.selection.reference import improving_swap
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.voting.electorate import LocalElectorate


class TestThreeSteps(VectorGeneratorContract):
    def make(self) -> ThreeSteps:
        return ThreeSteps(StartFromSet(np.arange(6.0, dtype=np.float32)[:, None]))

    def test_variations_differ_from_the_samples_and_from_call_to_call(self) -> None:
        rng = np.random.default_rng(0)
        samples = np.zeros((60, 1), dtype=np.float32)  # of six, all may stay where they are
        first, second = (self.make().vary(samples, np.full(60, 0.5), rng) for _ in range(2))
        assert not np.array_equal(first, samples)
        assert not np.array_equal(first, second)

    def test_every_point_is_reachable_with_the_constants_it_names(self) -> None:
        draws = 30_000
        varied = self.make().vary(np.zeros((draws, 1)), np.full(draws, 4.0), np.random.default_rng(0))
        places, counts = np.unique(varied, return_counts=True)
        # s = 2: the law is exactly uniform on these three, which has mean 0 and variance s^2, and no other direction.
        np.testing.assert_allclose(places, [-np.sqrt(6.0), 0.0, np.sqrt(6.0)], rtol=1e-6)
        assert np.mean(places.astype(np.float64) ** 2) == pytest.approx(4.0, rel=1e-6)
        assert np.abs(counts / draws - 1 / 3).max() < 5 * np.sqrt(2 / 9 / draws)
        for side in (-1, 1):
            assert (side * places >= np.sqrt(ANTICONCENTRATION * 4.0) - 1e-6).mean() == 1 / 3
        assert RANK == 1


class TestRepeatedElectorate(ElectorateContract):
    values: ClassVar[Floats] = np.array([-2.0, -0.5, 0.1, 3.0])
    records: ClassVar[list[int]] = [7, 1, 20, 4]

    def make(self) -> RepeatedElectorate:
        return RepeatedElectorate(self.values[:, None].astype(np.float32), np.array(self.records))

    def test_it_votes_as_all_of_its_records_would(self) -> None:
        everyone = LocalElectorate(np.repeat(self.values, self.records)[:, None].astype(np.float32))
        rng = np.random.default_rng(0)
        for _ in range(20):
            candidates = rng.integers(-3, 4, size=(12, 1)).astype(np.float32)  # some coincide, some are equally near
            assert np.array_equal(self.make().count(candidates, 1), everyone.count(candidates, 1))


def coinciding(seed: int) -> tuple[Points, NoisyVotes]:
    """Return candidates of which many share a place, and noisy votes for them."""
    rng = np.random.default_rng(seed)
    points = rng.choice(rng.uniform(0, 30, 9), size=20)[:, None].astype(np.float32)
    votes = np.rint(rng.normal(7.0, 12.0, size=20)).astype(np.int64)
    votes[0] += max(0, 1 - votes.sum())  # together they say something
    return points, votes


@pytest.mark.parametrize("seed", range(8))
def test_search_over_places_ends_where_no_swap_of_candidates_pays(seed: int) -> None:
    points, votes = coinciding(seed)
    chosen = MergedGape(25.0, 3.0)(votes, points, 3, np.random.default_rng(0))
    assert (votes[chosen.indices] > 3.0).all()
    assert len(set(points[chosen.indices, 0])) == len(chosen.indices) == 3 < chosen.places
    assert improving_swap(points, votes, chosen.indices, separation=25.0, threshold=3.0) is None


def test_votes_that_say_nothing_select_one() -> None:
    points, rng = np.arange(3, dtype=np.float32)[:, None], np.random.default_rng(0)
    assert MergedGape(5.0, 9.0)(np.array([1, 4, 2]), points, 2, rng).indices.tolist() == [1]
    assert MergedGape(5.0, 0.0)(np.array([-9, 4, 2]), points, 2, rng).indices.tolist() == [1]


@pytest.mark.parametrize("seed", range(8))
def test_medoids_of_places_cost_what_those_of_candidates_do(seed: int) -> None:
    points, votes = coinciding(seed)
    chosen = MergedKMedoids()(votes, points, 3, np.random.default_rng(0)).indices
    far = np.abs(points - points[chosen, 0]).min(axis=1)
    assert np.maximum(votes, 0) @ far == pytest.approx(k_medoids(points, votes, 3).cost)


@pytest.mark.parametrize("instance", COVERED, ids=lambda instance: instance.name)
def test_the_instances_meet_every_condition_of_the_theorem(instance: Instance) -> None:
    theory = instance.theory
    assert theory.violations == ()
    assert gape_with_guarantee(theory).plan == instance.preset(0).plan
    electorate = instance.electorate()
    assert electorate.records.sum() == sum(instance.sizes) == RECORDS
    assert min(instance.sizes) > theory.least_cluster > min(instance.sizes) - 2
    ends = [(float(values.min()), float(values.max())) for values in instance.values]
    assert all(right - left <= DIAMETER for left, right in ends)
    assert all(ends[k + 1][0] - ends[k][1] >= instance.separation for k in range(len(ends) - 1))
    for seed in range(20):
        start = instance.first_samples(np.random.default_rng(seed))
        assert start.shape == (instance.samples, 1)
        nearest = np.array([np.abs(values - start[:, 0]).min() for values in instance.values])
        assert (nearest <= instance.separation / 8).all()
        # A far start has what the theorem promises before it; a near one has it to lose.
        assert ((instance.coverage(start) <= instance.bound) == instance.near).all()


def test_below_the_least_size_the_theorem_does_not_apply() -> None:
    for instance in BELOW:
        assert len(instance.theory.violations) == 1
        with pytest.raises(InputError, match="every cluster needs more than"):
            gape_with_guarantee(instance.theory)
    with pytest.raises(InputError, match="ask for more samples"):
        _ = replace(PAIR, samples=10).sizes


def test_no_mixture_is_covered() -> None:
    for setting in SETTINGS:
        assert sum(setting.sizes) == 2000
        assert setting.least_cluster > setting.sizes[0]
        gaps = np.linalg.norm(setting.centres[:, None] - setting.centres, axis=2)
        assert gaps[gaps > 0].min() == pytest.approx(10.0)


def test_the_papers_rule_has_its_threshold_and_the_default_its_votes() -> None:
    plan = Plan(1.0, 1e-5, 20, 40, scales=(1.0, 0.1, 0.01), copies=2)
    same, paper = rule(PAPER, plan, 2000, 9.0)
    tau = plan.sigma * math.sqrt(2 * math.log(6 * 20 * 280 / 0.05))
    assert same == plan
    assert paper == Gape.paper(9.0, tau)
    casting, default = rule(DEFAULT, plan, 2000, 9.0)
    assert casting == plan.casting(suitable_votes(plan, 2000))
    assert casting.votes_per_record > 1
    assert default == Remembering(RegionalRanking(), casting.sigma)
    assert rule(THRESHOLD_ZERO, plan, 2000, 9.0) == (plan, Gape.paper(9.0, 0.0))


def test_a_method_can_be_run_again(tmp_path: Path) -> None:
    store = tmp_path / "runs.csv"
    discovery.tidy(store)
    for method in ("Ranking", DEFAULT):
        discovery.work(discovery.Task(Setting(clusters=2), method, 0, store))
    assert {method for _, method, _ in discovery.tidy(store)} == {"Ranking", DEFAULT}
    assert {method for _, method, _ in discovery.tidy(store, again=DEFAULT)} == {"Ranking"}


def test_a_round_is_lost_after_all_clusters_were_there() -> None:
    history = np.array([[9.0, 1.0], [1.0, 1.0], [1.0, 9.0], [2.0, 2.0], [9.0, 2.0]])
    seen = {"clusters": 2, "kept": 1, "coverage": 9.0, "rounds": 4, "lost": 2}
    assert discovery.summary(history, 2.0) == seen
    assert discovery.summary(history[:1], 2.0)["lost"] == 0


def test_mixtures_at_a_glance_and_a_torn_store(tmp_path: Path) -> None:
    cases = (Setting(clusters=2),)
    _, rows = discovery.run(tmp_path, seeds=1, jobs=1, cases=cases)
    assert len(rows) == len(cases) * len(METHODS)
    for name in ("kept", "coverage", "least"):
        assert is_a_drawing(tmp_path / f"{name}.png")
    store = tmp_path / "runs.csv"
    whole = store.read_text()
    store.write_text(whole[:-9])  # a process died in the middle of a line
    _, again = discovery.run(tmp_path, seeds=1, jobs=1, cases=cases)
    assert again == rows
    with store.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert store.read_text() == whole


@pytest.mark.slow
def test_gape_keeps_every_cluster_where_the_theorem_holds_and_ranking_does_not(tmp_path: Path) -> None:
    store = tmp_path / "runs.csv"
    discovery.tidy(store)
    tasks = [
        *(discovery.Task(FIVE, "GAPE", seed, store) for seed in range(5)),
        discovery.Task(PAIR, "GAPE", 0, store),
        *(discovery.Task(PAIR, "Ranking", seed, store) for seed in range(2)),
    ]
    over_seeds(discovery.work, tasks, jobs=2)
    covered, _ = discovery.draw(tmp_path)
    assert is_a_drawing(tmp_path / "covered.png")
    kept = {(row["instance"], row["method"]): row for row in covered}
    for name, runs in (("five", 5), ("pair", 1)):
        row = kept[name, "GAPE"]
        assert row["all clusters kept"] == row["runs"] == runs
        assert row["coverage, largest"] <= row["theorem's bound"] == pytest.approx(100 / 1.5)
        assert row["rounds lost"] == 0
    ranking = kept["pair", "Ranking"]
    assert ranking["all clusters kept"] == 0
    assert ranking["rounds lost"] > 0.5
