"""`gape demo`: synthetic text or images in minutes, or the paper's experiment with two clusters."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from gape._support.files import require_writable_folder
from gape.cli.demos.clusters import DemoResult, run_clusters
from gape.cli.demos.digits import MNIST, DigitDemo, run_digits
from gape.cli.demos.questions import RUN, TextDemo, run_questions
from gape.cli.live import watching
from gape.cli.models import fetch_visibly
from gape.cli.shared import errors_in_one_line, notes, output, print_statement
from gape.evolution.state import State
from gape.language.weights import FONTS
from gape.privacy.accounting import stated

_ROUNDS = 20
_METHODS = 3
_SHOWN = 8
_SHOWN_CHARACTERS = 240


@errors_in_one_line()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for the run and its figures. Defaults to gape-demo, or gape-demo-images."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Epsilon of each run; inf for no noise and no privacy.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Random seed for everything except the noise, which is never seeded.")] = 0,
    clusters: Annotated[  # noqa: FBT002  (a typer flag)
        bool, typer.Option("--clusters", help="Run the paper's two-cluster experiment with three methods instead.")
    ] = False,
    images: Annotated[  # noqa: FBT002  (likewise)
        bool, typer.Option("--images", help="Draw synthetic digits from 20,000 handwritten ones of MNIST instead.")
    ] = False,
) -> None:
    """Make synthetic forum posts from 525 real ones with the embedded model, and plot how close they get.

    The posts are in the public domain and stand in for private data, so the demo may show them.
    """
    console = output()
    out = out or Path("gape-demo-images" if images else "gape-demo")
    if clusters:
        _clusters(console, out, epsilon, seed)
        return
    require_writable_folder(out)
    if images:
        for weights in (MNIST, *FONTS):
            fetch_visibly(weights)
        with watching() as progress:
            drawn = run_digits(out, epsilon, seed, progress)
        _print_digits(console, out, drawn)
        return
    with watching() as progress:
        made = run_questions(out, epsilon, seed, progress)
    _print_texts(console, out, made)


def _print_digits(console: Console, out: Path, made: DigitDemo) -> None:
    console.print(f"{len(made.result)} synthetic digits, for instance:", style="bold")
    for text in made.result.texts[:: max(1, len(made.result) // 3)][:3]:
        console.print(text.strip("\n"), markup=False)
    print_statement(console, made.result.privacy)
    start, *_, end = made.gaps
    before, after = made.accuracy
    console.print("\nHow close it got", style="bold")
    console.print(
        f"The mean distance from a private digit to the nearest synthetic one went from {start:.3f} to {end:.3f}. A "
        f"linear classifier trained on the synthetic digits labels {after:.0%} of 10,000 real ones that did not vote "
        f"correctly; trained on the digits before the first round, {before:.0%}."
    )
    console.print(str(made.figure), markup=False, soft_wrap=True)
    console.print("\nNow with your own images", style="bold")
    console.print(
        f"`gape plan FOLDER --modality images --epsilon 1`. The run of this demo is in {out / RUN}.", markup=False
    )


def _print_texts(console: Console, out: Path, made: TextDemo) -> None:
    console.print(f"{len(made.result)} synthetic texts, for instance:", style="bold")
    for text in made.result.texts[:_SHOWN]:
        console.print(f"- {text}", markup=False)
    console.print("\nSide by side", style="bold")
    table = Table("private, shown because it is public", "the nearest synthetic text", show_lines=True)
    for private, synthetic in made.pairs:
        table.add_row(Text(_short(private)), Text(_short(synthetic)))
    console.print(table)
    print_statement(console, made.result.privacy)
    start, *_, end = made.gaps
    console.print("\nHow close it got", style="bold")
    console.print(
        f"The mean distance from {made.measured} of the {made.records:,} private texts to the nearest synthetic one "
        f"went from {start:.3f} to {end:.3f} (texts of equal meaning are at 0, unrelated ones at about 1.3)."
    )
    console.print(str(made.figure), markup=False, soft_wrap=True)
    console.print("\nNow with your own data", style="bold")
    console.print(f"`gape plan FILE --epsilon 1` costs nothing. The run of this demo is in {out / RUN}.", markup=False)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS].rsplit(maxsplit=1)[0] + " ..."


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
    for run in result.runs:
        table.add_row(run.method, f"{run.clusters_kept} of 2", _cost(run.statement.epsilon, result.delta))
    console.print(table)
    if math.isfinite(result.dataset_epsilon):
        total = _cost(result.dataset_epsilon, result.delta)
        console.print(f"All {len(result.runs)} runs read the same dataset; together they cost it {total}.")
    console.print(f"\nFor the {result.runs[-1].method} run:")
    print_statement(console, result.runs[-1].statement)
    console.print("\nFigures, which may show the private points because they are made up:", style="bold")
    for path in (result.comparison, *(run.figure for run in result.runs)):
        console.print(str(path), markup=False, soft_wrap=True)


def _cost(epsilon: float, delta: float) -> str:
    return f"epsilon {stated(epsilon, 3)} at delta {stated(delta, 2)}" if math.isfinite(epsilon) else "NOT PRIVATE"
