from difflib import SequenceMatcher
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.core.errors import InputError
from gape.core.types import Points
from gape.metrics import closest_record_test, longest_shared_runs
from metrics.pairs import all_distances

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=12).map(" ".join), min_size=1, max_size=5)


def cloud(count: int, seed: int) -> Points:
    return np.random.default_rng(seed).standard_normal((count, 6), dtype=np.float32)


class TestClosestRecord:
    def test_copies_are_caught(self) -> None:
        private, held_out = cloud(300, 0), cloud(300, 1)
        copies = private[:100] + 0.01 * cloud(100, 2)
        found = closest_record_test(private, held_out, copies, np.random.default_rng(0), permutations=999)
        assert found.share == 1.0
        assert found.p_value == pytest.approx(1 / 1000)
        assert found.median_to_private < 0.1 < found.median_to_held_out

    def test_shares_and_distances_are_those_of_all_pairs(self) -> None:
        private, held_out, synthetic = cloud(40, 0), cloud(25, 1), cloud(30, 2)
        found = closest_record_test(private, held_out, synthetic, np.random.default_rng(0), permutations=9)
        to_private = all_distances(synthetic, private).min(axis=1)
        to_held_out = all_distances(synthetic, held_out).min(axis=1)
        assert found.share == pytest.approx(np.mean(to_private < to_held_out))
        assert found.expected == pytest.approx(40 / 65)
        assert found.median_to_private == pytest.approx(np.median(to_private), rel=1e-6)
        assert found.median_to_held_out == pytest.approx(np.median(to_held_out), rel=1e-6)

    def test_p_value_is_that_of_all_ways_to_deal_the_labels(self) -> None:
        private, held_out, synthetic = cloud(4, 0), cloud(4, 1), cloud(20, 2)
        closest = all_distances(synthetic, np.concatenate([private, held_out])).argmin(axis=1)
        shares = [np.isin(closest, dealt).mean() for dealt in combinations(range(8), 4)]
        exact = np.mean(np.array(shares) >= np.isin(closest, range(4)).mean() - 1e-12)
        found = closest_record_test(private, held_out, synthetic, np.random.default_rng(0), permutations=20_000)
        assert found.p_value == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4)

    def test_p_values_are_even_where_nothing_was_memorised(self) -> None:
        # However alike the synthetic points are: here all are near one place.
        values = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            records = rng.standard_normal((60, 2))
            synthetic = 0.3 * rng.standard_normal((100, 2))
            found = closest_record_test(records[:30], records[30:], synthetic, rng, permutations=99)
            values.append(found.p_value)
        assert np.mean(np.array(values) <= 0.1) < 0.1 + 4 * np.sqrt(0.09 / 200)
        assert 0.4 < np.mean(values) < 0.6

    def test_ties_are_decided_by_lot(self) -> None:
        twins = cloud(400, 0)
        found = closest_record_test(twins, twins, twins, np.random.default_rng(0), permutations=9)
        assert found.share == pytest.approx(0.5, abs=0.1)

    def test_refuses_what_cannot_be_compared(self) -> None:
        rng = np.random.default_rng(0)
        with pytest.raises(InputError, match="same width"):
            closest_record_test(cloud(3, 0), cloud(3, 1)[:, :2], cloud(3, 2), rng)
        with pytest.raises(InputError, match="permutations must be at least 1"):
            closest_record_test(cloud(3, 0), cloud(3, 1), cloud(3, 2), rng, permutations=0)


def by_all_pairs(private: list[str], synthetic: list[str]) -> list[int]:
    return [
        max(
            SequenceMatcher(None, text.split(), other.split(), autojunk=False).find_longest_match().size
            for other in private
        )
        for text in synthetic
    ]


class TestLongestSharedRuns:
    @given(TEXTS, TEXTS)
    def test_are_what_comparing_all_pairs_finds(self, private: list[str], synthetic: list[str]) -> None:
        assert longest_shared_runs(private, synthetic).tolist() == by_all_pairs(private, synthetic)

    @pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 33])
    def test_of_a_whole_text_are_its_length(self, length: int) -> None:
        text = " ".join(f"w{i % 5}" for i in range(length))
        assert longest_shared_runs([text, "other words"], [text, text + " more", "v " + text]).tolist() == [length] * 3

    def test_do_not_go_from_one_text_to_the_next(self) -> None:
        assert longest_shared_runs(["a b", "c d"], ["a b c d", "b c"]).tolist() == [2, 1]

    def test_are_not_hidden_by_case_or_punctuation(self) -> None:
        private = ["My name is Ann Smith, and I live here."]
        assert longest_shared_runs(private, ["(my NAME is; ann-smith)", "Nobody", "..."]).tolist() == [5, 0, 0]

    def test_of_many_texts(self) -> None:
        rng = np.random.default_rng(0)
        private = [" ".join(map(str, rng.integers(0, 30, 40))) for _ in range(60)]
        synthetic = [" ".join(map(str, rng.integers(0, 30, 40))) for _ in range(20)]
        synthetic[3] = " ".join([*synthetic[3].split()[:10], *private[7].split()[5:30]])
        found = longest_shared_runs(private, synthetic)
        assert found[3] >= 25
        assert found.tolist() == by_all_pairs(private, synthetic)

    def test_refuses_no_texts(self) -> None:
        with pytest.raises(InputError, match="list of at least one text"):
            longest_shared_runs([], ["a"])
        with pytest.raises(InputError, match="list of at least one text"):
            longest_shared_runs(["a"], "a")
