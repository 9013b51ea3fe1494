"""Tables of every shape by the survey: few and many columns, ten rows, dates, heavy values and empty cells."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gape
from gape.core.errors import InputError


def made_of(folder: Path, schema: str, rows: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    (folder / "schema.toml").write_text(schema)
    chosen = {"schema": str(folder / "schema.toml"), "epsilon": 8.0, "samples": 200, **more}
    return gape.synthesize(rows, **chosen).rows()


def test_two_columns_of_ten_rows(tmp_path: Path) -> None:
    schema = '[kind]\nchoices = ["a", "b"]\n[size]\nleast = 0\nmost = 3\n'
    made = made_of(tmp_path, schema, [{"kind": "ab"[i % 2], "size": i % 4} for i in range(10)], samples=10)
    assert len(made) == 10
    assert {row["kind"] for row in made} <= {"a", "b"}
    assert all(0 <= row["size"] <= 3 for row in made)


@pytest.mark.parametrize("width", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_many_columns(tmp_path: Path, width: int) -> None:
    rng = np.random.default_rng(0)
    table = rng.random((2000, width)) < np.linspace(0.05, 0.95, width)
    schema = "".join(f"[c{i}]\nchoices = [0, 1]\n" for i in range(width))
    rows = [{f"c{i}": int(value) for i, value in enumerate(row)} for row in table]
    made = made_of(tmp_path, schema, rows)
    shares = np.array([[row[f"c{i}"] for i in range(width)] for row in made]).mean(axis=0)
    assert np.abs(shares - table.mean(axis=0)).mean() < 0.08


def test_one_value_that_most_records_share_stays_that_common(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [{"gain": 0 if rng.random() < 0.9 else int(rng.integers(1, 100_000))} for _ in range(2000)]
    made = made_of(tmp_path, "[gain]\nleast = 0\nmost = 99999\n", rows)
    assert np.mean([row["gain"] == 0 for row in made]) == pytest.approx(0.9, abs=0.05)


def test_dates_and_cells_that_are_spelled_as_missing(tmp_path: Path) -> None:
    schema = '[day]\nleast = 2020-01-01\nmost = 2020-12-31\nmissing = ["NA"]\n[kind]\nchoices = ["a", "b"]\n'
    rows = [{"day": "NA" if i % 4 == 0 else f"2020-03-{1 + i % 28:02d}", "kind": "ab"[i % 4 == 0]} for i in range(2000)]
    made = made_of(tmp_path, schema, rows)
    assert np.mean([row["day"] is None for row in made]) == pytest.approx(0.25, abs=0.06)
    known = [row["day"] for row in made if row["day"] is not None]
    assert np.mean([day.startswith("2020-03") for day in known]) > 0.8
    assert np.mean([(row["day"] is None) == (row["kind"] == "b") for row in made]) > 0.85
    with pytest.raises(InputError, match="is empty in column 'day'; fill it in, or set missing = true there"):
        made_of(tmp_path, schema.replace('missing = ["NA"]\n', ""), [{"day": None, "kind": "a"}] * 10)
