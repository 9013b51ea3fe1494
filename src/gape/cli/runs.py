"""`gape status`, `gape export`, `gape expand`: commands on an existing run."""

import math
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, get_args

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gape._support.files import require_writable_file
from gape.cli.flags import takes_changes
from gape.cli.shared import errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.metrics.repetition import repeats_itself
from gape.privacy.accounting import stated
from gape.runs.expand import expand as expand_run
from gape.runs.export import Format
from gape.runs.export import export as export_run
from gape.runs.folder.layout import Layout
from gape.runs.folder.stored import SettingsFolder, Status
from gape.runs.folder.versions import versions_in_words

Run = Annotated[Path, typer.Argument(help="Folder of the run.")]

_SHOWN_ROUNDS = 10
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", "": "hf"}


@errors_in_one_line()
def status(
    run: Run,
    ledger: Annotated[
        str | None, typer.Option(help="Path of the run's ledger. Defaults to the path in your run's settings.")
    ] = None,
) -> None:
    """Show the progress of a run, the privacy budget it has spent, and its stored results."""
    now = SettingsFolder(run).status(ledger)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _rows(run, now).items():
        table.add_row(name, escape(value))
    output().print(table)


@errors_in_one_line()
def export(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(help="File to write, or folder for hf. Defaults to RUN-synthetic.csv.")
    ] = None,
    format: Annotated[  # noqa: A002  (the users' word)
        Format | None, typer.Option(help="File format. Defaults to the suffix of --out, otherwise csv.")
    ] = None,
) -> None:
    """Write the synthetic records of a finished run to share, with a dataset card and the privacy statement.

    The format hf is a folder for the Hugging Face hub, and folder one with a file for each image. The format
    preferences writes pairs of a preferred and a rejected text with their prompt, for preference training with TRL,
    from the noisy votes alone.
    """
    chosen, destination = _destination(run, out, format)
    _name(export_run(run, destination, chosen), destination)


@errors_in_one_line()
@takes_changes(
    *("generator", "also", "prompts", "base_url", "key_variable", "key_file", "api_version"),
    *("painter", "painter_base_url", "painter_key_variable"),
    *("embedder", "embedder_base_url", "embedder_key_variable", "concurrency"),
    *("max_cost", "max_tokens_total", "max_images"),
)
def expand(
    run: Run,
    count: Annotated[int, typer.Option(help="Total number of synthetic records, including those of the run.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv, .jsonl or .parquet, or a folder for hf.")],
    format: Annotated[  # noqa: A002  (the users' word)
        Format | None, typer.Option(help="File format. Defaults to the suffix of --out.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Values of a column or of the label: stars=1, stars='1|5' for equal numbers of both, stars='1:3|5:1' "
            "for shares, stars='*' for equal numbers of all values. Repeat it for several columns."
        ),
    ] = None,
    *,
    changes: dict[str, Any],
) -> None:
    """Write more synthetic records than a finished run has, by varying its own, at no privacy cost.

    Recall rises, because more of the private data has a synthetic record nearby. Precision falls, because no votes have
    selected the new ones. Rows that fit a survey are drawn again from its noisy answers. With --where, all records have
    the requested values, in the requested shares; records of the run with other values are left out. The generator must
    be the one that made the run. For a run folder from somebody else, give --generator or --base-url: addresses and
    paths in the folder are not trusted.
    """
    chosen, destination = _destination(run, out, format)
    if chosen == "preferences":
        raise InputError("texts that are added to a run have no votes, so no preferences; use `gape export`")
    if destination.exists():
        raise InputError(f"{destination} exists and is never overwritten; remove it or choose another destination")
    require_writable_file(destination)
    terminal = notes()
    folder = SettingsFolder(run)
    columns = (TextColumn("Writing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("", total=count)
        rows = expand_run(
            folder, count, lambda written: bar.update(task, completed=min(written, count)), where=where or (), **changes
        )
    _name(export_run(folder, destination, chosen, rows), destination)
    if len(rows) < count:
        terminal.print(f"The generator delivered {len(rows)} of {count}.", markup=False)
    terminal.print("Written from the published data alone: no further privacy cost.", markup=False)


def _name(written: list[Path], destination: Path) -> None:
    """Print the files written; the folder alone if there is one, because it may have a file for each sample."""
    for path in [destination] if destination.is_dir() else written:
        output().print(str(path), markup=False)


def _destination(run: Path, out: Path | None, named: Format | None) -> tuple[Format, Path]:
    if named is None:
        named = "csv" if out is None else _from_suffix(out)
    if out is None:
        suffixes = {"hf": "-synthetic", "preferences": "-preferences.jsonl"}
        suffix = suffixes.get(named, f"-synthetic.{named}")  # never the name of the private file
        out = Path(run.absolute().name + suffix)
    return named, out


def _from_suffix(out: Path) -> Format:
    for known in get_args(Format):
        if _SUFFIXES.get(out.suffix) == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"{out} must end in .csv, .jsonl or .parquet to tell its format; rename it or give --format")


def _rows(run: Path, now: Status) -> dict[str, str]:
    if now.finished:
        state = f"finished; {Layout(run).release} may be published under its privacy statement"
    elif now.running:
        state = "running"
    else:
        state = f"stopped; resume with `gape resume {quote(str(run))}`"
    step = ", candidates of the next are written" if now.voting else ""
    rounds = f"{now.rounds_done} of {now.rounds} done{step}" if now.rounds else "none: the rows fit a survey"
    rows = {"state": state, "rounds": rounds}
    if len(now.lineages) > 1:
        rows["lineages"] = _lineages(now)
    if now.repeating is not None:
        remark = ": the texts repeat one another" if repeats_itself(now.repeating) else ""
        rows["repetition"] = f"{now.repeating:.0%} share eight words in a row with another text{remark}"
    if now.written:
        rows["writers"] = ", ".join(f"{count:,} texts by {name}" for name, count in now.written.items())
    if now.answers:
        tokens = now.tokens
        rows["answers"] = f"{now.answers:,} stored: {tokens.prompt:,} tokens read, {tokens.completion:,} written"
    if now.versions:
        rows["versions"] = versions_in_words(now.versions)
    if now.budget is None or now.epsilon_spent is None or now.dataset_epsilon is None:
        missing = "the ledger is not at the path in the settings"
        foreign = "the settings were not written by you, so their ledger was not opened"
        rows["spent"] = f"unknown: {missing if now.own else foreign}; give --ledger"
    else:
        rows["spent"] = f"{_spent(now.epsilon_spent)} by this run, at delta {stated(now.budget.delta, 3)}"
        rows["dataset"] = f"{_spent(now.dataset_epsilon)} of a budget of {now.budget.epsilon:g}, by all runs on it"
    return rows


def _lineages(now: Status) -> str:
    """Format how many initial candidates still have descendants in each round, and the largest lineage."""
    start, *rounds = now.lineages
    by_round = ", ".join(map(str, rounds[-_SHOWN_ROUNDS:]))
    return (
        f"{rounds[-1]} of {start} initial candidates have descendants left ({by_round} by round); the largest family "
        f"has {now.largest} sample{'s' * (now.largest != 1)}"
    )


def _spent(epsilon: float) -> str:
    return f"epsilon {stated(epsilon)}{' (NOT PRIVATE)' if math.isinf(epsilon) else ''}"
