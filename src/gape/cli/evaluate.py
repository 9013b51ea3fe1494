"""`gape evaluate`: how good synthetic texts are, by the private records."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gape.cli.flags import takes_changes
from gape.cli.shared import errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.evaluation.chart import draw_rounds
from gape.evaluation.evaluate import MARK, Evaluation, Measure, Scoring
from gape.evaluation.evaluate import evaluate as evaluate_texts
from gape.evaluation.plots import require_matplotlib
from gape.runs.folder.layout import Layout


@errors_in_one_line()
@takes_changes("schema", "embedder", "embedder_base_url", "embedder_key_variable", "private_text_may_leave")
def evaluate(
    synthetic: Annotated[str, typer.Argument(help="Folder of a run, or a file of synthetic records.")],
    private: Annotated[str, typer.Option(help="File of the private records that voted.")],
    text: Annotated[str | None, typer.Option(help="Column with the texts. Defaults to that of the run.")] = None,
    held_out: Annotated[
        str | None, typer.Option(help="File of private records that did not vote. Scores are computed against them.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "--labels",
            help="Column with labels. A classifier is trained on the synthetic records and tested on the private ones.",
        ),
    ] = None,
    real_baseline: Annotated[
        bool | None,
        typer.Option(
            "--real-baseline/--no-real-baseline",
            help="Also score the same number of private records, as a baseline. On for tables, off otherwise.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON file to write. Defaults to internal/evaluation.json of a run.")
    ] = None,
    nearest: Annotated[
        Path | None,
        typer.Option(help="PNG file of the images nearest to private ones. Shows private images."),
    ] = None,
    k: Annotated[
        int, typer.Option(help="Recall counts records with a synthetic one as near as their k-th nearest other record.")
    ] = Scoring.k,
    blur: Annotated[float, typer.Option(help="Blur of the Sinkhorn divergence.")] = Scoring.blur,
    sample: Annotated[
        int, typer.Option(help="Maximum points of each side for W1, whose cost grows faster than quadratically.")
    ] = Scoring.sample,
    seed: Annotated[int, typer.Option(help="Random seed of samples and intervals.")] = Scoring.seed,
    *,
    changes: dict[str, Any],
) -> None:
    """Score synthetic records against private ones. NOT differentially private: for those who may see the private data.

    Measures how much of the private data the synthetic records cover, how good each of them is, and whether they repeat
    private ones. Use --held-out for an honest score: records that voted are nearer to the candidates that they chose.
    The embedder defaults to that of the run, or to minilm.
    """
    terminal = notes()
    with terminal.status("Reading") as status:
        evaluation = evaluate_texts(
            synthetic,
            private,
            text=text,
            label=label,
            held_out=held_out,
            scoring=Scoring(k, blur, sample, seed),
            real_baseline=real_baseline,
            out=out,
            nearest=nearest,
            progress=lambda doing: status.update(doing.capitalize()),
            **changes,
        )
    _print(output(), evaluation)
    if nearest is not None:
        output().print(f"{nearest}: PRIVATE, it shows private images", style="bold red", markup=False)
    layout = Layout(Path(synthetic))
    _name_files(evaluation, out or (layout.evaluation if layout.is_run else None))


def _name_files(evaluation: Evaluation, written: Path | None) -> None:
    """Print the file of the scores and, for a run, draw the chart beside it."""
    if written is None:
        output().print("Nothing was written; use --out to keep the scores.", markup=False)
        return
    output().print(str(written), markup=False)
    if evaluation.rounds and _can_draw():
        chart = written.with_suffix(".png")
        draw_rounds(chart, evaluation)
        output().print(str(chart), markup=False)


def _print(console: Console, evaluation: Evaluation) -> None:
    console.print(MARK, style="bold red")
    console.print(
        f"{evaluation.synthetic}, scored by {evaluation.scored_by}.", style="yellow" if evaluation.in_sample else None
    )
    for name, measures in evaluation.groups.items():
        with_interval = any(measure.low is not None for measure in measures)
        with_real = any(measure.real is not None for measure in measures)
        wanted = {
            "": True,
            "value": True,
            "95% interval": with_interval,
            "real records": with_real,
            "what it says": True,
        }
        table = Table(*(column for column, shown in wanted.items() if shown))
        table.title, table.title_style, table.title_justify = name, "bold", "left"
        for measure in measures:
            cells = (
                measure.name,
                _number(measure.value),
                _interval(measure),
                _number(measure.real),
                escape(measure.says),
            )
            table.add_row(*(cell for cell, shown in zip(cells, wanted.values(), strict=True) if shown))
        console.print(table, soft_wrap=False)
    if evaluation.rounds:
        console.print(_by_round(evaluation))
    for remark in evaluation.remarks:
        console.print(f"- {remark}", markup=False)


def _by_round(evaluation: Evaluation) -> Table:
    heads = ("round", "samples", "recall", "mean nearest distance", "W1", "lineages", "largest")
    table = Table(*heads, title="Round by round")
    table.title_style, table.title_justify = "bold", "left"
    for turn in evaluation.rounds:
        figures = (turn.recall, turn.mean_nearest_distance, turn.wasserstein1)
        lineages = str(turn.lineages), str(turn.largest)
        table.add_row(str(turn.round), str(turn.texts), *map(_number, figures), *lineages)
    return table


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.0f}" if value == int(value) and abs(value) >= 2 else f"{value:.3g}"


def _interval(measure: Measure) -> str:
    return "" if measure.low is None else f"{_number(measure.low)} to {_number(measure.high)}"


def _can_draw() -> bool:
    try:
        require_matplotlib()
    except InputError:
        return False
    return True
