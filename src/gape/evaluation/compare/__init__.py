"""Methods side by side: every selector at every epsilon with every seed, scored, drawn and put into a table.

NOT differentially private: private records vote under noise that can be repeated, and score the result. It is meant for
research on data that may be looked at. Nothing is charged to a ledger, because nothing that comes out may be released.

`compare_texts` does it from the settings of a text run; `compare` from parts of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from gape.core.errors import InputError
from gape.evaluation.compare.cell import Known, Result, Score, ScoredRound
from gape.evaluation.compare.figure import draw
from gape.evaluation.compare.folder import MARK, CompareFolder
from gape.evaluation.compare.grid import REAL, Builder, Cell, Grid, Method, Study
from gape.evaluation.compare.pool import Parts, run_cells
from gape.evaluation.compare.results import Comparison, SeedMean, by_voters, held_out, write_results, write_table
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
    """How far a comparison is, told after every round of every cell, and while texts are embedded and written."""

    doing: str
    done: float  # cells, those in progress by the share of their rounds
    cells: int
    detail: str = ""  # of what is being done, how much is


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
    """Run the cells of a grid that are not in the folder yet, and write tables and figure of all that are.

    Every cell is a run by `evolve` on the private records that are not held out. Cells of one seed share who is held
    out, the start and the noise, so that what differs is the method. `parts` is entered only if a cell is missing.
    `fingerprint` identifies the private data under a salt, as that of an electorate does. Whatever ends the process
    costs the cells in progress and no other: the same call goes on. A larger grid adds to what is there, other settings
    are refused. With more than one job cells run in processes of their own, which import the caller's main module: a
    script calls this under `if __name__ == "__main__"`.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    on_disk = CompareFolder(folder)
    on_disk.begin(grid, study, fingerprint)
    with on_disk.locked():
        done = {result.cell for result, _ in on_disk.finished()}
        missing = [cell for cell in grid.cells() if cell not in done]
        if missing:
            _run(on_disk, grid, study, parts, missing, jobs, progress or (lambda _: None))
        return _written(on_disk, study, [each.name for each in grid.methods])


def read_comparison(folder: str | Path) -> Comparison:
    """Write tables and figure of what is in a folder anew, cells from elsewhere included, and run nothing."""
    on_disk = CompareFolder(folder)
    study, methods = on_disk.study()
    with on_disk.locked():
        return _written(on_disk, study, methods)


def _run(
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

    def tell(doing: str) -> None:
        share = sum(turn / (study.plan.rounds + 1) for turn in running.values())
        progress(ComparisonProgress(doing, finished + share, cells))

    def keep(result: Result, made_by: Mapping[str, str]) -> None:
        nonlocal finished
        method = None if result.cell.real else grid.method(result.cell.method)
        plan = {} if method is None else asdict(study.plan_of(result.cell, method, result.units))
        on_disk.keep(result, {**study.common(), **plan}, made_by)
        running.pop(result.cell, None)
        finished += 1
        tell(f"{result.cell}: done")

    def told(cell: Cell, turn: int) -> None:
        running[cell] = turn + 1
        tell(f"{cell}: round {turn} of {study.plan.rounds}")

    tell("embedding the private records")
    with parts as made:
        on_disk.refuse_other_models(made.made_by)
        tell("starting")
        run_cells(missing, grid, study, made, jobs, lambda result: keep(result, made.made_by), told)


def _written(on_disk: CompareFolder, study: Study, asked: list[str]) -> Comparison:
    """Write tables and figure of everything in the folder; without matplotlib, the tables."""
    finished = on_disk.finished()
    others = sorted({result.cell.method for result, _ in finished} - {*asked, REAL})
    comparison = Comparison.of(study, [result for result, _ in finished], [*asked, *others])
    write_results(on_disk.path / "results", finished)
    write_table(on_disk.path / "table.md", comparison)
    try:
        require_matplotlib()
    except InputError:
        return comparison
    draw(on_disk.path, comparison)
    return comparison
