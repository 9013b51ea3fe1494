"""The error of Algorithm 3 against the number of records: its rate is set by the intrinsic dimension.

The records are uniform in a k-dimensional ball of diameter 1 that lies in d dimensions. Variations within the subspace
of the ball are held against isotropic ones, which know nothing of it. By the theorem the expected W1 error falls as
sigma^(1/k), that is as n^(-1/k) at a fixed number of rounds, whatever d is; for isotropic variations k is d.

Every cell, one run of one setting, is stored as it ends, and a cell that is stored is not run again. The noise is
seeded, so that the table can be repeated; such runs are not private, which made-up data can bear.
"""

import argparse
import csv
import itertools
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass, fields, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import free_account, write_rows
from experiments.rates.figures import draw_errors, draw_slopes

from gape._support.files import write_atomically
from gape.core.types import Floats, Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.evolution.presets import beyond_worst_case
from gape.evolution.theory import WorstCasePlan, plan_worst_case
from gape.generators.vectors import GaussianGenerator, StartFromSet
from gape.metrics.transport import wasserstein1
from gape.privacy.noise import SeededNoise
from gape.selection.bounded_lipschitz import BoundedLipschitz
from gape.voting.electorate import LocalElectorate

INTRINSIC = (2, 3, 5)  # k
AMBIENT = (10, 50, 100, 500)  # d
RECORDS = (100, 200, 400, 800, 1600)  # n
EPSILON, DELTA = 4.0, 1e-6
ROUNDS = 6  # T
RADIUS = 0.5  # of the domain, whose diameter is 1
ANTICONCENTRATION = 0.18  # c of a Gaussian
SEEDS = {2: 48, 3: 24, 5: 12}  # by k, at the largest n; twice as many below: the errors of small k vary more
OTHER_SEEDS = 4  # of what stands beside the main lines, likewise
RESAMPLES = 2_000  # of the bootstrap


@dataclass(frozen=True)
class Case:
    """One run: how candidates vary, the data, and what departs from the theorem."""

    variations: str  # "subspace" or "isotropic"
    k: int
    d: int
    n: int
    seed: int
    epsilon: float = EPSILON
    all_scales: bool = False  # down to the theorem's finest scale, 200 / c below the one used otherwise
    rounds: int = ROUNDS

    @property
    def line(self) -> str:
        """What the case is called in tables and figures."""
        without = ", no noise" if math.isinf(self.epsilon) else ""
        return self.variations + without + (", all scales" if self.all_scales else "")

    @property
    def dimension(self) -> int:
        """The dimension of the set that variations live on, which is their effective rank too."""
        return self.k if self.variations == "subspace" else self.d

    @property
    def theory(self) -> WorstCasePlan:
        """The theorem's plan at these constants, with our rounds and, unless all are asked for, fewer scales."""
        plan = plan_worst_case(
            self.n,
            EPSILON,
            DELTA,
            doubling_dimension=self.dimension,
            effective_rank=self.dimension,
            anticoncentration=ANTICONCENTRATION,
            rounds=self.rounds,
        )
        if self.all_scales:
            return plan
        return replace(plan, finest=math.ceil(math.log2(self.dimension / plan.resolution**2)))

    def rng(self) -> np.random.Generator:
        """Return a generator of the case's own: no two cases share data, directions or noise."""
        kind = [self.variations == "isotropic", math.isinf(self.epsilon), self.all_scales]
        return np.random.default_rng([*map(int, kind), self.k, self.d, self.n, self.seed])


@dataclass(frozen=True)
class Cell:
    """What a run came to."""

    case: Case
    samples: int  # m
    candidates: int  # m_V
    sigma: float  # on a count
    halfway: float  # W1 after half of the rounds
    error: float  # W1 after all rounds
    seconds: float  # of processor time


@dataclass(frozen=True)
class InBall:
    """Gaussian variations that leave the domain are brought back to its nearest point.

    The theorem's generator is supported on the domain. The domain is convex, so bringing a candidate back brings it
    nearer to every record: the contraction that the proof needs of a Gaussian still holds.
    """

    inner: GaussianGenerator

    def random(self, count: int, rng: np.random.Generator) -> Points:
        """Draw the start."""
        return self.inner.random(count, rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Points:
        """Draw one variation of each sample, within the ball."""
        varied = self.inner.vary(samples, scales, rng)
        norms = np.linalg.norm(varied, axis=1, keepdims=True)
        inside: Points = (varied * (RADIUS / np.maximum(norms, RADIUS))).astype(np.float32)
        return inside


def measure(case: Case) -> Cell:
    """Run Algorithm 3 once, and measure the exact W1 distance of its samples to the records."""
    began = time.process_time()
    rng = case.rng()
    basis = np.linalg.qr(rng.standard_normal((case.d, case.k)))[0]
    directions = rng.standard_normal((case.n, case.k))
    lengths = RADIUS * rng.random((case.n, 1)) ** (1 / case.k) / np.linalg.norm(directions, axis=1, keepdims=True)
    private = ((lengths * directions) @ basis.T).astype(np.float32)
    start = StartFromSet(np.zeros((1, case.d)))
    if case.variations == "subspace":
        generator = GaussianGenerator.low_rank(start, basis)
    else:
        generator = GaussianGenerator.isotropic(start, case.d)
    plan, selector = prepared(case, int(rng.integers(2**31)))
    parts = (InBall(generator), IdentityEmbedder(), LocalElectorate(private), selector)
    with free_account() as account:
        history = evolve(plan, *parts, account, noise=SeededNoise(plan.seed))
        samples = {state.round: state.synthetic for state in history if state.proposal is None}
    halfway, error = (wasserstein1(private, samples[turn]) for turn in (plan.rounds // 2, plan.rounds))
    return Cell(case, plan.samples, plan.candidates, plan.sigma, halfway, error, time.process_time() - began)


def prepared(case: Case, seed: int) -> tuple[Plan, BoundedLipschitz]:
    """Return plan and selector; a case without noise keeps all else that follows from epsilon."""
    preset = beyond_worst_case(case.theory, without_guarantee=True, seed=seed)
    if math.isinf(case.epsilon):
        return replace(preset.plan, epsilon=math.inf, sigma=0.0), BoundedLipschitz(case.n)
    return preset.plan, BoundedLipschitz(case.n)


_Place: TypeAlias = tuple[int, int, int, int]  # k, d, n, seed


def grid(most: int | None = None) -> list[Case]:
    """Return all cases of the full run, with at most `most` seeds each."""

    def places(seeds: dict[int, int], ambient: Sequence[int], records: Sequence[int]) -> Iterator[_Place]:
        for k, d, n in itertools.product(INTRINSIC, ambient, records):
            wanted = seeds[k] if n == RECORDS[-1] else 2 * seeds[k]
            for seed in range(wanted if most is None else min(wanted, most)):
                yield k, d, n, seed

    few = dict.fromkeys(INTRINSIC, OTHER_SEEDS)
    return [
        *(Case("subspace", *place) for place in places(SEEDS, AMBIENT, RECORDS)),
        *(Case("isotropic", *place) for place in places(few, AMBIENT, RECORDS)),
        *(Case("subspace", *place, math.inf) for place in places(few, AMBIENT, RECORDS)),
        # The largest n would take as long as all others together.
        *(Case("subspace", *place, all_scales=True) for place in places(few, AMBIENT[:1], RECORDS[:-1])),
    ]


def compute(file: Path, cases: Iterable[Case], jobs: int) -> None:
    """Run the cases that `file` has not got, and add each to it as it ends; the largest first."""
    cells = stored(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join([_HEADER, *map(_line, cells)]).encode())  # without what a crash cut short
    done = {cell.case for cell in cells}
    missing = sorted((case for case in cases if case not in done), key=lambda case: (case.n, case.d), reverse=True)
    with file.open("a") as out:
        for count, cell in enumerate(_measured(missing, jobs), start=1):
            out.write(_line(cell))
            out.flush()
            if count % 100 == 0:
                print(f"{count} of {len(missing)} runs", flush=True)


def _measured(cases: Sequence[Case], jobs: int) -> Iterator[Cell]:
    """Yield the cells in the order in which `jobs` processes end them."""
    if jobs == 1:
        yield from map(measure, cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(measure, case) for case in cases]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_CASE = [field.name for field in fields(Case)]
_FIGURES = [field.name for field in fields(Cell)][1:]
_HEADER = ",".join([*_CASE, *_FIGURES]) + "\n"


def _line(cell: Cell) -> str:
    return ",".join(map(str, [*astuple(cell.case), *astuple(cell)[1:]])) + "\n"


def stored(file: Path) -> list[Cell]:
    """Read the cells of a file, up to the last whole line; none if there is no file."""
    if not file.exists():
        return []
    whole = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [_cell(row) for row in csv.DictReader(whole)]


def _cell(row: dict[str, str]) -> Cell:
    numbers: dict[str, Any] = {name: int(row[name]) for name in ("k", "d", "n", "seed", "rounds")}
    all_scales = row["all_scales"] == "True"
    case = Case(row["variations"], **numbers, epsilon=float(row["epsilon"]), all_scales=all_scales)
    figures = (float(row[name]) for name in _FIGURES[2:])
    return Cell(case, int(row["samples"]), int(row["candidates"]), *figures)


def slope(errors: Sequence[Floats], records: Sequence[int]) -> tuple[float, float, float]:
    """Return the slope of log mean error over log n, by least squares, with its 95% bootstrap interval over the seeds.

    `errors` holds those of all seeds for each n. Cells are independent, so the seeds of each n are drawn anew.
    """
    rng = np.random.default_rng(0)
    means = np.array([each[rng.integers(len(each), size=(RESAMPLES, len(each)))].mean(axis=1) for each in errors])
    fits = np.polyfit(np.log(records), np.log(means), 1)[0]
    low, high = np.percentile(fits, [2.5, 97.5])
    fit = np.polyfit(np.log(records), np.log([each.mean() for each in errors]), 1)[0]
    return float(fit), float(low), float(high)


def tabulated(cells: Sequence[Cell]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the mean error of every line at every n, and the slope of every line."""
    lines: dict[tuple[str, int, int], dict[int, list[Cell]]] = {}
    for cell in sorted(cells, key=lambda cell: tuple(map(str, astuple(cell.case)))):
        by_n = lines.setdefault((cell.case.line, cell.case.k, cell.case.d), {})
        by_n.setdefault(cell.case.n, []).append(cell)
    errors: list[dict[str, Any]] = []
    slopes: list[dict[str, Any]] = []
    for (line, k, d), by_n in sorted(lines.items()):
        found = [by_n[n] for n in sorted(by_n)]
        place = {"variations": line, "k": k, "d": d}
        for some in found:
            values = np.array([cell.error for cell in some])
            row = {
                "n": some[0].case.n,
                "m": some[0].samples,
                "m_V": some[0].candidates,
                "seeds": len(some),
                "mean W1": float(values.mean()),
                "standard error": float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else "",
                "mean W1 halfway": float(np.mean([cell.halfway for cell in some])),
            }
            errors.append(place | row)
        if len(found) > 1:
            fit, low, high = slope([np.array([cell.error for cell in some]) for some in found], sorted(by_n))
            theory = -1 / found[0][0].case.dimension
            slopes.append(place | {"by theory": theory, "slope": fit, "low": low, "high": high})
    return errors, slopes


def agreement(slopes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each k and line but the isotropic, how far the slopes of the ambient dimensions lie apart."""
    rows = []
    for line, k in dict.fromkeys((row["variations"], row["k"]) for row in slopes):
        if line == "isotropic":
            continue  # the theorem says that these differ
        found = np.array([row["slope"] for row in slopes if (row["variations"], row["k"]) == (line, k)])
        if len(found) > 1:
            row = {
                "variations": line,
                "k": k,
                "ambient dimensions": len(found),
                "by theory": -1 / k,
                "mean slope": float(found.mean()),
                "steepest": float(found.min()),
                "flattest": float(found.max()),
                "apart, share of the mean": float(np.ptp(found) / abs(found.mean())),
            }
            rows.append(row)
    return rows


def report(out: Path, cells: Sequence[Cell]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Write tables and figures of the cells into `out`; return the slopes and how far they lie apart."""
    errors, slopes = tabulated(cells)
    apart = agreement(slopes)
    for name, rows in (("errors", errors), ("slopes", slopes), ("agreement", apart)):
        if rows:
            write_rows(out, name, rows)
    draw_errors(out / "errors.png", errors)
    draw_slopes(out / "slopes.png", slopes)
    print(f"{len(cells)} runs, {sum(cell.seconds for cell in cells) / 60:.1f} minutes of one core")
    return slopes, apart


def run(out: Path, cases: Iterable[Case], jobs: int = 2) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run what is missing of the cases, and make tables and figures of all that is stored in `out`."""
    compute(out / "cells.csv", cases, jobs)
    return report(out, stored(out / "cells.csv"))


def main() -> None:
    """Read the options, and run or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, help="most runs of each setting (4 to 96, by setting)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--only", choices=("runs", "report"), help="only run and store, or only report what is stored")
    chosen = parser.parse_args()
    for name in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # the processes share the cores; each that is started reads this
    if chosen.only != "report":
        compute(chosen.out / "cells.csv", grid(chosen.seeds), chosen.jobs)
    if chosen.only != "runs":
        report(chosen.out, stored(chosen.out / "cells.csv"))


if __name__ == "__main__":
    main()
