"""`gape evaluate`: how good synthetic texts are, by the private records."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gape.cli.shared import errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.evaluation.chart import draw_rounds
from gape.evaluation.evaluate import MARK, Evaluation, Measure, Scoring
from gape.evaluation.evaluate import evaluate as evaluate_texts
from gape.evaluation.plots import require_matplotlib
from gape.runs.folder.layout import Layout


@errors_in_one_line()
def evaluate(
    synthetic: Annotated[str, typer.Argument(help="Folder of a run, or a file of synthetic texts.")],
    private: Annotated[str, typer.Option(help="File of the private records that voted.")],
    text: Annotated[str | None, typer.Option(help="Column of the texts; by default that of the run.")] = None,
    held_out: Annotated[
        str | None, typer.Option(help="File of private records that did not vote: they score instead.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", "--labels", help="Column of labels: trains on the texts and tests on the records."),
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Of a file of rows, the TOML file of their columns.")] = None,
    real_baseline: Annotated[  # noqa: FBT002  (a flag, for typer)
        bool, typer.Option("--real-baseline", help="Score as many private records in the same way.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON to write; by default internal/evaluation.json of a run.")
    ] = None,
    k: Annotated[int, typer.Option(help="Balls of recall reach to the k-th nearest other record.")] = Scoring.k,
    blur: Annotated[float, typer.Option(help="Of the Sinkhorn divergence.")] = Scoring.blur,
    sample: Annotated[
        int, typer.Option(help="Most points of each side for W1, whose cost grows faster than their square.")
    ] = Scoring.sample,
    seed: Annotated[int, typer.Option(help="Of samples and intervals.")] = Scoring.seed,
    embedder: Annotated[
        str | None, typer.Option(help="minilm, st:MODEL or openai:MODEL; by default that of the run, or minilm.")
    ] = None,
    embedder_base_url: Annotated[str | None, typer.Option(help="Where openai:MODEL is served.")] = None,
    embedder_key_variable: Annotated[str | None, typer.Option(help="Variable that holds its key.")] = None,
    private_text_may_leave: Annotated[
        bool | None, typer.Option("--private-text-may-leave", help="Its owner agrees that private text is sent there.")
    ] = None,
) -> None:
    """Score synthetic records against private ones. NOT differentially private: for those who may see the private data.

    How much of the private data the texts reach, what they are like as texts, and whether they repeat records. Give
    records held out from the run to score by: those that voted are nearer to what they chose.
    """
    terminal = notes()
    with terminal.status("Reading") as status:
        found = evaluate_texts(
            synthetic,
            private,
            text=text,
            label=label,
            held_out=held_out,
            scoring=Scoring(k, blur, sample, seed),
            real_baseline=real_baseline,
            out=out,
            progress=lambda doing: status.update(doing.capitalize()),
            embedder=embedder,
            embedder_base_url=embedder_base_url,
            embedder_key_variable=embedder_key_variable,
            private_text_may_leave=private_text_may_leave,
            schema=schema,
        )
    _print(output(), found)
    is_run = bool(found.rounds)
    written = out or (Layout(Path(synthetic)).evaluation if is_run else None)
    if written is None:
        output().print("Nothing was written; --out keeps it.", markup=False)
        return
    output().print(str(written), markup=False)
    if is_run and _can_draw():
        chart = written.with_suffix(".png")
        draw_rounds(chart, found)
        output().print(str(chart), markup=False)


def _print(console: Console, found: Evaluation) -> None:
    console.print(MARK, style="bold red")
    console.print(f"{found.synthetic}, scored by {found.scored_by}.", style="yellow" if found.in_sample else None)
    for name, measures in found.groups.items():
        with_interval = any(each.low is not None for each in measures)
        with_real = any(each.real is not None for each in measures)
        wanted = {
            "": True,
            "value": True,
            "95% interval": with_interval,
            "as many real": with_real,
            "what it says": True,
        }
        table = Table(*(column for column, shown in wanted.items() if shown))
        table.title, table.title_style, table.title_justify = name, "bold", "left"
        for each in measures:
            cells = (each.name, _number(each.value), _interval(each), _number(each.real), escape(each.says))
            table.add_row(*(cell for cell, shown in zip(cells, wanted.values(), strict=True) if shown))
        console.print(table, soft_wrap=False)
    if found.rounds:
        heads = ("round", "texts", "recall", "mean nearest distance", "W1", "lineages", "largest")
        rounds = Table(*heads, title="Round by round")
        rounds.title_style, rounds.title_justify = "bold", "left"
        for turn in found.rounds:
            figures = (turn.recall, turn.mean_nearest_distance, turn.wasserstein1)
            lineages = str(turn.lineages), str(turn.largest)
            rounds.add_row(str(turn.round), str(turn.texts), *map(_number, figures), *lineages)
        console.print(rounds)
    for remark in found.remarks:
        console.print(f"- {remark}", markup=False)


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
