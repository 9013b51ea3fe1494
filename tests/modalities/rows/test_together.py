"""The fourth release of the survey: pairs of numbers together with a class, for tables of numbers and one choice."""

import math
from datetime import date

import numpy as np
import pytest

from gape.core.types import Floats, NoisyVotes
from gape.modalities import Schema
from gape.modalities.rows.cells import Cells
from gape.modalities.rows.columns import Choices, Column, Dates, Numbers
from gape.modalities.rows.survey import MOST_KINDS, TableSurvey, Together, class_column
from gape.modalities.rows.surveyed import SurveyedRows
from gape.modalities.rows.together import told_together
from gape.privacy.accounting import Release, noise_scale

KINDS = ("round", "flat", "long")
SCHEMA = Schema(
    {
        "kind": Choices(KINDS),
        "x": Numbers(0, 63),
        "y": Numbers(0.0, 1.0, 3),
        "z": Numbers(0, 9, missing=True),
    }
)
NUMBER, CHOICE = Numbers(0, 9), Choices(("a", "b", "c"))
NO_POINTS = np.zeros((0, 1), dtype=np.float32)


def table(count: int, seed: int = 0) -> Floats:
    """Rows as codes. A kind is long where x and y are on different sides: neither of them alone says anything of it."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 64, count), np.round(rng.random(count), 3)
    other = rng.integers(0, 2, count)
    kind = np.where((x >= 32) != (y >= 0.5), 2, other)
    z = np.where(rng.random(count) < 0.1, np.nan, rng.integers(0, 10, count))
    return np.stack([kind, x, y, z], axis=1).astype(np.float64)


def answered(codes: Floats, sigma: float, releases: int = 4, seed: int = 1) -> list[NoisyVotes]:
    survey, answers, rng = SurveyedRows(SCHEMA), list[NoisyVotes](), np.random.default_rng(seed)
    encoded = Cells(SCHEMA).of(codes)
    for most in survey.per_record[:releases]:
        counts = survey.questions(answers, sigma, most).tally(encoded)
        answers.append(counts + np.rint(sigma * rng.normal(size=len(counts))).astype(np.int64))
    return answers


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([NUMBER, NUMBER, CHOICE, NUMBER], 2),
        ([CHOICE, NUMBER, Dates.between(date(2020, 1, 1), date(2020, 12, 31)), NUMBER], 0),
        ([NUMBER, NUMBER, CHOICE], None),
        ([NUMBER, NUMBER, NUMBER, Choices(("yes", "no"), missing=True)], None),
        ([NUMBER, NUMBER, NUMBER, CHOICE, CHOICE], None),
        ([NUMBER, NUMBER, NUMBER, NUMBER], None),
        ([Choices(tuple(range(MOST_KINDS))), NUMBER, NUMBER, NUMBER], 0),
        ([Choices(tuple(range(MOST_KINDS + 1))), NUMBER, NUMBER, NUMBER], None),
    ],
)
def test_the_schema_alone_says_whether_there_is_a_class(columns: list[Column], expected: int | None) -> None:
    schema = Schema({f"column {number}": column for number, column in enumerate(columns)})
    assert class_column(schema) == expected
    assert len(TableSurvey(schema).per_record) == (3 if expected is None else 4)


def test_every_number_is_counted_with_the_next_two_and_the_class() -> None:
    names = [f"x{number}" for number in range(7)]
    survey = TableSurvey(Schema({**dict.fromkeys(names, NUMBER), "kind": CHOICE}))
    answers = [np.zeros(survey.questions((), 1.0).bins, dtype=np.int64)]
    answers += [np.zeros(survey.questions(answers, 1.0).bins, dtype=np.int64)]
    answers += [np.zeros(survey.questions(answers, 1.0).bins, dtype=np.int64)]
    asked = [question.columns for question in survey.questions(answers, 1.0).asked]
    assert len(asked) == len(set(asked)) == 14
    assert all(kind == 7 for _, _, kind in asked)
    assert {(b - a) % 7 for a, b, _ in asked} <= {1, 2, 5, 6}


def test_one_record_moves_as_many_counts_as_the_plan_accounts_for() -> None:
    codes = table(3_000)
    other = codes.copy()
    other[17] = [(codes[17, 0] + 1) % 3, 63 - codes[17, 1], 1 - codes[17, 2], np.nan]
    answers, survey = answered(codes, 20.0), SurveyedRows(SCHEMA)
    questions = survey.questions(answers[:3], 20.0, survey.per_record[3])
    counts, changed = (questions.tally(Cells(SCHEMA).of(each)) for each in (codes, other))
    planned = Release(1.0, "replace", survey.per_record[3])
    assert questions.per_record == survey.per_record[3]
    assert counts.sum() == len(codes) * questions.per_record
    assert np.abs(counts - changed).max() == 1
    assert np.abs(counts - changed).sum() <= planned.unit_shifts
    assert math.sqrt(((counts - changed) ** 2).sum()) <= planned.sensitivity


def agreement(codes: Floats) -> float:
    """The share of rows whose kind is the one that x and y say."""
    return float(np.mean((codes[:, 0] == 2) == ((codes[:, 1] >= 32) != (codes[:, 2] >= 0.5))))


def test_rows_have_kinds_that_only_two_numbers_together_tell() -> None:
    codes, survey = table(6_000), SurveyedRows(SCHEMA)
    sigma = noise_scale(1.0, 1e-5, 1, votes_per_unit=sum(survey.per_record))
    answers = answered(codes, sigma)
    made, without = (
        SCHEMA.codes(survey.informed(known, sigma).random(4_000, np.random.default_rng(0)))
        for known in (answers, answers[:3])
    )
    assert agreement(codes) == 1
    assert agreement(without) < 0.6
    assert agreement(made) > 0.85
    for kind in range(3):
        assert np.mean(made[:, 0] == kind) == pytest.approx(np.mean(codes[:, 0] == kind), abs=0.03)
    assert np.mean(np.isnan(made[:, 3])) == pytest.approx(0.1, abs=0.03)


def test_rows_of_a_release_without_the_class_are_drawn_as_before() -> None:
    """Runs of earlier versions stored three releases, and are expanded and resumed by them."""
    answers, survey = answered(table(1_000), 15.0, releases=3), SurveyedRows(SCHEMA)
    assert TableSurvey(SCHEMA).together(answers, 15.0) == []
    made = survey.informed(answers, 15.0).random(300, np.random.default_rng(0))
    assert made.shape == (300,)


@pytest.mark.parametrize(("records", "sigma"), [(10, 300.0), (10, 0.0), (3, 3.0), (400, 1e5)])
def test_answers_that_drown_in_noise_still_give_rows(records: int, sigma: float) -> None:
    made = SurveyedRows(SCHEMA).informed(answered(table(records), sigma), sigma).random(60, np.random.default_rng(0))
    assert SCHEMA.codes(made).shape == (60, 4)


def counted(codes: Floats, noise: float) -> Together:
    """Counts of x and y by halves, with the kind."""
    halves = np.arange(64) // 32, np.arange(100) // 50
    cells = np.stack([codes[:, 1].astype(int) // 32, (codes[:, 2] >= 0.5).astype(int), codes[:, 0].astype(int)])
    counts = np.bincount(np.ravel_multi_index(tuple(cells), (2, 2, 3)), minlength=12).reshape(2, 2, 3)
    return Together((1, 2, 0), (*halves, np.arange(3)), counts.astype(np.float64), noise)


def test_chances_come_to_agree_with_exact_counts() -> None:
    codes, rng = table(5_000), np.random.default_rng(0)
    rows = np.stack(
        [np.zeros(800, int), rng.integers(0, 64, 800), rng.integers(0, 100, 800), rng.integers(0, 9, 800)], 1
    )
    exact = counted(codes, 0.0)
    chances = told_together(rng.dirichlet(np.ones(3), 800), rows, [exact], 5_000)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    group = rows[:, 1] // 32 * 2 + rows[:, 2] // 50
    for number, shares in enumerate(exact.counts.reshape(4, 3)):
        np.testing.assert_allclose(chances[group == number].mean(axis=0), shares / shares.sum(), atol=1e-3)


def test_counts_that_are_nothing_but_noise_change_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack(
        [np.zeros(800, int), rng.integers(0, 64, 800), rng.integers(0, 100, 800), rng.integers(0, 9, 800)], 1
    )
    chances = rng.dirichlet(np.ones(3), 800)
    group = rows[:, 1] // 32 * 2 + rows[:, 2] // 50
    expected = np.stack([chances[group == number].sum(axis=0) for number in range(4)]) * 5_000 / 800
    noisy = Together((1, 2, 0), counted(table(10), 0.0).parts, expected.reshape(2, 2, 3), 50.0)
    np.testing.assert_allclose(told_together(chances, rows, [noisy], 5_000), chances, atol=1e-9)


def test_wide_tables_ask_a_bounded_number_of_questions() -> None:
    names = [f"x{number}" for number in range(199)]
    survey = TableSurvey(Schema({**dict.fromkeys(names, Numbers(0.0, 1.0, 3)), "kind": CHOICE}))
    assert survey.per_record[3] <= 5_000
    assert sum(survey.per_record) < 50_000
