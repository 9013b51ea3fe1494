"""Runs that `gape evaluate` has scored: the measures of each as a page, and several of them in one figure.

    python experiments/paper_text/runs.py FOLDER [FOLDER ...] --figure FILE

reads evaluation.json and settings.toml of every folder and writes table.md beside them. NOT differentially private:
private records scored the runs, for data that may be looked at.
"""

import argparse
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gape.core.errors import InputError
from gape.evaluation.evaluate import MARK
from gape.evaluation.plots import COLOURS, GREY, MARKERS, figure

LABELS = {"ranking": "AugPE", "subsampling": "SubsamplePE", "gape": "GAPE"}
_STYLES = {"ranking": "Ranking", "subsampling": "Subsampling", "gape": "GAPE"}
_DATASETS = {"pubmed": "PubMed", "reddit": "Reddit"}
# What a round is scored by, the measure of as many real records beside it, and how both are called in the figure.
_PANELS = (
    ("recall", "recall", "recall (more is better)"),
    ("mean_nearest_distance", "mean nearest distance", "mean nearest distance (less is better)"),
    ("wasserstein1", "W1", "$W_1$ (less is better)"),
)


@dataclass(frozen=True)
class Run:
    """What a folder says of its run."""

    settings: dict[str, Any]
    found: dict[str, Any]  # as `gape evaluate` wrote it

    @classmethod
    def of(cls, folder: Path) -> "Run":
        """Read a folder."""
        files = [folder / name for name in ("settings.toml", "evaluation.json")]
        for file in files:
            if not file.exists():
                raise InputError(f"there is no {file}; name the folder of a run that `gape evaluate` has scored")
        return cls(tomllib.loads(files[0].read_text()), json.loads(files[1].read_text()))

    @property
    def title(self) -> str:
        """Which run it is."""
        chosen = self.settings
        data = _DATASETS.get(chosen["prompts"], chosen["prompts"])
        return f"{data}, m = {chosen['samples']:,}, epsilon {chosen['epsilon']:g}, {self.method}, one run"

    @property
    def method(self) -> str:
        """What the method is called; a record has one vote with all but GAPE, unless the name says more."""
        selector, votes = self.settings["selector"], self.settings["votes_per_record"]
        return LABELS[selector] + ("" if selector == "gape" or votes == 1 else f", {votes} votes")

    def real(self, name: str) -> float | None:
        """The measure of as many real records, where they were scored."""
        values = (each["real"] for group in self.found["groups"].values() for each in group if each["name"] == name)
        return next(values, None)


def page(run: Run) -> str:
    """Write all that was measured of a run as Markdown."""
    found = run.found
    lines = [
        f"# {run.title}",
        f"**{MARK}** Here the data is public, and so is this.",
        f'Scored by {found["scored_by"]}. "Real" is as many private records drawn at random, scored alike.',
    ]
    for group, measures in found["groups"].items():
        rows = [[m["name"], _short(m["value"]), _interval(m), _short(m["real"]), m["says"]] for m in measures]
        lines += [f"## {group}", _table(["", "value", "95% interval", "real", ""], rows)]
    rounds = [[_short(value) for value in each.values()] for each in found["rounds"]]
    lines += ["## Round by round", _table([name.replace("_", " ") for name in found["rounds"][0]], rounds)]
    if found["remarks"]:
        lines.append("\n".join(f"- {remark}" for remark in found["remarks"]))
    return "\n\n".join(lines) + "\n"


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Draw the rounds of all runs, and as many real records beside them."""
    with figure(path, columns=len(_PANELS), size=(9.0, 3.4)) as (fig, axes):
        for axis, (name, measure, title) in zip(axes[0], _PANELS, strict=True):
            for run in runs:
                style, rounds = _STYLES[run.settings["selector"]], run.found["rounds"]
                turns, values = [each["round"] for each in rounds], [each[name] for each in rounds]
                line = "-" if run.method == LABELS[run.settings["selector"]] else ":"
                axis.plot(turns, values, line, color=COLOURS[style], marker=MARKERS[style], label=run.method)
            if (real := runs[0].real(measure)) is not None:
                axis.axhline(real, color=GREY, linestyle="--", label="as many real records")
            axis.set(title=title, xlabel="round")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(runs) + 1)
        fig.suptitle("NOT differentially private: scored by private records, held out", color="#B00020", fontsize=9.5)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _interval(measure: dict[str, Any]) -> str:
    return "" if measure["low"] is None else f"{_short(measure['low'])} to {_short(measure['high'])}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Read the options, and write what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="of a run that was scored")
    parser.add_argument("--figure", type=Path, help="draw all of them here")
    asked = parser.parse_args()
    runs = [Run.of(folder) for folder in asked.folders]
    for folder, run in zip(asked.folders, runs, strict=True):
        (folder / "table.md").write_text(page(run))
    if asked.figure:
        draw(asked.figure, runs)


if __name__ == "__main__":
    main()
