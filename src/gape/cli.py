"""The command line: `gape demo` and `gape privacy`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gape import __version__
from gape.demo import DemoResult, run_demo
from gape.errors import GapeError, PrivacyError
from gape.privacy.accounting import Neighbours, noise_scale, paper_noise_scale
from gape.state import State

# Tracebacks must never show local variables: some hold private data.
app = typer.Typer(
    name="gape",
    help="Differentially private synthetic data by Private Evolution, with geometry-aware selection.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)

_DEMO_ROUNDS = 20
_DEMO_METHODS = 3
_USUAL_EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 100.0)


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Turn what can go wrong into one line on standard error and an exit code."""
    try:
        yield
    except GapeError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        place = f" at {error.filename}" if error.filename else ""
        typer.echo(f"error: {error.strerror or error}{place}; use another folder or make room", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; what was released before stays charged", err=True)
        raise typer.Exit(130) from None


def _print_version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it so)
    if wanted:
        typer.echo(f"gape {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[  # noqa: FBT002  (a flag, for typer)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
@_errors_in_one_line()
def demo(
    out: Annotated[Path, typer.Option(help="New folder for the runs and figures.")] = Path("gape-demo"),
    epsilon: Annotated[float, typer.Option(help="Privacy of each run; inf for no noise and no privacy.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Of the made-up data and the generator; the noise has none.")] = 0,
) -> None:
    """Run ranking, subsampling and GAPE on two clusters in the plane, and draw what each keeps.

    The private data is made up, so that the figures may show it.
    """
    console = Console(highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    terminal = Console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("Starting", total=_DEMO_METHODS * _DEMO_ROUNDS)

        def show(method: str, state: State) -> None:
            finished_round = state.proposal is None and state.round > 0
            bar.update(task, description=method, advance=int(finished_round))

        result = run_demo(out, epsilon, seed, _DEMO_ROUNDS, progress=show)
    _print_demo(console, result)


def _print_demo(console: Console, result: DemoResult) -> None:
    table = Table("method", "clusters kept", "cost of the run", title="Two clusters, nine to one", title_style="bold")
    for each in result.runs:
        table.add_row(each.method, f"{each.clusters_kept} of 2", _cost(each.statement.epsilon, result.delta))
    console.print(table)
    if math.isfinite(result.dataset_epsilon):
        total = _cost(result.dataset_epsilon, result.delta)
        console.print(f"All {len(result.runs)} runs read the same dataset, and cost it {total} together.")
    statement = result.runs[-1].statement
    style = "green" if statement.private else "bold white on red"
    console.print(f"\nPrivacy of the {result.runs[-1].method} run:", style="bold")
    console.print(statement.text(), style=style, markup=False)
    console.print("\nFigures, which may show the private points because they are made up:", style="bold")
    for path in (result.comparison, *(each.figure for each in result.runs)):
        console.print(str(path), markup=False, soft_wrap=True)


def _cost(epsilon: float, delta: float) -> str:
    return f"epsilon {epsilon:.3g} at delta {delta:.2g}" if math.isfinite(epsilon) else "NOT PRIVATE"


@app.command()
@_errors_in_one_line()
def privacy(
    delta: Annotated[float, typer.Option(help="1 / (n log n) is usual for n records.")],
    rounds: Annotated[int, typer.Option(help="How often votes are released.")],
    epsilon: Annotated[list[float] | None, typer.Option(help="May be repeated; some usual ones if omitted.")] = None,
    neighbours: Annotated[Neighbours, typer.Option(help="What one record's privacy means.")] = "replace",
) -> None:
    """Print the noise that keeps all rounds together (epsilon, delta)-differentially private.

    Beside it stands the paper's closed form, which is for neighbours by replacement and for epsilon below 1.
    """
    table = Table()
    for heading in ("epsilon", "sigma, in votes", "paper's closed form"):
        table.add_column(heading, justify="right")
    for each in epsilon or _USUAL_EPSILONS:
        sigma = noise_scale(each, delta, rounds, neighbours=neighbours)
        private = math.isfinite(each)
        printed = _closed_form(each, delta, rounds) if private else ""
        table.add_row(f"{each:g}", f"{sigma:.6g}" if private else "0: NOT PRIVATE", printed)
    console = Console(highlight=False)
    console.print(f"Noise on every vote: {rounds} rounds, delta {delta:g}, neighbours by {neighbours}", style="bold")
    console.print(table)


def _closed_form(epsilon: float, delta: float, rounds: int) -> str:
    try:
        return f"{paper_noise_scale(epsilon, delta, rounds):.6g}"
    except PrivacyError:
        return "not proved for epsilon >= 1"


def main() -> None:
    """Run the command line."""
    app()
