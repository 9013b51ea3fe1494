"""Where the progress of a run goes besides the terminal: notebooks, MLflow, Weights & Biases.

Each is a function for the argument `progress` of `synthesize`, `run_text` and `resume`. What they receive is public:
settings of the plan and noisy votes, which are paid for. Without noise, no vote is among it.
"""

from dataclasses import asdict
from importlib import import_module
from typing import Any

from markupsafe import Markup

from gape.core.errors import InputError
from gape.runs.progress import Progress


class NotebookProgress:
    """Shows a progress bar in the output of a notebook cell."""

    def __init__(self) -> None:
        """Show an empty bar."""
        self._display = _package("IPython.display", "a notebook")
        self._handle = self._display.display(self._display.HTML(""), display_id=True)

    def __call__(self, now: Progress) -> None:
        """Update the bar."""
        done = now.written / now.texts if now.texts else now.round / max(1, now.rounds)
        done = done if now.share is None else now.share
        cost = f", cost {now.cost:.2f}" if now.cost else ""
        bar = Markup('<progress value="{:.3f}" max="1"></progress> round {} of {}: {}{}')
        shown = bar.format(1.0 if now.doing == "done" else done, now.round, now.rounds, now.doing, cost)
        self._handle.update(self._display.HTML(shown))


def to_mlflow(now: Progress) -> None:
    """Log each finished round to the active MLflow run, which is started if there is none."""
    if now.ended is not None:
        _package("mlflow", "mlflow").log_metrics(_metrics(now), step=now.ended.round)


def to_wandb(now: Progress) -> None:
    """Log each finished round to the active run of Weights & Biases, which `wandb.init` starts."""
    if now.ended is not None:
        _package("wandb", "wandb").log(_metrics(now), step=now.ended.round, commit=True)


def _metrics(now: Progress) -> dict[str, float]:
    figures = {} if now.ended is None else asdict(now.ended)
    spent = {"texts_written": now.written, "tokens_written": now.tokens, "cost": now.cost}
    return {name: float(value) for name, value in (figures | spent).items() if value is not None}


def _package(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"the package {module.partition('.')[0]} is not installed; install it to use {name}") from None
