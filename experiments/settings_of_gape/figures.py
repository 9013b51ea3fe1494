"""The figures of the settings: a small panel for each, all on one scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.settings_of_gape.sweeps import ALGORITHM, AUGPE, DEFAULT, GAPE, K_MEDIAN, SEATS, Setting

from gape.evaluation import plots
from gape.evaluation.plots import COLOURS, GREY, INK, MARKERS

_COLUMNS = 4
_STYLES: dict[str, dict[str, Any]] = {
    GAPE: {"color": COLOURS["GAPE"], "marker": MARKERS["GAPE"]},
    K_MEDIAN: {"color": COLOURS["K-medoids"], "marker": MARKERS["K-medoids"]},
    ALGORITHM: {"color": INK, "marker": "v"},
    SEATS: {"color": COLOURS["Subsampling"], "marker": "P"},
    AUGPE: {"color": COLOURS["Ranking"], "marker": MARKERS["Ranking"]},
    "": {"color": INK, "marker": "o", "linestyle": "none"},
}
_DASHES = ("--", "-", ":", "-.")  # by epsilon
_CROWDED = 30  # letters below an axis that do not fit unless they are turned


def draw_panels(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    sweeps: Mapping[str, Mapping[str, Mapping[str, Setting]]],
    epsilons: Sequence[float],
    measure: str,
) -> None:
    """Draw a measure against every setting: means over seeds, with the 95% interval of how it differs from the default.

    The default's own value is a grey line across, one for each epsilon. A line without runs is left out.
    """
    height = -(-(len(sweeps) + 1) // _COLUMNS)
    size = (2.75 * _COLUMNS, 2.75 * height)
    with plots.figure(path, rows=height, columns=_COLUMNS, size=size) as (_, axes):
        handles: dict[str, Any] = {}
        for axis, (sweep, lines) in zip(axes.flat, sweeps.items(), strict=False):
            ticks = list(next(iter(lines.values())))
            for epsilon, dash in zip(epsilons, _DASHES, strict=False):
                _level(axis, rows, epsilon, dash, measure)
                for line in lines:
                    some = [
                        row for row in rows if (row["varied"], row["rule"], row["epsilon"]) == (sweep, line, epsilon)
                    ]
                    if not some:
                        continue
                    at, values = [ticks.index(row["value"]) for row in some], [row[measure] for row in some]
                    reach = [row[f"{measure}: give or take"] for row in some]
                    style = {"linestyle": dash, **_STYLES[line]}
                    full = style["color"] if epsilon == epsilons[-1] else "white"
                    drawn = axis.errorbar(
                        at, values, yerr=reach, capsize=1.5, elinewidth=0.8, markerfacecolor=full, **style
                    )
                    if line and epsilon == epsilons[-1]:
                        handles.setdefault(line, drawn)
            turned = {"rotation": 40, "ha": "right"} if sum(map(len, ticks)) > _CROWDED else {}
            axis.set_xticks(range(len(ticks)), ticks, **turned)
            axis.set_title(sweep)
            if limits := _limits(rows, sweep, measure):
                axis.set_ylim(limits)
        for axis in axes.flat[len(sweeps) :]:
            axis.set_axis_off()
        corner = axes.flat[len(sweeps)]
        for epsilon, dash in zip(epsilons, _DASHES, strict=False):
            full = INK if epsilon == epsilons[-1] else "white"
            label = f"epsilon {epsilon:g}"
            (handles[label],) = corner.plot(
                [], [], color=INK, marker="o", markerfacecolor=full, linestyle=dash, label=label
            )
        corner.legend(handles.values(), handles, loc="center")
        for axis in axes[:, 0]:
            axis.set_ylabel(f"{measure}, texts that did not vote")


def _limits(rows: Sequence[Mapping[str, Any]], sweep: str, measure: str) -> tuple[float, float] | None:
    """Return what all panels show, or None for one whose values fall out: where few survive, all else is far away."""
    most = max(row["survivors"] for row in rows)
    usual = [row[measure] for row in rows if row["survivors"] == most]
    margin = 0.08 * (max(usual) - min(usual))
    low, high = min(usual) - margin, max(usual) + margin
    fits = all(low <= row[measure] <= high for row in rows if row["varied"] == sweep)
    return (low, high) if fits and margin else None


def _level(axis: Any, rows: Sequence[Mapping[str, Any]], epsilon: float, dash: str, measure: str) -> None:
    """Draw the default's value across the panel."""
    usual = next((row[measure] for row in rows if row["epsilon"] == epsilon and row["setting"] == DEFAULT.name), None)
    if usual is not None:
        axis.axhline(usual, color=GREY, linestyle=dash, linewidth=0.8, zorder=0)
