"""Rows from a schema alone: within it, uniform at the start, and crossed with one another as they vary."""

import json

import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.core.types import Samples, as_samples
from gape.modalities.rows.generator import RowGenerator
from gape.modalities.rows.schema import Choices, Numbers, Schema

PEOPLE = Schema(
    {
        "age": Numbers(17, 90),
        "weight": Numbers(30.0, 200.0, 1, missing=True),
        "income": Choices(("<=50K", ">50K"), missing=True),
        "sex": Choices(("f", "m")),
    }
)
WIDE = Schema({f"x{i}": Choices(tuple(range(100))) for i in range(50)})


class TestRowGenerator(TextGeneratorContract):
    def make(self) -> Generator:
        return RowGenerator(PEOPLE)


def vary(schema: Schema, samples: Samples, scale: float, seed: int = 0) -> Samples:
    return RowGenerator(schema).vary(samples, np.full(len(samples), scale), np.random.default_rng(seed))


def test_random_rows_are_uniform_in_every_column() -> None:
    rows = [json.loads(line) for line in RowGenerator(PEOPLE).random(20_000, np.random.default_rng(0))]
    ages = np.bincount([row["age"] - 17 for row in rows], minlength=74)
    assert len(ages) == 74
    assert abs(ages / len(rows) - 1 / 74).max() < 5 * np.sqrt(1 / 74 / len(rows))
    for value in ("<=50K", ">50K", None):
        assert np.mean([row["income"] == value for row in rows]) == pytest.approx(1 / 3, abs=0.02)
    weights = [row["weight"] for row in rows if row["weight"] is not None]
    assert len(weights) / len(rows) == pytest.approx(0.9, abs=0.02)
    assert np.mean(weights) == pytest.approx(115, abs=2)
    assert (min(weights), max(weights)) == pytest.approx((30, 200), abs=0.5)


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.5, 1.0])
def test_a_variation_changes_about_a_share_of_the_cells_and_one_at_least(scale: float) -> None:
    samples = RowGenerator(WIDE).random(400, np.random.default_rng(1))
    changed = WIDE.codes(vary(WIDE, samples, scale)) != WIDE.codes(samples)
    assert changed.any(axis=1).all()
    expected = scale + (1 - scale) / 50  # of a hundred choices hardly any other sample has the same
    assert changed.mean() == pytest.approx(expected, abs=0.02)


def test_what_changes_is_taken_from_other_samples_most_of_the_time() -> None:
    samples = as_samples([line for value in (3, 7) for line in WIDE.lines(np.full((200, 50), float(value)))])
    for crossed in (0.0, 0.5, 0.9):
        varied = RowGenerator(WIDE, crossed).vary(samples, np.ones(len(samples)), np.random.default_rng(0))
        assert np.isin(WIDE.codes(varied), (3, 7)).mean() == pytest.approx(crossed + (1 - crossed) / 99, abs=0.01)
    for wrong in (-0.1, 1.1):
        with pytest.raises(InputError, match="crossed must lie between 0 and 1"):
            RowGenerator(WIDE, wrong)


def test_samples_that_are_all_alike_are_varied_too() -> None:
    samples = PEOPLE.lines(np.repeat([[40.0, 70.0, 0.0, 1.0]], 200, axis=0))
    differs = vary(PEOPLE, samples, 0.1) != samples
    assert differs.mean() > 0.9  # a number may be drawn anew and be the same


def test_numbers_stay_in_their_range_and_on_their_steps() -> None:
    samples = PEOPLE.lines(np.repeat([[17.0, 200.0, 0.0, 1.0]], 500, axis=0))
    for scale in (0.1, 1.0):
        codes = PEOPLE.codes(vary(PEOPLE, samples, scale))  # which refuses nothing
        assert np.nanmin(codes[:, 0]) >= 17
        assert np.nanmax(codes[:, 1]) <= 200
        np.testing.assert_array_equal(codes[:, 1], np.round(codes[:, 1], 1))


def test_a_scale_above_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"scale must be in \(0, 1\], got 1.5"):
        vary(PEOPLE, RowGenerator(PEOPLE).random(2, np.random.default_rng(0)), 1.5)


def test_over_the_rounds_every_number_takes_steps_that_become_smaller() -> None:
    samples = PEOPLE.lines(np.repeat([[50.0, 100.0, 0.0, 1.0]], 2000, axis=0))
    widths, changed = [], []
    for progress in (0.0, 0.1, 0.5, 0.95):
        annealed = RowGenerator(PEOPLE).annealed_at(progress)
        codes = PEOPLE.codes(annealed.vary(samples, np.full(2000, 0.6), np.random.default_rng(0)))
        widths.append(float(np.abs(codes[:, 0] - 50).mean()) / 73)
        changed.append(float((codes[:, 3] != 1).mean()))
        assert (codes[:, 0] != 50).mean() > 0.3
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 0.2
    assert widths[-1] < 0.02
    assert changed == sorted(changed, reverse=True)


def test_over_the_rounds_cells_are_emptied_and_filled_by_other_rows() -> None:
    samples = PEOPLE.lines(np.array([[50.0, np.nan, 0.0, 1.0], [50.0, 100.0, 0.0, 1.0]] * 500))
    codes = PEOPLE.codes(
        RowGenerator(PEOPLE).annealed_at(0.5).vary(samples, np.full(1000, 0.6), np.random.default_rng(0))
    )
    assert 0.05 < np.isnan(codes[1::2, 1]).mean() < 0.5
    assert 0.05 < (~np.isnan(codes[::2, 1])).mean() < 0.5
    assert np.nanmean(np.abs(codes[:, 1] - 100)) < 30  # no number is drawn from anywhere in the range


def test_rows_of_choices_alone_change_in_one_cell_at_least() -> None:
    samples = RowGenerator(WIDE).random(300, np.random.default_rng(1))
    codes = WIDE.codes(RowGenerator(WIDE).annealed_at(0.95).vary(samples, np.full(300, 0.05), np.random.default_rng(0)))
    assert (codes != WIDE.codes(samples)).any(axis=1).mean() > 0.9  # another row may have the same value
