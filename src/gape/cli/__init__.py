"""The command line, a file for every group of commands."""

from typing import Annotated

import typer

from gape import __version__
from gape.cli import audit, compare, demo, diagnose, embed, evaluate, models, privacy, report, runs, text
from gape.cli.shared import output

# Tracebacks must never show local variables: some hold private data.
app = typer.Typer(
    name="gape",
    help="Differentially private synthetic data by Private Evolution, with geometry-aware selection.",
    epilog="Begin with `gape plan reviews.csv --text review --epsilon 1`, then the same with `run`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)

for command in (
    text.plan,
    text.run,
    text.resume,
    embed.embed,
    runs.status,
    report.report,
    evaluate.evaluate,
    runs.export,
    runs.expand,
):
    app.command(rich_help_panel="Synthetic texts")(command)
app.add_typer(models.app, name="models", rich_help_panel="Synthetic texts")
for command in (privacy.privacy, audit.audit, demo.demo, compare.compare):
    app.command(rich_help_panel="To look around")(command)
app.command("diagnose", rich_help_panel="To look around")(diagnose.diagnose_generator)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it so)
    if wanted:
        output().print(f"gape {__version__}", markup=False)
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[  # noqa: FBT002  (a flag, for typer)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
