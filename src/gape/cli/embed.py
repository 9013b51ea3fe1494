"""`gape embed`: embed private records into vectors on disk, for datasets larger than memory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gape._support.files import require_writable_folder
from gape.cli.flags import takes_some_settings
from gape.cli.models import fetch_visibly
from gape.cli.shared import INTERRUPTED, errors_in_one_line, notes, output, say
from gape.language.weights import MINILM
from gape.runs.embedding import embed_texts
from gape.runs.settings import Settings

_INTERVAL = 30.0  # seconds between two lines of progress outside a terminal


@errors_in_one_line()
@takes_some_settings(
    "modality",
    "schema",
    "text",
    "label",
    "user",
    "ledger",
    "embedder",
    "embedder_base_url",
    "embedder_key_variable",
    "embedding_price",
    "max_cost",
    "max_tokens_total",
    "private_text_may_leave",
    "concurrency",
    "timeout",
)
def embed(
    settings: Settings,
    out: Annotated[Path, typer.Option(help="Folder for the vectors, which are as private as the data.")],
    vectors: Annotated[
        str | None,
        typer.Option(
            help="Column of a .parquet file with embeddings already made by the embedder, as fixed-size lists. "
            "Nothing is embedded then."
        ),
    ] = None,
) -> None:
    """Embed any number of private texts or images once, into a folder that `gape run` accepts as DATA.

    Runs then count votes from disk, in memory that does not grow with the data. The result is the same, and the same
    ledger is charged. The folder is as private as the data, which is not needed afterwards. To resume after a stop,
    repeat the command.
    """
    require_writable_folder(out)
    weights = MINILM if settings.embedder == "minilm" else None
    if weights is not None and not weights.fetched:
        fetch_visibly(weights)
    with _resumable(out), _watching() as progress:
        folder = embed_texts(settings, out, vectors=vectors, progress=progress)
    manifest = folder.manifest
    users = f" of {folder.units:,} users" if folder.unit == "user" else ""
    blank = f", {folder.dropped} blank rows left out" if folder.dropped else ""
    size = sum(part.size for part in manifest.parts) / 1e6
    console = output()
    console.print(
        f"{out}: {len(folder):,} records{users}{blank}, {manifest.width} numbers each from {manifest.origin.embedder}, "
        f"{size:,.1f} MB; as private as {manifest.origin.source}",
        markup=False,
    )
    console.print(f"`gape plan {out} --epsilon 1` shows what a run would do.", markup=False)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Tell a user who interrupts the command how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped; the vectors in {folder} are kept: repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _watching() -> Iterator[Callable[[int], None]]:
    """Show on standard error how many records are embedded. Their total is known only at the end."""
    terminal = notes()
    if not terminal.is_terminal:
        last = time.monotonic()

        def print_sometimes(done: int) -> None:
            nonlocal last
            if time.monotonic() - last >= _INTERVAL:
                last = time.monotonic()
                terminal.print(f"{done:,} records", markup=False)

        yield print_sometimes
        return
    columns = (SpinnerColumn(), TextColumn("Embedding: {task.completed:,.0f} records"), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done: bar.update(task, completed=done)
