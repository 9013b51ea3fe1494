"""The paper's figures: scores against epsilon, one line per method; first Sinkhorn W1 and recall, then other scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gape.evaluation import plots
from gape.evaluation.compare.cell import ScoredRound
from gape.evaluation.compare.grid import shortest
from gape.evaluation.compare.results import Comparison, by_voters, held_out, label_of
from gape.evaluation.plots import COLOURS, GREY, INK, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FAMILIES = {"gape": "GAPE", "augpe": "Ranking", "ranking": "Ranking"} | dict.fromkeys(
    ("subsamplepe", "subsampling"), "Subsampling"
)
# Styles of methods with other names: the rest of Okabe & Ito's palette.
_SPARE_STYLES = (("#E69F00", "v"), ("#56B4E9", "P"), ("#B8A800", "X"), (INK, "*"))
_OFFSET = 1.035  # factor between the x positions of neighbouring methods, so that intervals do not hide each other
_NO_NOISE = 2.5  # "no noise" is drawn at this multiple of the largest epsilon
_RED = "#B00020"
_BASELINES = ("start", "as many real records")
_WIDTH, _HEIGHT, _LEGEND = 8.4, 3.4, 0.9  # inches: of the figure, of a row, and of the legend below
_COLUMN = 1.9  # inches per epsilon, where there are many

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


def draw_figures(folder: Path, comparison: Comparison) -> None:
    """Draw `figure`, `further` and `rounds` as .png and .svg: mean and range over seeds, scored by held-out records.

    The last two panels of `further` are in-sample, like the paper's figures.
    """
    for name, panels in _PANELS.items():
        _draw_panels(folder / name, comparison, panels)
    _draw_rounds(folder / "rounds", comparison)


def _draw_rounds(path: Path, comparison: Comparison) -> None:
    """Draw the scores round by round, one column per epsilon."""
    epsilons, panels = comparison.epsilons, _PANELS["figure"]
    size = max(_WIDTH, _COLUMN * len(epsilons)), 2 * _HEIGHT * 0.8 + _LEGEND
    shape = {"rows": len(panels), "columns": len(epsilons)}
    with plots.figure(path.with_suffix(".png"), **shape, size=size, sharex=True, sharey="row") as (fig, axes):
        for row, (value, title) in zip(axes, panels, strict=True):
            row[0].set_ylabel(title)
            for axis, epsilon in zip(row, epsilons, strict=True):
                for method, (colour, marker) in _styles(comparison).items():
                    scores = comparison.by_round(method, epsilon, value)
                    means, turns = [score.mean for score in scores], range(len(scores))
                    axis.plot(turns, means, color=colour, marker=marker, markersize=3.0, label=label_of(method))
                    low, high = [score.lowest for score in scores], [score.highest for score in scores]
                    axis.fill_between(turns, low, high, color=colour, alpha=0.15, linewidth=0)
                _draw_baseline(axis, _BASELINES[1], comparison.of_real(value).mean, ":")
        for axis, epsilon in zip(axes[0], epsilons, strict=True):
            axis.set_title("no noise" if math.isinf(epsilon) else rf"$\varepsilon$ = {shortest(epsilon)}")
        for axis in axes[-1]:
            axis.set_xlabel("round")
        _finish(fig, axes[0, 0], path, comparison)


def _draw_panels(
    path: Path, comparison: Comparison, panels: Sequence[tuple[Callable[[ScoredRound], float], str]]
) -> None:
    rows = len(panels) // 2
    size = _WIDTH, rows * _HEIGHT + _LEGEND
    with plots.figure(path.with_suffix(".png"), rows=rows, columns=2, size=size) as (fig, axes):
        for axis, (value, title) in zip(axes.flat, panels, strict=True):
            _draw_panel(axis, comparison, value)
            axis.set_title(title)
        for axis in axes[-1]:
            axis.set_xlabel(r"privacy $\varepsilon$")
        _finish(fig, axes[0, 0], path, comparison)


def _finish(fig: Figure, axis: Axes, path: Path, comparison: Comparison) -> None:
    """Add the legend and the title that all panels share, and save the figure as .svg too."""
    _add_legend(fig, axis)
    plan, any_cell = comparison.study.plan, comparison.results[0]
    fig.suptitle(
        f"{any_cell.units:,} voters, m = {plan.samples:,}, T = {plan.rounds}; scored by {any_cell.scored:,} "
        f"records that did not vote; mean and range of {comparison.seeds_of_a_mean}",
        fontsize=9.5,
    )
    fig.savefig(path.with_suffix(".svg"), format="svg", metadata={"Date": None, "Creator": None})
    fig.set_layout_engine("none")  # the .png has the same layout


def _styles(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Return the colour and the marker of each method; the first method of a family has those of the family."""
    spare = iter(_SPARE_STYLES * len(comparison.methods))
    styles: dict[str, tuple[str, str]] = {}
    for method in comparison.methods:
        family = _FAMILIES.get(method)
        style = (COLOURS[family], MARKERS[family]) if family else None
        styles[method] = next(spare) if style is None or style in styles.values() else style
    return styles


def _draw_panel(axis: Axes, comparison: Comparison, value: Callable[[ScoredRound], float]) -> None:
    positions = _positions(comparison.epsilons)
    drawn: list[float] = []
    for number, (method, (colour, marker)) in enumerate(_styles(comparison).items()):
        offset = _OFFSET ** (number - (len(comparison.methods) - 1) / 2)
        scores = [(epsilon, comparison.at_end(method, epsilon, value)) for epsilon in comparison.epsilons]
        shown = [(x * offset, e, score) for x, (e, score) in zip(positions, scores, strict=True) if score.values]
        axis.errorbar(
            [x for x, _, _ in shown],
            [score.mean for _, _, score in shown],
            yerr=[
                [max(0.0, score.mean - score.lowest) for _, _, score in shown],  # rounding may put the mean outside
                [max(0.0, score.highest - score.mean) for _, _, score in shown],
            ],
            color=colour,
            marker=marker,
            linestyle="none",
            capsize=2.5,
            elinewidth=0.9,
            label=label_of(method),
            zorder=3,
        )
        line = [(x, score.mean) for x, epsilon, score in shown if math.isfinite(epsilon)]
        axis.plot([x for x, _ in line], [y for _, y in line], color=colour, zorder=2)
        beyond = [(x, score.mean) for x, _, score in shown][len(line) - 1 :]  # "no noise" is not on the scale
        axis.plot([x for x, _ in beyond], [y for _, y in beyond], color=colour, linestyle=(0, (2, 2)), zorder=2)
        drawn += [bound for _, _, score in shown for bound in (score.lowest, score.highest)]
    baselines = comparison.baselines(value)
    for name, style in zip(_BASELINES, ("--", ":"), strict=True):  # several starts are drawn in `rounds` alone
        if name in baselines and _draw_baseline(axis, name, baselines[name].mean, style):
            drawn.append(baselines[name].mean)
    _label_epsilons(axis, comparison.epsilons, positions)
    margin = 0.06 * (max(drawn) - min(drawn)) or 0.01
    axis.set_ylim(min(drawn) - margin, max(drawn) + margin)


def _draw_baseline(axis: Axes, name: str, level: float, style: str) -> bool:
    """Draw a horizontal line and return True, or return False without a value: real records are themselves voters."""
    if math.isnan(level):
        return False
    axis.axhline(level, color=GREY, linestyle=style, linewidth=1.1, label=name, zorder=1)
    return True


def _add_legend(fig: Figure, axis: Axes) -> None:
    """Name the methods, then the baselines, under the warning that every file of a comparison carries."""
    handles, labels = axis.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda index: labels[index] in _BASELINES)
    legend = fig.legend(
        [handles[index] for index in order],
        [labels[index] for index in order],
        loc="outside lower center",
        ncols=min(len(labels), 5),
        title="NOT differentially private: for research only",
        title_fontproperties={"weight": "bold", "size": 8.5},
    )
    legend.get_title().set_color(_RED)


def _positions(epsilons: Sequence[float]) -> list[float]:
    """Return the x position of each epsilon; "no noise" stands to the right of all others."""
    finite = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
    return [*finite, *[_NO_NOISE * max(finite, default=1.0)] * (len(epsilons) - len(finite))]


def _label_epsilons(axis: Axes, epsilons: Sequence[float], positions: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator  # noqa: PLC0415  (an optional extra)

    axis.set_xscale("log")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(list(positions), ["no noise" if math.isinf(e) else shortest(e) for e in epsilons])
    axis.set_xlim(min(positions) / 1.35, max(positions) * 1.35)
    axis.grid(visible=False, axis="x")
