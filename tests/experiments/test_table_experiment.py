"""The experiment on tables, made small."""

import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.tables import run as tables

from gape.modalities import Schema

SCHEMA = Path(__file__).parents[2] / "experiments" / "tables" / "adult.toml"


def test_the_schema_is_one_and_says_what_the_census_asks() -> None:
    schema = Schema.read(SCHEMA)
    assert len(schema.columns) == 14
    assert "income" in schema.columns


def test_every_way_runs_and_crossing_helps(tmp_path: Path) -> None:
    schema, private = tmp_path / "schema.toml", tmp_path / "private.csv"
    names = [f"x{i}" for i in range(8)]
    schema.write_text("".join(f"[{name}]\nchoices = [0, 1, 2, 3, 4]\n" for name in names))
    rng = np.random.default_rng(0)
    kinds = np.array([[0] * 8, [3] * 8])[rng.integers(2, size=600)]
    lines = [",".join(map(str, row)) for row in kinds]
    private.write_text(",".join(names) + "\n" + "\n".join(lines) + "\n")
    ways = ("none crossed", "default", "ranking, one vote (AugPE)")
    rows = tables.run(
        tmp_path / "out", str(private), str(schema), seeds=2, epsilons=(4.0,), samples=20, jobs=1, ways=ways
    )
    found = {row["way"]: row for row in rows}
    assert set(found) == set(ways)
    assert found["default"]["W1"] < found["none crossed"]["W1"]
    assert (tmp_path / "out" / "ways.md").exists()
    assert all(np.isfinite(row[measure]) for row in rows for measure in tables.MEASURES)


def test_a_way_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--private", "x", "--schema", "y", "--ways", "sideways"])
    with pytest.raises(SystemExit):
        tables.main()
