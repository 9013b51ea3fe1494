"""The rates: cells are run once and survive a cut, and the slopes are set by the intrinsic dimension."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.rates import run as rates

from figures import is_a_drawing
from gape._support.geometry import distances
from gape.evolution.theory import plan_worst_case
from gape.generators.vectors import GaussianGenerator, StartFromSet

SMALL = [
    *(rates.Case("subspace", 2, d, n, seed) for d in (3, 6) for n in (40, 80) for seed in range(2)),
    *(rates.Case("isotropic", 2, 6, n, 0) for n in (40, 80)),
    *(rates.Case("subspace", 2, 3, n, 0, math.inf) for n in (40, 80)),
]


def test_glance_writes_tables_and_figures_and_runs_no_cell_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slopes, apart = rates.run(tmp_path, SMALL, jobs=1)
    assert {(row["variations"], row["d"]) for row in slopes} == {
        ("subspace", 3), ("subspace", 6), ("isotropic", 6), ("subspace, no noise", 3),
    }  # fmt: skip
    assert [(row["variations"], row["k"], row["ambient dimensions"]) for row in apart] == [("subspace", 2, 2)]
    for table, rows in (("errors", 8), ("slopes", 4), ("agreement", 1)):
        with (tmp_path / f"{table}.csv").open(newline="") as opened:
            assert len(list(csv.DictReader(opened))) == rows
        assert len((tmp_path / f"{table}.md").read_text().splitlines()) == rows + 2
    assert all(is_a_drawing(tmp_path / f"{name}.png") for name in ("errors", "slopes"))

    file = tmp_path / "cells.csv"
    whole = file.read_bytes()
    monkeypatch.setattr(rates, "measure", lambda case: pytest.fail(f"{case} was run again"))
    rates.compute(file, SMALL, jobs=1)
    assert file.read_bytes() == whole


def test_a_cell_that_was_cut_short_is_run_again_and_comes_to_the_same(tmp_path: Path) -> None:
    file = tmp_path / "cells.csv"
    rates.compute(file, SMALL[:3], jobs=1)
    whole = rates.stored(file)
    file.write_bytes(file.read_bytes()[:-9])
    assert rates.stored(file) == whole[:-1]
    rates.compute(file, SMALL[:3], jobs=1)
    assert [replace(cell, seconds=0.0) for cell in rates.stored(file)] == [replace(c, seconds=0.0) for c in whole]


def test_cells_are_read_as_they_were_written(tmp_path: Path) -> None:
    cases = [rates.Case("subspace", 3, 4, 30, 7, math.inf), rates.Case("isotropic", 2, 4, 30, 1, all_scales=True)]
    rates.compute(tmp_path / "cells.csv", cases, jobs=1)
    assert {cell.case for cell in rates.stored(tmp_path / "cells.csv")} == set(cases)


def test_a_case_departs_from_the_theorem_in_rounds_and_finest_scale_alone() -> None:
    case = rates.Case("subspace", 3, 50, 400, 0, all_scales=True)
    constants = {"doubling_dimension": 3, "effective_rank": 3, "anticoncentration": 0.18}
    plan = plan_worst_case(400, rates.EPSILON, rates.DELTA, **constants, rounds=rates.ROUNDS)
    assert case.theory == plan
    fewer = replace(case, all_scales=False).theory
    assert fewer == replace(plan, finest=fewer.finest)
    assert (
        plan.resolution**2 / 6 < fewer.scales[-1] <= plan.resolution**2 / 3
    )  # the power of two below alpha^2 / lambda
    assert replace(case, variations="isotropic").theory.effective_rank == 50


def test_no_two_cases_share_randomness() -> None:
    case = rates.Case("subspace", 2, 10, 100, 0)
    others = (
        replace(case, d=50), replace(case, k=3), replace(case, n=200), replace(case, seed=1),
        replace(case, variations="isotropic"), replace(case, epsilon=math.inf), replace(case, all_scales=True),
    )  # fmt: skip
    assert len({float(each.rng().random()) for each in (case, *others)}) == len(others) + 1


def test_bringing_variations_back_brings_them_nearer_to_every_record() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((7, 2)))[0]
    start = StartFromSet(np.zeros((1, 7)))
    free = GaussianGenerator.low_rank(start, basis)
    held = rates.InBall(free)
    samples, scales = held.random(200, rng), np.full(200, 0.5)
    outside, inside = (each.vary(samples, scales, np.random.default_rng(1)) for each in (free, held))
    assert (np.linalg.norm(outside, axis=1) > rates.RADIUS).sum() > 50
    assert np.linalg.norm(inside, axis=1).max() <= rates.RADIUS * (1 + 1e-6)
    assert np.abs(inside - inside @ basis @ basis.T).max() <= 1e-6  # still in the subspace
    records = rng.uniform(-0.3, 0.3, (50, 2)) @ basis.T
    assert (distances(inside, records) <= distances(outside, records) + 1e-6).all()


def test_slope_of_a_power_law_is_its_exponent() -> None:
    records = (100, 200, 400, 800)
    exact = [np.full(5, 3.0 * n**-0.25) for n in records]
    assert rates.slope(exact, records) == pytest.approx((-0.25, -0.25, -0.25))
    rng = np.random.default_rng(0)
    fit, low, high = rates.slope([each * rng.uniform(0.8, 1.2, 5) for each in exact], records)
    assert low < -0.25 < high
    assert low < fit < high
    assert 0.02 < high - low < 0.3


def test_the_published_slopes_agree_across_ambient_dimensions_and_are_ordered_in_k() -> None:
    with (Path(rates.__file__).parent / "results" / "agreement.csv").open(newline="") as file:
        rows = {int(row["k"]): row for row in csv.DictReader(file) if row["variations"] == "subspace"}
    assert all(
        float(row["apart, share of the mean"]) <= 0.15 and row["ambient dimensions"] == "4" for row in rows.values()
    )
    steepest, flattest = ({k: float(row[name]) for k, row in rows.items()} for name in ("steepest", "flattest"))
    assert flattest[2] < steepest[3] < flattest[3] < steepest[5] < 0


@pytest.mark.slow
def test_slopes_are_set_by_the_intrinsic_dimension_and_not_by_the_ambient_one(tmp_path: Path) -> None:
    records = rates.RECORDS[:-1]
    cases = [
        *(rates.Case("subspace", 5, d, n, seed) for d in (10, 100) for n in records for seed in range(12)),
        *(rates.Case("subspace", 2, 10, n, seed) for n in records for seed in range(8)),
        *(rates.Case("isotropic", 5, 100, n, seed) for n in records for seed in range(2)),
    ]
    slopes, apart = rates.run(tmp_path, cases, jobs=2)
    found = {(row["variations"], row["k"], row["d"]): row["slope"] for row in slopes}
    narrow, wide = found["subspace", 5, 10], found["subspace", 5, 100]
    assert max(narrow, wide) < -0.15
    assert min(narrow, wide) > -0.27  # by theory -1/5
    assert apart[0]["apart, share of the mean"] <= 0.2  # the full run, with more seeds and records, is held to 15%
    assert found["subspace", 2, 10] < min(narrow, wide)  # by theory -1/2
    assert found["isotropic", 5, 100] > wide / 2
    cells = rates.stored(tmp_path / "cells.csv")
    last = [cell for cell in cells if cell.case.k == 5 and cell.case.n == records[-1]]
    start = 5 / 12  # W1 of the centre of the ball: what isotropic variations win, the noise undoes, and more
    assert all((cell.error > start) == (cell.case.variations == "isotropic") for cell in last)
