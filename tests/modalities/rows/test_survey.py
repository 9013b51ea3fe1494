"""The survey of a table: its cells, its questions, their sensitivity, and rows that fit the answers."""

import json
import math
from contextlib import closing

import numpy as np
import pytest

from gape.core.errors import InputError, PrivacyError
from gape.core.types import Counts, Floats, NoisyVotes
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.metrics.tables import column_distances, pair_distance
from gape.modalities import Columns, Rows, Schema
from gape.modalities.rows.cells import ColumnCells
from gape.modalities.rows.columns import Choices, Numbers
from gape.modalities.rows.estimates import Level, NoisyColumn, projected
from gape.modalities.rows.survey import Question, Questions, TableSurvey
from gape.modalities.rows.surveyed import SurveyedRows
from gape.privacy.accounting import Release, delta_spent, noise_scale
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.privacy.release import release_answers
from gape.runs.electorate import TextElectorate
from gape.selection.ranking import Ranking

SCHEMA = Schema(
    {
        "age": Numbers(17, 90),
        "gain": Numbers(-50.0, 100_000.0, decimals=1, missing=True),
        "kind": Choices(("a", "b", "c"), missing=True),
        "late": Choices(("no", "yes")),
    }
)
NO_POINTS = np.zeros((0, 1), dtype=np.float32)  # rows answer by their cells


def table(count: int, seed: int = 0) -> Floats:
    """Rows as codes: age follows kind, and late follows age."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=count, p=[0.6, 0.3, 0.1]).astype(float)
    age = np.clip(np.rint(30 + 15 * kind + 6 * rng.normal(size=count)), 17, 90)
    gain = np.where(rng.random(count) < 0.7, 0.0, np.round(rng.gamma(2.0, 9_000, size=count), 1).clip(0, 1e5))
    late = (rng.random(count) < 1 / (1 + np.exp(-(age - 45) / 4))).astype(float)
    return np.stack([age, gain, kind, late], axis=1)


def electorate(codes: Floats, users: list[str] | None = None) -> TextElectorate:
    rows = [json.loads(line) for line in SCHEMA.lines(codes)]
    if users is not None:
        rows = [{**row, "who": user} for row, user in zip(rows, users, strict=True)]
    records = Rows(SCHEMA).read(rows, Columns(user=None if users is None else "who"))
    return TextElectorate(records, np.zeros((len(records), 1), dtype=np.float32))


@pytest.mark.parametrize("column", SCHEMA.columns.values(), ids=list(SCHEMA.columns))
def test_a_code_drawn_from_a_cell_lies_in_it(column: Numbers | Choices) -> None:
    cells = ColumnCells(column)
    every = np.repeat(np.arange(cells.count), 50)
    drawn = cells.draw(every, np.random.default_rng(0))
    np.testing.assert_array_equal(cells.of(drawn), every)
    assert np.isnan(drawn[every == cells.count - 1]).all() == column.missing


def test_both_ends_and_zero_have_cells_of_their_own() -> None:
    cells = ColumnCells(SCHEMA.columns["gain"])
    values = np.array([-50.0, -49.9, 0.0, 0.1, 99_999.9, 100_000.0])
    assert len(set(cells.of(values).tolist())) == len(values)


@pytest.mark.parametrize("column", SCHEMA.columns.values(), ids=list(SCHEMA.columns))
def test_stretches_are_parts_of_the_range_in_order(column: Numbers | Choices) -> None:
    cells = ColumnCells(column)
    if isinstance(column, Choices):
        assert cells.stretches is None
        return
    assert cells.stretches is not None
    assert (np.diff(cells.stretches) >= 0).all()
    assert np.bincount(cells.stretches).min() >= 1
    assert cells.stretches.max() + 1 <= 20 + int(column.missing)


def asked(survey: TableSurvey, codes: Floats, sigma: float) -> list[tuple[Questions, Counts]]:
    answers: list[NoisyVotes] = []
    rng, found = np.random.default_rng(1), []
    for _ in survey.per_record:
        questions = survey.questions(answers, sigma)
        counts = questions.tally(questions.encode(SCHEMA.lines(codes), NO_POINTS))
        answers.append(counts + np.rint(sigma * rng.normal(size=len(counts))).astype(np.int64))
        found.append((questions, counts))
    return found


def test_one_record_moves_as_many_counts_as_the_plan_accounts_for() -> None:
    codes = table(3_000)
    survey = TableSurvey(SCHEMA)
    other = codes.copy()
    other[17] = [90, np.nan, np.nan, 1 - codes[17, 3]]
    for (questions, counts), planned in zip(asked(survey, codes, 20.0), survey.per_record, strict=True):
        moved = np.abs(counts - questions.tally(questions.encode(SCHEMA.lines(other), NO_POINTS)))
        assert counts.sum() == len(codes) * questions.per_record
        assert questions.per_record <= planned
        assert moved.max() == 1
        assert moved.sum() <= Release(1.0, "replace", planned).unit_shifts
        assert math.sqrt((moved**2).sum()) <= Release(1.0, "replace", planned).sensitivity


def test_sigma_is_exact_for_all_answers_together() -> None:
    answers = SurveyedRows(SCHEMA).per_record
    plan = Plan(1.0, 1e-6, rounds=0, samples=10, answers=answers)
    assert plan.sigma == noise_scale(1.0, 1e-6, 1, votes_per_unit=sum(answers))
    assert delta_spent(plan.releases, 1.0) <= 1e-6 < delta_spent(plan.releases, 1.0 * (1 - 1e-3))
    both = Plan(1.0, 1e-6, rounds=5, samples=10, votes_per_unit=3, votes_per_record=3, answers=answers)
    assert both.counted == sum(answers) + 15
    assert delta_spent(both.releases, 1.0) <= 1e-6 < delta_spent(both.releases, 1.0 * (1 - 1e-3))
    assert both.sigma > plan.sigma
    longer = both.extended(8)
    assert longer.sigma == both.sigma
    assert delta_spent(longer.releases, longer.epsilon) <= 1e-6 < delta_spent(longer.releases, longer.epsilon * 0.999)
    assert len(longer.releases) == len(answers) + 8


def test_a_user_answers_with_one_record() -> None:
    codes = table(600)
    many = electorate(codes, ["one"] * 500 + [str(number) for number in range(100)])
    questions = TableSurvey(SCHEMA).questions((), 1.0)
    assert many.answer(questions, 0).sum() == 101 * questions.per_record


def test_more_questions_than_planned_are_refused() -> None:
    questions = TableSurvey(SCHEMA).questions((), 1.0)
    with closing(Ledger(":memory:", Budget(math.inf, 1e-6))) as ledger:
        fewer = [Release(5.0, "replace", questions.per_record - 1)]
        with pytest.raises(PrivacyError, match="questions are asked"):
            release_answers(electorate(table(50)), questions, 0, fewer, Account(ledger, "run"))
        assert ledger.releases() == ()


def test_paid_answers_are_returned_again() -> None:
    codes, survey = table(500), TableSurvey(SCHEMA)
    questions = survey.questions((), 30.0)
    planned = [Release(30.0, "replace", survey.per_record[0])]
    with closing(Ledger(":memory:", Budget(math.inf, 1e-6))) as ledger:
        account = Account(ledger, "run")
        first = release_answers(electorate(codes), questions, 0, planned, account)
        again = release_answers(electorate(table(500, seed=5)), questions, 0, planned, account)
        assert len(ledger.releases()) == ledger.surveyed("run") == 1
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, questions.tally(questions.encode(SCHEMA.lines(codes), NO_POINTS)))


def test_the_rows_have_the_columns_and_pairs_of_the_records() -> None:
    codes = table(20_000)
    plan = Plan(1.0, 1e-6, rounds=0, samples=4_000, answers=SurveyedRows(SCHEMA).per_record)
    with closing(Ledger(":memory:", Budget(1.0, 1e-6))) as ledger:
        account = Account(ledger, "run")
        parts = SurveyedRows(SCHEMA), Rows(SCHEMA).embedder(), electorate(codes), Ranking(), account
        (state,) = evolve(plan, *parts, noise=SeededNoise(3))
        (again,) = evolve(plan, *parts, noise=SeededNoise(4))
    assert len(state.answers) == len(plan.answers)
    assert (state.synthetic == again.synthetic).all()
    bins = [SCHEMA.bins(each) for each in (table(20_000, seed=9), SCHEMA.codes(state.synthetic))]
    by_chance = [SCHEMA.bins(each) for each in (table(20_000, seed=9), table(4_000, seed=2))]
    assert column_distances(*bins).mean() < 0.02 + column_distances(*by_chance).mean()
    assert pair_distance(*bins) < 0.03 + pair_distance(*by_chance)


def test_projection_is_the_nearest_table_without_negative_counts() -> None:
    noisy = np.random.default_rng(0).normal(2.0, 5.0, size=40)
    nearest = projected(noisy, 60.0)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(60)
    for seed in range(20):
        other = np.random.default_rng(seed).dirichlet(np.ones(40)) * 60
        assert ((nearest - noisy) ** 2).sum() <= ((other - noisy) ** 2).sum()


def test_two_levels_of_a_column_are_combined_without_bias_and_with_the_stated_variance() -> None:
    rng = np.random.default_rng(0)
    truth, blocks = np.array([50.0, 0, 30, 5, 7, 9]), np.array([0, 0, 1, 1, 1, 1])
    groups = np.array([0, 1, 1, 2, 2, 3])
    found = []
    for _ in range(4_000):
        cells = Level(np.arange(6), truth + 3 * rng.normal(size=6), 9.0)
        above = Level(blocks, np.bincount(blocks, weights=truth) + rng.normal(size=2), 1.0)
        column = NoisyColumn.of([above, cells])
        found.append(column.sums(groups))
    np.testing.assert_allclose(np.mean(found, axis=0), np.bincount(groups, weights=truth), atol=0.3)
    np.testing.assert_allclose(np.var(found, axis=0), column.variances(groups), rtol=0.1)
    assert column.nearest(101.0, 6).sum() == pytest.approx(101)
    assert column.nearest(101.0, 6).min() >= 0


@pytest.mark.parametrize(
    "columns",
    [
        {"x": Numbers(0.0, 1.0, 3)},
        {"x": Choices(("a", "b"))},
        {"x": Numbers(0.0, 1.0, 3), "y": Choices(("a", "b"), missing=True)},
        {"x": Numbers(0, 1), "y": Numbers(0, 1)},
    ],
)
@pytest.mark.parametrize(("records", "sigma"), [(10, 200.0), (10, 0.0), (2_000, 20.0), (3, 3.0)])
def test_few_columns_and_few_records_are_enough(
    columns: dict[str, Numbers | Choices], records: int, sigma: float
) -> None:
    """Columns that are independent, and answers that drown in noise, must still give rows."""
    schema, rng = Schema(columns), np.random.default_rng(0)
    codes = np.round(rng.random((records, len(columns))))
    survey, answers = SurveyedRows(schema), list[NoisyVotes]()
    for most in survey.per_record:
        questions = survey.questions(answers, sigma, most)
        counts = questions.tally(questions.encode(schema.lines(codes), NO_POINTS))
        answers.append(counts + np.rint(sigma * rng.normal(size=len(counts))).astype(np.int64))
    made = schema.codes(survey.informed(answers, sigma).random(50, rng))
    assert made.shape == (50, len(columns))
    if not sigma:
        assert np.nanmean(made[:, 0]) == pytest.approx(codes[:, 0].mean(), abs=0.03)


def test_wide_tables_ask_a_bounded_number_of_questions() -> None:
    survey = TableSurvey(Schema({f"x{number}": Numbers(0.0, 1.0, 3) for number in range(200)}))
    assert sum(survey.per_record) < 50_000
    assert survey.questions((), 1.0).bins < 1_000_000


def test_a_question_asked_twice_is_answered_twice() -> None:
    questions = Questions(SCHEMA, (Question((3,), (np.arange(2),), times=2),))
    counts = questions.tally(questions.encode(SCHEMA.lines(table(100)), NO_POINTS))
    np.testing.assert_array_equal(counts[:2], counts[2:])
    np.testing.assert_array_equal(questions.means(counts)[0], counts[:2])


def test_a_plan_without_rounds_needs_a_survey() -> None:
    with pytest.raises(InputError, match="rounds must be a whole number of at least 1"):
        Plan(1.0, 1e-6, rounds=0, samples=10)
