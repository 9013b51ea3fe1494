"""Scores of rows that shrinking to the middle does not improve, unlike W1."""

import numpy as np
import pytest

from gape.core.types import Floats
from gape.metrics import wasserstein1
from gape.modalities import Rows, Schema
from gape.modalities.rows.columns import Choices, Numbers
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.measures import spread_ratios, table_scores

NUMBERS = 10
SCHEMA = Schema({f"number {index}": Numbers(0, 100) for index in range(NUMBERS)} | {"kind": Choices(("no", "yes"))})


def table(count: int, seed: int) -> Floats:
    """Numbers that do not depend on each other, and a choice that the first two decide."""
    numbers = np.random.default_rng(seed).normal(50, 18, (count, NUMBERS)).clip(0, 100).round()
    return np.column_stack([numbers, numbers[:, 0] + numbers[:, 1] > 100])


def test_shrinking_lowers_w1_and_no_other_score() -> None:
    real, rows = table(1000, 1), table(400, 2)
    shrunk = rows.copy()
    shrunk[:, :NUMBERS] = (50 + 0.6 * (rows[:, :NUMBERS] - 50)).round()
    embedder = RowEmbedder(SCHEMA)
    points = [embedder.embed(SCHEMA.lines(codes)) for codes in (real, rows, shrunk)]
    assert wasserstein1(points[0], points[2]) < 0.97 * wasserstein1(points[0], points[1])
    honest, cheating = (table_scores(real, codes, SCHEMA) for codes in (rows, shrunk))
    assert cheating["TV1"] > honest["TV1"] + 0.05
    assert cheating["TV2"] > honest["TV2"] + 0.01
    assert cheating["spread"] == pytest.approx(0.6, abs=0.05)
    assert honest["spread"] == pytest.approx(1.0, abs=0.07)


def test_the_auc_is_that_of_what_the_rows_teach() -> None:
    real, rows = table(500, 1), table(500, 2)
    wrong = rows.copy()
    wrong[:, -1] = 1 - wrong[:, -1]
    lines = [SCHEMA.lines(codes) for codes in (real, rows, wrong)]
    kind = Rows(SCHEMA)
    assert kind.scores(lines[0], lines[1], "kind")["AUC"] > 0.95
    assert kind.scores(lines[0], lines[2], "kind")["AUC"] < 0.05
    assert "AUC" not in kind.scores(lines[0], lines[1], None)


def test_a_column_without_spread_is_left_out() -> None:
    real, rows = table(50, 1), table(50, 2)
    real[:, 0] = 7
    assert list(spread_ratios(real, rows, SCHEMA)) == list(SCHEMA.columns)[1:-1]
    only = Schema({"kind": Choices(("no", "yes"))})
    assert "spread" not in table_scores(real[:, -1:], rows[:, -1:], only)
