"""Conditions on the values of new samples: how they are written, how they share a count, and what they start from."""

from collections import Counter

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.runs.conditions import Condition, choose_sources, read_condition, wanted_cells

COLUMNS = {"stars": ("1", "2", "5"), "kind": ("a:b", "a|b", "c")}


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("stars=1", {"1": 1.0}),
        (" stars = 1 ", {"1": 1.0}),
        ("stars=1|5", {"1": 1.0, "5": 1.0}),
        ("stars=1:3|5:1", {"1": 3.0, "5": 1.0}),
        ("stars=1:0.5 | 5", {"1": 0.5, "5": 1.0}),
        ("stars=*", {"1": 1.0, "2": 1.0, "5": 1.0}),
        ("kind=a:b", {"a:b": 1.0}),
        ("kind=a:b:2|c", {"a:b": 2.0, "c": 1.0}),
        ("kind=a|b", {"a|b": 1.0}),
    ],
)
def test_conditions_are_read(text: str, shares: dict[str, float]) -> None:
    assert read_condition(text, COLUMNS).shares == shares


def test_a_run_without_listed_values_takes_no_condition() -> None:
    with pytest.raises(InputError, match="with listed values, and the run has none, got 'stars=1'; leave it out"):
        read_condition("stars=1", {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stars", "written COLUMN=VALUE"),
        ("stars=", "written COLUMN=VALUE"),
        ("price=1", "'price' is not a column with listed values; conditions can be on 'stars', 'kind'"),
        ("stars=4", "'4' is not a value of 'stars'"),
        ("stars=1|1", "'1' is named twice for 'stars'"),
        ("stars=1:0", "must be a positive number"),
        ("stars=1:-2", "must be a positive number"),
        ("stars=1:nan", "must be a positive number"),
        ("stars=1:inf", "must be a positive number"),
        ("stars=1:x", "'1:x' is not a value"),
    ],
)
def test_conditions_that_are_not_clear_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_condition(text, COLUMNS)


def test_values_have_their_shares_exactly() -> None:
    conditions = [Condition("stars", {"1": 3.0, "5": 1.0}), Condition("kind", {"a": 1.0, "b": 1.0, "c": 1.0})]
    wanted = wanted_cells(conditions, 200, np.random.default_rng(0))
    assert Counter(dict(cells)["stars"] for cells in wanted) == {"1": 150, "5": 50}
    assert sorted(Counter(dict(cells)["kind"] for cells in wanted).values()) == [66, 67, 67]
    assert len(set(wanted)) == 6  # columns are independent


def test_samples_that_fit_stay_and_others_are_written_from_the_most_similar() -> None:
    def cells(stars: int, kind: str) -> tuple[tuple[str, str], ...]:
        return (("stars", str(stars)), ("kind", kind))

    samples = [cells(1, "a"), cells(1, "a"), cells(5, "a"), cells(2, "c")]
    wanted = [cells(1, "a"), *[cells(5, "a")] * 3, cells(1, "c")]
    sources = choose_sources(samples, wanted, np.random.default_rng(0))
    assert 2 in sources.kept
    assert len(sources.kept) == 2
    assert sources.wanted == [cells(5, "a"), cells(5, "a"), cells(1, "c")]
    assert sources.varied[:2].tolist() == [2, 2]
    assert sources.varied[2] in {0, 1, 3}


def test_similar_samples_take_turns() -> None:
    samples = [(("stars", "1"),)] * 10
    sources = choose_sources(samples, [(("stars", "1"),)] * 30, np.random.default_rng(0))
    assert sorted(sources.kept) == list(range(10))
    assert set(Counter(sources.varied.tolist()).values()) == {2}
