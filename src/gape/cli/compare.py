"""`gape compare`: selectors, epsilons and seeds against each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gape._support.parallel import cores
from gape.cli.flags import takes_settings
from gape.cli.models import fetch_missing
from gape.cli.shared import INTERRUPTED, errors_in_one_line, notes, output, say
from gape.core.errors import InputError
from gape.evaluation.compare import MARK, Comparison, Moment, held_out
from gape.evaluation.compare.results import in_words, label_of
from gape.evaluation.compare.texts import EPSILONS, METHODS, SEEDS, Scoring, compare_texts
from gape.runs.settings import Settings

_GROUP = "Comparison"


@errors_in_one_line()
@takes_settings
def compare(
    settings: Settings,
    out: Annotated[
        Path | None, typer.Option(help="Folder; by default comparisons/ and the name of DATA.", rich_help_panel=_GROUP)
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Presets or selectors, separated by commas.", rich_help_panel=_GROUP)
    ] = ",".join(METHODS),
    epsilons: Annotated[
        str, typer.Option(help="Separated by commas; inf for no noise.", rich_help_panel=_GROUP)
    ] = ",".join(f"{each:g}" for each in EPSILONS),
    seeds: Annotated[int, typer.Option(help="How many, counted from --seed.", rich_help_panel=_GROUP)] = SEEDS,
    held_out: Annotated[
        float, typer.Option(help="Share of the records, or users, that do not vote.", rich_help_panel=_GROUP)
    ] = Scoring.held_out,
    scored: Annotated[
        int, typer.Option(help="Most records of each part that score.", rich_help_panel=_GROUP)
    ] = Scoring.scored,
    k: Annotated[
        int, typer.Option(help="Balls of recall reach to the k-th nearest other record.", rich_help_panel=_GROUP)
    ] = Scoring.k,
    blur: Annotated[float, typer.Option(help="Of the Sinkhorn divergence.", rich_help_panel=_GROUP)] = Scoring.blur,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default one for every core.", rich_help_panel=_GROUP)
    ] = None,
) -> None:
    """Compare methods over epsilons and seeds, as the paper's figures do. For research: NOT differentially private.

    A part of the private records is held out, the others vote, and both score, which no noise covers. So nothing is
    charged to a ledger, everything is marked, and nothing that is written may be released unless the data is public.
    Takes the flags of `gape run`, which hold for all methods. Stopped or killed, the same command goes on; with more
    methods, epsilons or seeds it adds to what is there.
    """
    folder = out or Path("comparisons") / (Path(settings.data).name.partition(".")[0] or "comparison")
    chosen = [name.strip() for name in methods.split(",") if name.strip()]
    numbers = _numbers(epsilons)
    fetch_missing(settings)
    with _goes_on(folder), _watching() as progress:
        comparison = compare_texts(
            settings,
            folder,
            methods=chosen,
            epsilons=numbers,
            seeds=seeds,
            scoring=Scoring(held_out, scored, k, blur),
            jobs=cores() if jobs is None else jobs,
            progress=progress,
        )
    _print(output(), folder, comparison)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"epsilons must be numbers separated by commas, got {text!r}") from None


@contextmanager
def _goes_on(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped; finished cells are kept in {folder}: the same command goes on from here")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _watching() -> Iterator[Callable[[Moment], None]]:
    """Show how far it is on standard error: a bar in a terminal, a line for every finished cell elsewhere."""
    terminal = notes()
    if not terminal.is_terminal:
        last = ""

        def print_cells(now: Moment) -> None:
            nonlocal last
            if now.doing != last and " round " not in now.doing:
                terminal.print(f"{int(now.done)} of {now.cells} cells: {now.doing}", markup=False)
                last = now.doing

        yield print_cells
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(now: Moment) -> None:
            said = f"{now.doing}, {now.detail}" if now.detail else now.doing
            bar.update(task, description=said, completed=int(now.done), total=now.cells)

        yield show


def _print(console: Console, folder: Path, comparison: Comparison) -> None:
    console.print(MARK, style="bold red")
    for name, title in (("recall", "Recall of records that did not vote"), ("sinkhorn", "Sinkhorn W1 to them")):
        value = held_out(name)
        table = Table("", *(in_words(each) for each in comparison.epsilons), title=title, title_style="bold")
        for method in comparison.methods:
            found = (comparison.at_end(method, epsilon, value) for epsilon in comparison.epsilons)
            table.add_row(label_of(method), *map(str, found))
        table.add_row("start", str(comparison.at_start(value)))
        table.add_row("as many real records", str(comparison.of_real(value)))
        console.print(table)
    seeds = len(comparison.seeds)
    console.print("One seed." if seeds == 1 else f"Means over {seeds} seeds, with the lowest and the highest.")
    for file in ("table.md", "figure.png", "further.png", "rounds.png", "results.csv"):
        if (folder / file).exists():
            console.print(str(folder / file), markup=False)
    if not (folder / "figure.png").exists():
        console.print("There is no figure without matplotlib: install gape[plot] and repeat the command.", markup=False)
