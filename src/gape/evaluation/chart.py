"""The chart of scores round by round, for the internal folder of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gape.evaluation.plots import COLOURS, figure

if TYPE_CHECKING:
    from gape.evaluation.evaluate import Evaluation

_RED = "#B00020"


def draw_rounds(path: Path, evaluation: Evaluation) -> None:
    """Draw recall, mean nearest distance and W1 after each round, marked as not private."""
    turns = [scores.round for scores in evaluation.rounds]
    panels = {
        "recall (more is better)": [scores.recall for scores in evaluation.rounds],
        "mean nearest distance (less is better)": [scores.mean_nearest_distance for scores in evaluation.rounds],
        "$W_1$ (less is better)": [scores.wasserstein1 for scores in evaluation.rounds],
    }
    with figure(path, columns=3, size=(9.0, 2.9)) as (fig, axes):
        for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
            axis.plot(turns, values, color=COLOURS["GAPE"], marker="o")
            axis.set(title=title, xlabel="round")
            axis.set_xticks(turns if len(turns) <= 12 else turns[:: len(turns) // 10])
        scorers = " (in-sample)" if evaluation.in_sample else ", held out"
        fig.suptitle(f"NOT differentially private: scored by private records{scorers}", color=_RED, fontsize=9.5)
