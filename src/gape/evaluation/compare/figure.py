"""The paper's figures: scores against epsilon, a line for each method; Sinkhorn W1 and recall first, then others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gape.evaluation import plots
from gape.evaluation.compare.cell import ScoredRound
from gape.evaluation.compare.grid import in_short
from gape.evaluation.compare.results import Comparison, by_voters, held_out, label_of
from gape.evaluation.plots import COLOURS, GREY, INK, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SAME = {"gape": "GAPE", "augpe": "Ranking", "ranking": "Ranking"} | dict.fromkeys(
    ("subsamplepe", "subsampling"), "Subsampling"
)
# For methods of other names; the rest of Okabe & Ito's palette.
_MORE = (("#E69F00", "v"), ("#56B4E9", "P"), ("#B8A800", "X"), (INK, "*"))
_ASIDE = 1.035  # the factor by which neighbouring methods are moved apart, so that intervals do not hide each other
_BEYOND = 2.5  # how far to the right of the last epsilon no noise is drawn, as a factor
_RED = "#B00020"
_LEVELS = ("start", "as many real records")
_WIDTH, _HEIGHT, _LEGEND = 8.4, 3.4, 0.9  # inches, of a figure, a row and what is below
_COLUMN = 1.9  # of an epsilon, where there are many

_PANELS: dict[str, list[tuple[Callable[[ScoredRound], float], str]]] = {
    "figure": [
        (held_out("sinkhorn"), "Sinkhorn $W_1$ (less is better)"),
        (held_out("recall"), "recall (more is better)"),
    ],
    "further": [
        (held_out("precision"), "precision (more is better)"),
        (held_out("distance"), "mean nearest distance (less is better)"),
        (by_voters("sinkhorn"), "Sinkhorn $W_1$ to records that voted"),
        (by_voters("recall"), "recall of records that voted"),
    ],
}


def draw(folder: Path, comparison: Comparison) -> None:
    """Draw figure, further and rounds, .png and .svg: means over seeds and their range, scored by who did not vote.

    The last two panels of further are in-sample, as the paper's figures are.
    """
    for name, panels in _PANELS.items():
        _draw(folder / name, comparison, panels)
    _draw_rounds(folder / "rounds", comparison)


def _draw_rounds(path: Path, comparison: Comparison) -> None:
    """Draw what becomes of the scores round by round, a column for each epsilon."""
    epsilons, panels = comparison.epsilons, _PANELS["figure"]
    size = max(_WIDTH, _COLUMN * len(epsilons)), 2 * _HEIGHT * 0.8 + _LEGEND
    shape = {"rows": len(panels), "columns": len(epsilons)}
    with plots.figure(path.with_suffix(".png"), **shape, size=size, sharex=True, sharey="row") as (fig, axes):
        for row, (value, title) in zip(axes, panels, strict=True):
            row[0].set_ylabel(title)
            for axis, epsilon in zip(row, epsilons, strict=True):
                for method, (colour, marker) in _styles(comparison).items():
                    found = comparison.by_round(method, epsilon, value)
                    means, turns = [each.mean for each in found], range(len(found))
                    axis.plot(turns, means, color=colour, marker=marker, markersize=3.0, label=label_of(method))
                    low, high = [each.lowest for each in found], [each.highest for each in found]
                    axis.fill_between(turns, low, high, color=colour, alpha=0.15, linewidth=0)
                _level(axis, _LEVELS[1], comparison.of_real(value).mean, ":")
        for axis, epsilon in zip(axes[0], epsilons, strict=True):
            axis.set_title("no noise" if math.isinf(epsilon) else rf"$\varepsilon$ = {in_short(epsilon)}")
        for axis in axes[-1]:
            axis.set_xlabel("round")
        _finish(fig, axes[0, 0], path, comparison)


def _draw(path: Path, comparison: Comparison, panels: Sequence[tuple[Callable[[ScoredRound], float], str]]) -> None:
    rows = len(panels) // 2
    size = _WIDTH, rows * _HEIGHT + _LEGEND
    with plots.figure(path.with_suffix(".png"), rows=rows, columns=2, size=size) as (fig, axes):
        for axis, (value, title) in zip(axes.flat, panels, strict=True):
            _panel(axis, comparison, value)
            axis.set_title(title)
        for axis in axes[-1]:
            axis.set_xlabel(r"privacy $\varepsilon$")
        _finish(fig, axes[0, 0], path, comparison)


def _finish(fig: Figure, axis: Axes, path: Path, comparison: Comparison) -> None:
    """Write below and above what all panels share, and the whole as .svg too."""
    _legend(fig, axis)
    plan, any_cell = comparison.study.plan, comparison.results[0]
    fig.suptitle(
        f"{any_cell.units:,} voters, m = {plan.samples:,}, T = {plan.rounds}; scored by {any_cell.scored:,} "
        f"records that did not vote; mean and range of {comparison.seeds_of_a_mean}",
        fontsize=9.5,
    )
    fig.savefig(path.with_suffix(".svg"), format="svg", metadata={"Date": None, "Creator": None})


def _styles(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Give every method its colour and its marker."""
    spare = iter(_MORE * len(comparison.methods))
    known = {method: _SAME.get(method) for method in comparison.methods}
    return {method: (COLOURS[name], MARKERS[name]) if name else next(spare) for method, name in known.items()}


def _panel(axis: Axes, comparison: Comparison, value: Callable[[ScoredRound], float]) -> None:
    places = _places(comparison.epsilons)
    drawn: list[float] = []
    for number, (method, (colour, marker)) in enumerate(_styles(comparison).items()):
        aside = _ASIDE ** (number - (len(comparison.methods) - 1) / 2)
        found = [(epsilon, comparison.at_end(method, epsilon, value)) for epsilon in comparison.epsilons]
        shown = [(x * aside, e, each) for x, (e, each) in zip(places, found, strict=True) if each.values]
        axis.errorbar(
            [x for x, _, _ in shown],
            [each.mean for _, _, each in shown],
            yerr=[
                [max(0.0, each.mean - each.lowest) for _, _, each in shown],  # rounding may put the mean outside
                [max(0.0, each.highest - each.mean) for _, _, each in shown],
            ],
            color=colour,
            marker=marker,
            linestyle="none",
            capsize=2.5,
            elinewidth=0.9,
            label=label_of(method),
            zorder=3,
        )
        line = [(x, each.mean) for x, epsilon, each in shown if math.isfinite(epsilon)]
        axis.plot([x for x, _ in line], [y for _, y in line], color=colour, zorder=2)
        beyond = [(x, each.mean) for x, _, each in shown][len(line) - 1 :]  # no noise is on no scale
        axis.plot([x for x, _ in beyond], [y for _, y in beyond], color=colour, linestyle=(0, (2, 2)), zorder=2)
        drawn += [bound for _, _, each in shown for bound in (each.lowest, each.highest)]
    levels = (comparison.at_start(value), comparison.of_real(value))
    for name, level, style in zip(_LEVELS, levels, ("--", ":"), strict=True):
        if _level(axis, name, level.mean, style):
            drawn.append(level.mean)
    _axis(axis, comparison.epsilons, places)
    margin = 0.06 * (max(drawn) - min(drawn)) or 0.01
    axis.set_ylim(min(drawn) - margin, max(drawn) + margin)


def _level(axis: Axes, name: str, level: float, style: str) -> bool:
    """Draw a level across, if there is one: real records are not scored by those that voted, which they are."""
    if math.isnan(level):
        return False
    axis.axhline(level, color=GREY, linestyle=style, linewidth=1.1, label=name, zorder=1)
    return True


def _legend(fig: Figure, axis: Axes) -> None:
    """Name the methods, then the levels, under the mark that everything here carries."""
    handles, labels = axis.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: labels[place] in _LEVELS)
    legend = fig.legend(
        [handles[place] for place in order],
        [labels[place] for place in order],
        loc="outside lower center",
        ncols=min(len(labels), 5),
        title="NOT differentially private: for research only",
        title_fontproperties={"weight": "bold", "size": 8.5},
    )
    legend.get_title().set_color(_RED)


def _places(epsilons: Sequence[float]) -> list[float]:
    """Where each epsilon is drawn; no noise stands to the right of all others."""
    finite = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
    return [*finite, *[_BEYOND * max(finite, default=1.0)] * (len(epsilons) - len(finite))]


def _axis(axis: Axes, epsilons: Sequence[float], places: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator  # noqa: PLC0415  (an optional extra)

    axis.set_xscale("log")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(list(places), ["no noise" if math.isinf(e) else in_short(e) for e in epsilons])
    axis.set_xlim(min(places) / 1.35, max(places) * 1.35)
    axis.grid(visible=False, axis="x")
