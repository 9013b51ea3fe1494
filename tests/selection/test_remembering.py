"""Votes estimated from noisy ones and from the round before."""

import math

import numpy as np
import pytest

from contracts.selector import SelectorContract
from gape.core.errors import InputError
from gape.core.protocols import Candidates, Selection, Selector
from gape.core.types import Floats, NoisyVotes, as_samples
from gape.generators.labels import LabelledEmbedder, PerLabel, labelled
from gape.selection.ranking import Ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering, believed_votes


def known(scales: Floats, before: Floats | None = None) -> Candidates:
    return Candidates(np.zeros((len(scales), 2), dtype=np.float32), scales, before)


class TestContract(SelectorContract):
    def make(self) -> Selector:
        return Remembering(RegionalRanking(), 2.0)


class TestEstimates:
    def test_they_are_the_formula(self) -> None:
        rng = np.random.default_rng(0)
        scales = np.repeat([0.0, 0.5], 40)
        before = rng.gamma(2.0, 10.0, 80)
        votes = np.rint(5 + 0.5 * before + rng.normal(0, 9, 80)).astype(np.int64)
        believed = believed_votes(votes, 6.0, scales, before)
        for scale in (0.0, 0.5):
            y, x = votes[scales == scale].astype(float), before[scales == scale]
            slope = np.cov(x, y, bias=True)[0, 1] / x.var()
            predicted = y.mean() + slope * (x - x.mean())
            noise = 6.0**2 + y.mean()
            trust = 1 - noise / np.var(y - predicted)
            assert slope > 0
            assert 0 < trust < 1
            expected = np.maximum(predicted + trust * (y - predicted), 0)
            np.testing.assert_allclose(believed[scales == scale], expected)

    @pytest.mark.parametrize(("noise", "share"), [(5.0, 0.95), (20.0, 0.7)])
    def test_they_are_nearer_to_the_true_votes_than_the_noisy_ones_and_memory_helps(
        self, noise: float, share: float
    ) -> None:
        rng = np.random.default_rng(1)
        errors = np.zeros(3)
        for _ in range(20):
            families = rng.gamma(1.0, 20.0, 100)
            true = np.tile(families, 8) * rng.gamma(4.0, 0.25, 800)
            votes = np.rint(true + rng.normal(0, noise, 800)).astype(np.int64)
            scales = np.repeat([0.0, *[0.6] * 7], 100)
            before = np.tile(families + rng.normal(0, noise / 2, 100), 8)
            guesses = (
                votes,
                believed_votes(votes, noise, scales, None),
                believed_votes(votes, noise, scales, before),
            )
            errors += [np.mean((guess - true) ** 2) for guess in guesses]
        raw, shrunk, remembered = errors
        assert remembered < shrunk < raw
        assert remembered < share * raw

    def test_without_noise_they_are_the_votes(self) -> None:
        votes = np.tile(np.array([1000, 0, 5000, 20, 300], dtype=np.int64), 10)
        np.testing.assert_allclose(believed_votes(votes, 0.0, np.zeros(50), None), votes, rtol=0.1, atol=10)

    def test_few_candidates_are_believed_as_they_are(self) -> None:
        votes = np.array([5, -2, 9] * 13, dtype=np.int64)
        scales = np.repeat([0.0, 0.5], [19, 20])
        np.testing.assert_array_equal(believed_votes(votes, 4.0, scales, np.ones(39)), np.maximum(votes, 0))

    def test_noise_alone_is_believed_to_be_the_same_for_all(self) -> None:
        votes = np.rint(np.random.default_rng(2).normal(20, 10, 4000)).astype(np.int64)
        believed = believed_votes(votes, 10.0, np.zeros(4000), None)
        assert believed.std() < 3

    def test_earlier_votes_that_say_the_opposite_do_not_count(self) -> None:
        before = np.arange(50.0)
        votes = np.rint(100 - 2 * before).astype(np.int64)
        np.testing.assert_array_equal(
            believed_votes(votes, 3.0, np.zeros(50), before), believed_votes(votes, 3.0, np.zeros(50), None)
        )

    def test_they_are_never_negative(self) -> None:
        votes = np.array([-900, 5, 900] * 10, dtype=np.int64)
        assert (believed_votes(votes, 1.0, np.zeros(30), None) >= 0).all()

    @pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf])
    def test_a_noise_that_is_none_is_refused(self, sigma: float) -> None:
        with pytest.raises(InputError, match="sigma must be finite and at least 0"):
            Remembering(Ranking(), sigma)


class TestRule:
    def test_a_rule_that_looks_at_texts_can_be_asked_without_them(self) -> None:
        rng = np.random.default_rng(4)
        points = rng.normal(size=(300, 2)).astype(np.float32)
        rule = Remembering(RegionalRanking(distinct=True), 2.0)  # as when kernels are compiled beforehand
        assert len(rule(rng.integers(-3, 30, 300), points, 3, rng).indices) == 3

    def test_what_is_believed_of_the_survivors_is_returned(self) -> None:
        rng = np.random.default_rng(3)
        votes = rng.integers(0, 200, 40)
        points = rng.normal(size=(40, 3)).astype(np.float32)
        candidates = known(np.repeat([0.0, 0.5], 20), np.tile(rng.gamma(2.0, 30.0, 20), 2))
        chosen = Remembering(Ranking(), 4.0).among(candidates)(votes, points, 7, rng)
        believed = believed_votes(votes, 4.0, candidates.scales, candidates.before)
        np.testing.assert_array_equal(chosen.indices, np.argsort(-believed, kind="stable")[:7])
        np.testing.assert_array_equal(chosen.believed, believed[chosen.indices])

    def test_the_other_rule_sees_the_candidates_too(self) -> None:
        seen: list[Candidates] = []

        class Looking:
            def among(self, candidates: Candidates) -> Selector:
                seen.append(candidates)
                return Ranking()

            def __call__(self, votes: NoisyVotes, points: object, size: int, rng: object) -> Selection:
                raise AssertionError

        candidates = known(np.zeros(3))
        Remembering(Looking(), 1.0).among(candidates)(
            np.array([1, 2, 3]), np.zeros((3, 2), dtype=np.float32), 1, np.random.default_rng(0)
        )
        assert seen == [candidates]

    def test_labels_share_one_memory(self) -> None:
        class Flat:
            def embed(self, samples: object) -> Floats:
                return np.eye(4, dtype=np.float32)[: len(samples)]  # type: ignore[arg-type, return-value]

        names = ("a", "b")
        samples = labelled(["a", "b", "a", "b"], as_samples(["one", "two", "three", "four"]))
        points = LabelledEmbedder(Flat(), names).embed(samples)  # type: ignore[arg-type]
        votes = np.array([50, 40, 10, 30], dtype=np.int64)
        candidates = Candidates(samples, np.zeros(4), np.array([9.0, 8.0, 1.0, 6.0]))
        chosen = Remembering(PerLabel(Ranking(), names), 2.0).among(candidates)(
            votes, points, 2, np.random.default_rng(0)
        )
        assert sorted(chosen.indices.tolist()) == [0, 1]
        believed = believed_votes(votes, 2.0, candidates.scales, candidates.before)
        np.testing.assert_array_equal(chosen.believed, believed[chosen.indices])
