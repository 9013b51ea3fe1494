"""`gape privacy`: what noise a guarantee means."""

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
    delta: Annotated[float, typer.Option(help="1 / (n log n) is usual for n records.")],
    rounds: Annotated[int, typer.Option(help="How often votes are released.")],
    epsilon: Annotated[list[float] | None, typer.Option(help="May be repeated; some usual ones if omitted.")] = None,
    neighbours: Annotated[Neighbours, typer.Option(help="What one record's privacy means.")] = "replace",
) -> None:
    """Print the noise that keeps all rounds together (epsilon, delta)-differentially private.

    Beside it stands the paper's closed form, which is for neighbours by replacement and for epsilon below 1.
    """
    table = Table()
    for heading in ("epsilon", "sigma, in votes", "paper's closed form"):
        table.add_column(heading, justify="right")
    for each in epsilon or _USUAL_EPSILONS:
        sigma = noise_scale(each, delta, rounds, neighbours=neighbours)
        private = math.isfinite(each)
        printed = _closed_form(each, delta, rounds) if private else ""
        table.add_row(f"{each:g}", f"{sigma:.6g}" if private else "0: NOT PRIVATE", printed)
    console = output()
    console.print(f"Noise on every vote: {rounds} rounds, delta {delta:g}, neighbours by {neighbours}", style="bold")
    console.print(table)


def _closed_form(epsilon: float, delta: float, rounds: int) -> str:
    try:
        return f"{paper_noise_scale(epsilon, delta, rounds):.6g}"
    except PrivacyError:
        return "not proved for epsilon >= 1"
