"""`gape demo`: text in three minutes, or the paper's experiment in the plane."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gape.cli.demos.clusters import DemoResult, run_clusters
from gape.cli.demos.questions import RUN, TextDemo, run_questions
from gape.cli.live import watching
from gape.cli.shared import errors_in_one_line, notes, output, print_statement
from gape.evolution.state import State
from gape.privacy.accounting import stated

_ROUNDS = 20
_METHODS = 3
_SHOWN = 8


@errors_in_one_line()
def demo(
    out: Annotated[Path, typer.Option(help="New folder for the run and its figures.")] = Path("gape-demo"),
    epsilon: Annotated[float, typer.Option(help="Privacy of each run; inf for no noise and no privacy.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Of everything but the noise, which has none.")] = 0,
    clusters: Annotated[  # noqa: FBT002  (a flag, for typer)
        bool, typer.Option("--clusters", help="Two clusters in the plane instead, by three methods: the paper's.")
    ] = False,
) -> None:
    """Make synthetic forum questions from 1,269 real ones, with the embedded model, and draw how near they come.

    The questions are public domain and play the private data, so that the figure may show them.
    """
    console = output()
    if clusters:
        _clusters(console, out, epsilon, seed)
        return
    with watching() as progress:
        made = run_questions(out, epsilon, seed, progress)
    _print_texts(console, out, made)


def _print_texts(console: Console, out: Path, made: TextDemo) -> None:
    console.print(f"{len(made.result)} synthetic texts, for instance:", style="bold")
    for text in made.result.texts[:_SHOWN]:
        console.print(f"- {text}", markup=False)
    print_statement(console, made.result.privacy)
    start, *_, end = made.gaps
    console.print("\nHow near it came", style="bold")
    console.print(
        f"The mean distance from {made.measured} of the {made.records:,} private texts to the nearest synthetic one "
        f"went from {start:.3f} to {end:.3f} (texts of equal meaning are at 0, unrelated ones at 1.3 or so)."
    )
    console.print(str(made.figure), markup=False, soft_wrap=True)
    console.print("\nNow your own", style="bold")
    console.print(f"`gape plan FILE --epsilon 1` costs nothing; the run of this demo is in {out / RUN}.", markup=False)


def _clusters(console: Console, out: Path, epsilon: float, seed: int) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    terminal = notes()
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("Starting", total=_METHODS * _ROUNDS)

        def show(method: str, state: State) -> None:
            finished_round = state.proposal is None and state.round > 0
            bar.update(task, description=method, advance=int(finished_round))

        result = run_clusters(out, epsilon, seed, _ROUNDS, progress=show)
    _print_clusters(console, result)


def _print_clusters(console: Console, result: DemoResult) -> None:
    table = Table("method", "clusters kept", "cost of the run", title="Two clusters, nine to one", title_style="bold")
    for each in result.runs:
        table.add_row(each.method, f"{each.clusters_kept} of 2", _cost(each.statement.epsilon, result.delta))
    console.print(table)
    if math.isfinite(result.dataset_epsilon):
        total = _cost(result.dataset_epsilon, result.delta)
        console.print(f"All {len(result.runs)} runs read the same dataset, and cost it {total} together.")
    console.print(f"\nOf the {result.runs[-1].method} run:")
    print_statement(console, result.runs[-1].statement)
    console.print("\nFigures, which may show the private points because they are made up:", style="bold")
    for path in (result.comparison, *(each.figure for each in result.runs)):
        console.print(str(path), markup=False, soft_wrap=True)


def _cost(epsilon: float, delta: float) -> str:
    return f"epsilon {stated(epsilon, 3)} at delta {stated(delta, 2)}" if math.isfinite(epsilon) else "NOT PRIVATE"
