"""`gape report`: a run as one page of HTML."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gape.cli.shared import errors_in_one_line, notes, output
from gape.report import EmbeddingProgress, write_report
from gape.runs.folder.layout import Layout


@errors_in_one_line()
def report(
    run: Annotated[Path, typer.Argument(help="Folder of the run, finished or not.")],
    out: Annotated[Path | None, typer.Option(help="File to write. Defaults to report.html in RUN/release.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading. Defaults to what was made.")] = None,
    map: Annotated[  # noqa: A002, FBT002  (the users' word; a flag, for typer)
        bool, typer.Option("--map/--no-map", help="Draw map and regions. Texts are embedded on this machine.")
    ] = True,
    internal: Annotated[  # noqa: FBT002  (a flag, for typer)
        bool, typer.Option("--internal", help="Show private points and scores: NOT differentially private.")
    ] = False,
    private: Annotated[
        Path | None,
        typer.Option(help="Private data for --internal, .npy for vectors. Defaults to that of the run."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column with the texts in --private.")] = None,
) -> None:
    """Write an HTML report of a run: guarantee, signal and noise, map, coverage by region, and every sample's lineage.

    The page is self-contained and uses no network. It has synthetic data, noisy votes and public settings, so it may be
    published with the run. With --internal it also shows private points and must not be published.
    """
    terminal = notes()
    columns = (TextColumn("Embedding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(now: EmbeddingProgress) -> None:
            bar.update(task, completed=now.done, total=now.total)

        path = write_report(
            run, out, title=title, with_map=map, internal=internal, private=private, text=text, progress=show
        )
    output().print(str(path), markup=False)
    if internal:
        output().print("NOT DIFFERENTIALLY PRIVATE: it shows private data. Do not share it.", style="bold red")
    elif path.name == Layout(run).internal_report.name and path.parent == Layout(run).internal:
        output().print("The run is not finished, so do not publish this report.", style="yellow")
