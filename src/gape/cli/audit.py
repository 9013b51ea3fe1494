"""`gape audit`: attack the release step of a plan, or check the books of a run."""

import math
from contextlib import nullcontext
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gape.audit import CONFIDENCE, Attack, Check, PlanAudit, RunAudit, audit_plan, audit_run
from gape.cli.shared import duration_in_words, errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.privacy.accounting import Neighbours, stated


@errors_in_one_line()
def audit(
    run: Annotated[Path | None, typer.Argument(help="Folder of a run whose books to check, finished or not.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Claimed epsilon to attack. Only without RUN.")] = None,
    delta: Annotated[float | None, typer.Option(help="Claimed delta to attack. Only without RUN.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of releases of votes. Defaults to 6.")] = None,
    neighbours: Annotated[
        Neighbours | None,
        typer.Option(help="Neighbouring relation: replace one record, or add/remove one. Defaults to replace."),
    ] = None,
    votes_per_unit: Annotated[
        int | None, typer.Option(help="Maximum votes of one user per round. Defaults to the votes of one record.")
    ] = None,
    votes_per_record: Annotated[
        int | None, typer.Option(help="Number of nearest candidates each record votes for. Defaults to 1.")
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(help="Answers of one user to each release of a survey, such as 2,1,4. Defaults to no survey."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Number of canary trials. Defaults to about 40 seconds of trials, or to none with RUN."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Path of the run's ledger. Defaults to the path in the run's settings.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Look for breaches of the guarantee: attack the release step of a plan, or check the books of a run.

    Without RUN, thousands of trials release the votes of made-up data with and without a canary, as a run with these
    settings would. How often an attacker can tell the two apart bounds epsilon from below. With RUN, the noise is
    recomputed from the run's claim and compared with its ledger and its statement; with --trials, the run's plan is
    attacked as well. No private data is read. The exit code is 1 if any check fails.
    """
    claim = {
        "epsilon": epsilon,
        "delta": delta,
        "rounds": rounds,
        "neighbours": neighbours,
        "votes_per_unit": votes_per_unit,
        "votes_per_record": votes_per_record,
        "answers": None if answers is None else _numbers(answers),
    }
    given = {name: value for name, value in claim.items() if value is not None}
    if run is not None and given:
        raise InputError(f"{', '.join(given)} cannot be combined with a run, which has its own; leave one of them out")
    books = audit_run(run, ledger) if run is not None else None
    plan = books.plan if books else _plan(given)
    attack = _attack(plan, trials) if books is None or trials is not None else None
    if json:
        output().print(dumps({"books": _books_data(books), "attack": _attack_data(attack)}, indent=2), markup=False)
    else:
        _print(output(), books, attack)
    if not all(result.passed for result in (books, attack) if result is not None):
        raise typer.Exit(1)


def _plan(given: dict[str, Any]) -> Plan:
    for name in ("epsilon", "delta"):
        if name not in given:
            raise InputError(f"an audit needs a claimed {name}, got none; give --{name}, or the folder of a run")
    return Plan(**({"rounds": 6, "samples": 1, "votes_per_unit": given.get("votes_per_record", 1)} | given))


def _numbers(answers: str) -> tuple[int, ...]:
    try:
        return tuple(int(count) for count in answers.split(","))
    except ValueError:
        raise InputError(f"answers must be whole numbers with commas between them, got {answers!r}") from None


def _attack(plan: Plan, trials: int | None) -> PlanAudit:
    terminal = notes()
    columns = (TextColumn("Attacking"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal, transient=True) if terminal.is_terminal else nullcontext() as bar:
        task = bar.add_task("", total=None) if bar else None
        return audit_plan(
            plan,
            np.random.default_rng(),
            trials=trials,
            progress=lambda done, total: (
                bar.update(task, completed=done, total=total) if bar and task is not None else None
            ),
        )


def _print(console: Console, books: RunAudit | None, attack: PlanAudit | None) -> None:
    if books is not None:
        console.print("The books", style="bold")
        console.print(_table(books.checks))
        console.print(books.text(), style="green" if books.passed else "bold red", markup=False)
    if attack is not None:
        plan, bounds = attack.plan, attack.bounds
        survey = f" and a survey of {','.join(map(str, plan.answers))} answers" if plan.answers else ""
        console.print(
            f"The attack: {plan.rounds} rounds{survey} at sigma {plan.sigma:g}, relation {plan.neighbours}, "
            f"votes per unit {plan.votes_per_unit}; {attack.trials:,} trials in {duration_in_words(attack.seconds)}",
            style="bold",
        )
        table = Table("", "epsilon", "from")
        table.add_row("claimed", f"{plan.epsilon:g}", f"at delta {stated(plan.delta, 3)}")
        table.add_row("at least, for any mechanism", f"{bounds.any_mechanism:.3g}", _rates(bounds.any_attack))
        table.add_row("at least, if noise is Gaussian", f"{bounds.gaussian:.3g}", _rates(bounds.gaussian_attack))
        console.print(table)
        console.print(_table(attack.checks))
        console.print(attack.text(), style="green" if attack.passed else "bold red", markup=False)


def _table(checks: tuple[Check, ...]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for check in checks:
        table.add_row("ok" if check.passed else "FAILED", check.name, check.finding)
    return table


def _rates(attack: Attack) -> str:
    return (
        f"{attack.false_positives:,} false of {attack.outside:,} without the canary, "
        f"{attack.false_negatives:,} missed of {attack.inside:,} with it"
    )


def _books_data(books: RunAudit | None) -> dict[str, Any] | None:
    if books is None:
        return None
    return {
        "passed": books.passed,
        "text": books.text(),
        "releases": books.releases,
        "epsilon": _number(books.epsilon),
        "finished": books.finished,
        "checks": [asdict(check) for check in books.checks],
    }


def _attack_data(attack: PlanAudit | None) -> dict[str, Any] | None:
    if attack is None:
        return None
    plan = attack.plan
    names = ("epsilon", "delta", "rounds", "sigma", "neighbours", "votes_per_unit")
    return {
        "passed": attack.passed,
        "text": attack.text(),
        "claim": {name: getattr(plan, name) for name in names},
        "bounds": asdict(attack.bounds),
        "confidence": CONFIDENCE,
        "trials": attack.trials,
        "seconds": attack.seconds,
        "checks": [asdict(check) for check in attack.checks],
    }


def _number(value: float) -> float | str:
    """Return infinity as a string, because JSON has no number for it."""
    return value if math.isfinite(value) else str(value)
