"""Compare methods: run every selector at every epsilon with every seed, score the runs, and write tables and figures.

NOT differentially private: private records vote under seeded noise, and the same data scores the result. This is for
research on data that may be looked at. Nothing is charged to a ledger, because the output must not be released.

`compare_texts` starts from the settings of a text run, `compare` from your own parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from gape.core.errors import InputError
from gape.evaluation.compare.cell import Known, Result, Score, ScoredRound
from gape.evaluation.compare.figure import draw_figures
from gape.evaluation.compare.folder import MARK, CompareFolder
from gape.evaluation.compare.grid import REAL, Builder, Cell, Grid, Method, Study
from gape.evaluation.compare.pool import Parts, run_cells
from gape.evaluation.compare.results import Comparison, SeedMean, by_voters, held_out, write_means, write_results
from gape.evaluation.plots import require_matplotlib

__all__ = [
    "MARK",
    "REAL",
    "Builder",
    "Cell",
    "Comparison",
    "ComparisonProgress",
    "Grid",
    "Known",
    "Method",
    "Parts",
    "Result",
    "Score",
    "ScoredRound",
    "SeedMean",
    "Study",
    "by_voters",
    "compare",
    "held_out",
    "read_comparison",
]


@dataclass(frozen=True)
class ComparisonProgress:
    """Progress of a comparison, reported after every round of every cell, and while texts are embedded or written."""

    doing: str
    done: float  # number of cells; a cell in progress counts by the share of its finished rounds
    cells: int
    detail: str = ""  # progress within the current step, in words


def compare(
    folder: str | Path,
    grid: Grid,
    study: Study,
    parts: AbstractContextManager[Parts],
    fingerprint: Callable[[bytes], str],
    *,
    jobs: int = 1,
    progress: Callable[[ComparisonProgress], None] | None = None,
) -> Comparison:
    """Run the cells of a grid that are missing from the folder, and write tables and figures of all cells in it.

    Each cell runs `evolve` on the private records that are not held out. Cells with the same seed share the held-out
    records, the start and the noise, so they differ only in the method. `parts` is entered only if a cell is missing.
    `fingerprint` identifies the private data under a salt, like `Electorate.fingerprint`. If the process ends, only the
    cells in progress are lost: repeat the call to resume. A larger grid adds cells to the folder; different settings
    are refused. With more than one job, cells run in worker processes that import the caller's main module, so a
    script must call this under `if __name__ == "__main__"`.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    on_disk = CompareFolder(folder)
    on_disk.begin(grid, study, fingerprint)
    with on_disk.locked():
        done = {result.cell for result, _ in on_disk.finished()}
        missing = [cell for cell in grid.cells() if cell not in done]
        if missing:
            _run_missing(on_disk, grid, study, parts, missing, jobs, progress or (lambda _: None))
        return _write_summary(on_disk, study, [method.name for method in grid.methods])


def read_comparison(folder: str | Path) -> Comparison:
    """Rewrite the tables and figures from the cells in a folder, including cells copied into it, and run nothing."""
    on_disk = CompareFolder(folder)
    study, methods = on_disk.study()
    with on_disk.locked():
        return _write_summary(on_disk, study, methods)


def _run_missing(
    on_disk: CompareFolder,
    grid: Grid,
    study: Study,
    parts: AbstractContextManager[Parts],
    missing: list[Cell],
    jobs: int,
    progress: Callable[[ComparisonProgress], None],
) -> None:
    cells, finished = len(grid.cells()), len(grid.cells()) - len(missing)
    running: dict[Cell, int] = {}

    def report(doing: str) -> None:
        share = sum(turn / (study.plan.rounds + 1) for turn in running.values())
        progress(ComparisonProgress(doing, finished + share, cells))

    def keep(result: Result, made_by: Mapping[str, str]) -> None:
        nonlocal finished
        method = None if result.cell.real else grid.method(result.cell.method)
        plan = (
            {}
            if method is None or method.baseline is not None
            else asdict(study.plan_of(result.cell, method, result.units))
        )
        described = {} if method is None else method.described
        on_disk.keep(result, {**study.common(), **described, **plan}, made_by)
        running.pop(result.cell, None)
        finished += 1
        report(f"{result.cell}: done")

    def on_round(cell: Cell, turn: int) -> None:
        running[cell] = turn + 1
        report(f"{cell}: round {turn} of {study.plan.rounds}")

    report("embedding the private records")
    with parts as entered:
        on_disk.refuse_other_models(entered.made_by)
        report("starting")
        run_cells(missing, grid, study, entered, jobs, lambda result: keep(result, entered.made_by), on_round)


def _write_summary(on_disk: CompareFolder, study: Study, asked: list[str]) -> Comparison:
    """Write the tables of all cells in the folder, and the figures if matplotlib is installed."""
    finished = on_disk.finished()
    others = sorted({result.cell.method for result, _ in finished} - {*asked, REAL})
    comparison = Comparison.of(study, [result for result, _ in finished], [*asked, *others])
    write_results(on_disk.path / "results", finished)
    write_means(on_disk.path / "table.md", comparison)
    try:
        require_matplotlib()
    except InputError:
        return comparison
    draw_figures(on_disk.path, comparison)
    return comparison
