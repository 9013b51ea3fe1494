"""Round by round, drawn: for a run's internal folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gape.evaluation.plots import COLOURS, figure

if TYPE_CHECKING:
    from gape.evaluation.evaluate import Evaluation

_RED = "#B00020"


def draw_rounds(path: Path, found: Evaluation) -> None:
    """Draw recall, mean nearest distance and W1 after every round, marked as what they are."""
    turns = [each.round for each in found.rounds]
    panels = {
        "recall (more is better)": [each.recall for each in found.rounds],
        "mean nearest distance (less is better)": [each.mean_nearest_distance for each in found.rounds],
        "$W_1$ (less is better)": [each.wasserstein1 for each in found.rounds],
    }
    with figure(path, columns=3, size=(9.0, 2.9)) as (fig, axes):
        for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
            axis.plot(turns, values, color=COLOURS["GAPE"], marker="o")
            axis.set(title=title, xlabel="round")
            axis.set_xticks(turns if len(turns) <= 12 else turns[:: len(turns) // 10])
        by = " (in-sample)" if found.in_sample else ", held out"
        fig.suptitle(f"NOT differentially private: scored by private records{by}", color=_RED, fontsize=9.5)
