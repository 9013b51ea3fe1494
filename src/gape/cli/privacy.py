"""`gape privacy`: the noise that a guarantee requires."""

import math
from typing import Annotated

import typer
from rich.table import Table

from gape.cli.shared import errors_in_one_line, output
from gape.core.errors import PrivacyError
from gape.privacy.accounting import Neighbours, noise_scale, paper_noise_scale

_USUAL_EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 100.0)


@errors_in_one_line()
def privacy(
    delta: Annotated[float, typer.Option(help="Delta; 1 / (n ln n) is usual for n records.")],
    rounds: Annotated[int, typer.Option(help="Number of releases of votes.")],
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Epsilon; may be repeated. Defaults to a range of usual values.")
    ] = None,
    neighbours: Annotated[
        Neighbours, typer.Option(help="Neighbouring relation: replace one record, or add/remove one.")
    ] = "replace",
) -> None:
    """Print the noise that makes all rounds together (epsilon, delta)-differentially private.

    The last column is the paper's closed form, which holds for the neighbouring relation replace and epsilon below 1.
    """
    table = Table()
    for heading in ("epsilon", "sigma, in votes", "paper's closed form"):
        table.add_column(heading, justify="right")
    for wanted in epsilon or _USUAL_EPSILONS:
        sigma = noise_scale(wanted, delta, rounds, neighbours=neighbours)
        private = math.isfinite(wanted)
        closed_form = _closed_form(wanted, delta, rounds) if private else ""
        table.add_row(f"{wanted:g}", f"{sigma:.6g}" if private else "0: NOT PRIVATE", closed_form)
    console = output()
    console.print(
        f"Noise on each vote count: {rounds} rounds, delta {delta:g}, neighbouring relation {neighbours}", style="bold"
    )
    console.print(table)


def _closed_form(epsilon: float, delta: float, rounds: int) -> str:
    try:
        return f"{paper_noise_scale(epsilon, delta, rounds):.6g}"
    except PrivacyError:
        return "not proved for epsilon >= 1"
