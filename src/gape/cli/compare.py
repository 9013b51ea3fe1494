"""`gape compare`: compare methods over epsilons and seeds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gape._support.files import require_writable_folder
from gape._support.parallel import cores
from gape.cli.flags import takes_settings
from gape.cli.models import fetch_missing
from gape.cli.shared import INTERRUPTED, errors_in_one_line, notes, output, say
from gape.core.errors import InputError
from gape.evaluation.compare import MARK, Comparison, ComparisonProgress
from gape.evaluation.compare.methods import METHODS
from gape.evaluation.compare.results import epsilon_in_words, label_of
from gape.evaluation.compare.texts import EPSILONS, SEEDS, ComparisonScoring, compare_texts
from gape.runs.settings import Settings

_GROUP = "Comparison"


@errors_in_one_line()
@takes_settings
def compare(
    settings: Settings,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results. Defaults to comparisons/NAME-OF-DATA.", rich_help_panel=_GROUP),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated presets or selectors; NAME:K casts K votes per record, as in ranking:16. For tables "
            f"also survey, aim and mst. Defaults to {','.join(METHODS)}, and without rounds to gape.",
            rich_help_panel=_GROUP,
        ),
    ] = None,
    as_published: Annotated[  # noqa: FBT002  (a typer flag)
        bool,
        typer.Option(
            "--as-published",
            help="Run gape-paper, augpe and subsamplepe with their own prompts, variations and start, instead of those "
            "that all methods share.",
            rich_help_panel=_GROUP,
        ),
    ] = False,
    epsilons: Annotated[
        str, typer.Option(help="Comma-separated epsilons; inf for no noise.", rich_help_panel=_GROUP)
    ] = ",".join(f"{epsilon:g}" for epsilon in EPSILONS),
    seeds: Annotated[
        int, typer.Option(help="Number of seeds, counted up from --seed.", rich_help_panel=_GROUP)
    ] = SEEDS,
    held_out: Annotated[
        float, typer.Option(help="Share of held-out records (or users), which do not vote.", rich_help_panel=_GROUP)
    ] = ComparisonScoring.held_out,
    scored: Annotated[
        int, typer.Option(help="Maximum number of records that score, of each part.", rich_help_panel=_GROUP)
    ] = ComparisonScoring.scored,
    k: Annotated[
        int,
        typer.Option(
            help="Recall counts records with a synthetic one as near as their k-th nearest other record.",
            rich_help_panel=_GROUP,
        ),
    ] = ComparisonScoring.k,
    blur: Annotated[
        float, typer.Option(help="Blur of the Sinkhorn divergence.", rich_help_panel=_GROUP)
    ] = ComparisonScoring.blur,
    target: Annotated[
        str | None,
        typer.Option(
            help="Column of a table. A classifier trained on the rows predicts it on held-out records (AUC).",
            rich_help_panel=_GROUP,
        ),
    ] = ComparisonScoring.target,
    jobs: Annotated[
        int | None, typer.Option(help="Number of processes. Defaults to one per core.", rich_help_panel=_GROUP)
    ] = None,
) -> None:
    """Compare methods over epsilons and seeds, as the paper's figures do. For research: NOT differentially private.

    Part of the private records is held out and the others vote. The results are scored against both parts without
    noise. Therefore nothing is charged to a ledger, every output is marked, and no output may be released unless the
    data is public. Takes the flags of `gape run`, which apply to all methods. To resume after a stop, repeat the
    command; with more methods, epsilons or seeds it adds to the results.
    """
    folder = out or Path("comparisons") / (Path(settings.data).name.partition(".")[0] or "comparison")
    chosen = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    numbers = _numbers(epsilons)
    require_writable_folder(folder)
    fetch_missing(settings)
    with _resumable(folder), _watching() as progress:
        comparison = compare_texts(
            settings,
            folder,
            methods=chosen,
            epsilons=numbers,
            seeds=seeds,
            scoring=ComparisonScoring(held_out, scored, k, blur, target),
            as_published=as_published,
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
def _resumable(folder: Path) -> Iterator[None]:
    """Tell a user who interrupts the command how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped; finished cells are kept in {folder}: repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _watching() -> Iterator[Callable[[ComparisonProgress], None]]:
    """Show progress on standard error: a bar in a terminal, otherwise one line per finished cell."""
    terminal = notes()
    if not terminal.is_terminal:
        last = ""

        def print_cells(now: ComparisonProgress) -> None:
            nonlocal last
            if now.doing != last and " round " not in now.doing:
                terminal.print(f"{int(now.done)} of {now.cells} cells: {now.doing}", markup=False)
                last = now.doing

        yield print_cells
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(now: ComparisonProgress) -> None:
            description = f"{now.doing}, {now.detail}" if now.detail else now.doing
            bar.update(task, description=description, completed=int(now.done), total=now.cells)

        yield show


def _print(console: Console, folder: Path, comparison: Comparison) -> None:
    console.print(MARK, style="bold red")
    for title, value in comparison.headlines.items():
        table = Table(
            "", *(epsilon_in_words(epsilon) for epsilon in comparison.epsilons), title=title, title_style="bold"
        )
        for method in comparison.methods:
            scores = (comparison.at_end(method, epsilon, value) for epsilon in comparison.epsilons)
            table.add_row(label_of(method), *map(str, scores))
        for baseline, score in comparison.baselines(value).items():
            table.add_row(baseline, str(score))
        console.print(table)
    if comparison.caution:
        console.print(comparison.caution, markup=False)
    seeds = len(comparison.seeds)
    console.print("One seed." if seeds == 1 else f"Means over {seeds} seeds, with the lowest and the highest value.")
    for file in ("table.md", "figure.png", "further.png", "rounds.png", "results.csv"):
        if (folder / file).exists():
            console.print(str(folder / file), markup=False)
    if not (folder / "figure.png").exists():
        console.print("Figures need matplotlib: install gape[plot] and repeat the command.", markup=False)
