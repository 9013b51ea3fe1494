"""AIM and MST of OpenDP beside the survey. The library itself runs in the long test, in an environment of its own."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gape
from environments import with_extras
from gape.core.errors import InputError
from gape.core.types import Samples
from gape.modalities import Rows, Schema
from gape.modalities.rows import marginals
from gape.modalities.rows.columns import Choices, Numbers
from gape.runs.settings import Settings

SCHEMA = """
[kind]
choices = ["cat", "dog"]
[sound]
choices = ["meow", "woof"]
[legs]
least = 0
most = 4
[weight]
least = 0.0
most = 50.0
decimals = 1
missing = ["NA"]
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    rng, rows = np.random.default_rng(0), ["kind,sound,legs,weight,owner"]
    for index in range(2000):
        cat = rng.random() < 0.3
        weight = "NA" if rng.random() < 0.2 else f"{rng.normal(5 if cat else 25, 2):.1f}"
        rows.append(f"{'cat,meow' if cat else 'dog,woof'},4,{weight},{index % 100}")
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    return Settings.of({"data": str(tmp_path / "rows.csv"), "schema": str(tmp_path / "schema.toml"), "samples": 500})


@pytest.mark.slow
def test_the_real_library_stands_beside_the_survey(settings: Settings, tmp_path: Path) -> None:
    commands = (
        with_extras(tmp_path / "venv") if importlib.util.find_spec("mbi") is None else Path(sys.executable).parent
    )
    flags = ["--methods", "gape,aim,mst", "--epsilons", "1", "--seeds", "1", "--target", "kind", "--samples", "500"]
    command = [str(commands / "python"), "-m", "gape", "compare", settings.data, "--schema", str(settings.schema)]
    subprocess.run([*command, *flags, "--out", str(tmp_path / "out")], check=True)
    for method in ("gape", "aim", "mst"):
        cell = json.loads((tmp_path / "out" / "cells" / f"{method}--eps-1--seed-0.json").read_text())
        (turn,) = cell["turns"]
        assert turn["samples"] == 500
        assert turn["content"]["TV1"] < 0.1
        assert turn["content"]["TV2"] < 0.2
        assert turn["content"]["AUC"] > 0.95
        assert 0.7 < turn["content"]["spread"] < 1.4
    table = (tmp_path / "out" / "table.md").read_text()
    assert all(f"| {label} |" in table for label in ("GAPE", "AIM", "MST", "as many real records"))


def test_without_the_library_the_error_says_what_to_install(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"the method aim needs OpenDP with mbi, .* install gape\[marginals\]"):
        gape.compare_texts(settings, tmp_path / "out", methods=("gape", "aim"), epsilons=(1.0,), seeds=1)
    assert not (tmp_path / "out").exists()


def test_what_it_cannot_do_is_refused_before_anything_runs(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    with pytest.raises(InputError, match="mst needs noise, got epsilon inf; leave one of the two out"):
        gape.compare_texts(settings, tmp_path / "out", methods=("gape", "mst"), epsilons=(1.0, float("inf")))
    of_users = settings.with_values(user="owner")
    with pytest.raises(InputError, match="mst protects records, got user 'owner'; leave one of the two out"):
        gape.compare_texts(of_users, tmp_path / "out", methods=("mst",), epsilons=(1.0,))
    with pytest.raises(InputError, match=r"methods must be among .*, survey, aim, mst, or NAME:K"):
        gape.compare_texts(settings, tmp_path / "out", methods=("privbayes",), epsilons=(1.0,))


def test_a_column_is_drawn_given_those_before_it() -> None:
    rng = np.random.default_rng(0)
    parents = rng.integers(2, size=4000)
    values = marginals._drawn_given(np.array([[90.0, 10.0, 0.0], [0.0, 50.0, 50.0]]), [parents], 4000, rng)
    shares = [np.bincount(values[parents == parent], minlength=3) / (parents == parent).sum() for parent in (0, 1)]
    assert np.allclose(shares, [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]], atol=0.04)
    alone = marginals._drawn_given(np.array([1.0, 3.0]), [], 4000, rng)
    assert alone.mean() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(
    "column", [Choices(("a", "b"), missing=True), Numbers(0, 4, missing=True), Numbers(-2.5, 7.5, 1), Numbers(17, 90)]
)
def test_bins_become_cells_of_the_same_bin(column: Any) -> None:
    bins = np.arange(marginals._size(column)).repeat(20)
    codes = marginals._codes(column, bins, np.random.default_rng(0))
    known = column.bins(codes)
    held = np.isin(bins, known)  # a bin may hold no number of the column
    assert (known[held] == bins[held]).mean() > 0.95
    schema = Schema({"it": column, "other": Numbers(0, 1)})
    lines = schema.lines(np.stack([codes, np.zeros(len(codes))], axis=1))
    assert np.array_equal(schema.codes(lines)[:, 0], codes, equal_nan=True)


class _Copied:
    """Stands for a method of another library: it returns the first of the records that it is given."""

    def __call__(self, records: Samples, count: int, *guarantee: Any) -> Samples:
        return records[:count]


def test_a_baseline_is_given_the_voters_alone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rows, "baseline", lambda self, name: _Copied())
    found = gape.compare_texts(settings, tmp_path / "out", methods=("mst",), epsilons=(1.0,), seeds=1)
    (tv1, *_) = found.content.values()
    assert found.at_end("mst", 1.0, tv1).mean < 0.05
    assert found.caution.startswith("W1 rewards rows")
