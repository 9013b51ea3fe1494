"""The figures of cluster discovery."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from experiments.cluster_discovery.covered import Instance
from experiments.cluster_discovery.practical import RECORDS
from experiments.rules import DEFAULT, PAPER, THRESHOLD_ZERO, UNSIGNED

from gape.evaluation import plots
from gape.evaluation.plots import COLOURS, GREY, INK, MARKERS

_STYLES: dict[str, dict[str, Any]] = {
    **{method: {"color": colour, "marker": MARKERS[method]} for method, colour in COLOURS.items()},
    THRESHOLD_ZERO: {"color": COLOURS["GAPE"], "marker": MARKERS["GAPE"]},
    UNSIGNED: {"color": INK, "marker": "v", "linestyle": "--"},
    PAPER: {"color": COLOURS["GAPE"], "marker": "P", "linestyle": ":"},
    DEFAULT: {"color": "#E69F00", "marker": "*", "linestyle": "-."},
}
_PANELS = {  # of the mixtures: what is on the axis, and how it is written
    "clusters": ("clusters", "number of clusters"),
    "share": ("smallest cluster", "records in the smallest cluster"),
    "samples": ("m", "samples m"),
    "epsilon": ("epsilon", "epsilon of the run"),
    "share, 20-D": ("smallest cluster", "records in the smallest cluster"),
    "epsilon, 20-D": ("epsilon", "epsilon of the run"),
}


def draw_covered(
    path: Path,
    instances: Sequence[Instance],
    rows: Sequence[Mapping[str, Any]],
    runs: Mapping[tuple[str, str], Sequence[Mapping[str, float]]],
) -> None:
    """Draw the coverage error of every run where the theorem holds, and who keeps both clusters below its sizes."""
    with plots.figure(path, columns=len(instances) + 1, size=(10.2, 3.6)) as (_, axes):
        for axis, instance in zip(axes[0], instances, strict=False):
            for place, method in enumerate(COLOURS):
                errors = [run["coverage"] for run in runs.get((instance.name, method), [])]
                beside = np.random.default_rng(0).uniform(-0.25, 0.25, len(errors))
                style = {"color": COLOURS[method], "marker": MARKERS[method]}
                axis.scatter(place + beside, errors, s=14, alpha=0.5, linewidth=0, **style)
            axis.axhline(instance.bound, color=INK, linestyle=":", label=f"the theorem's bound, {instance.bound:.3g}")
            axis.legend(loc="upper right", bbox_to_anchor=(1.0, 1.0))
            share = 100 * instance.sizes[0] / sum(instance.sizes)
            title = f"{instance.clusters} clusters, the smallest {share:.3g}%"
            axis.set(title=title, yscale="log", ylim=(1e-3, 1e5), xlim=(-0.5, len(COLOURS) - 0.5))
            axis.set_ylabel("coverage error at the end")
            axis.set_xticks(range(len(COLOURS)), list(COLOURS))
            axis.tick_params(axis="x", labelrotation=20)
        _draw_sizes(axes[0, -1], instances[0], rows)


def _draw_sizes(axis: Any, instance: Instance, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the share of runs that keep both clusters against the size of the smaller one, with the theorem's least."""
    for method in COLOURS:
        lines = [row for row in rows if row["instance"].startswith(instance.name) and row["method"] == method]
        if not lines:
            continue
        lines.sort(key=lambda row: row["smallest cluster"])
        at = [row["smallest cluster"] for row in lines]
        axis.plot(at, [row["share"] for row in lines], label=method, clip_on=False, **_STYLES[method])
        low, high = ([row[name] for row in lines] for name in ("low", "high"))
        axis.fill_between(at, low, high, color=COLOURS[method], alpha=0.12, linewidth=0)
    _least(axis, instance.theory.least_cluster)
    axis.set(
        xscale="log", ylim=(-0.04, 1.04), xlim=(1e-7 * instance.theory.least_cluster, 3 * instance.theory.least_cluster)
    )
    axis.set(title="2 clusters, and smaller ones", xlabel="records in the smaller cluster")
    axis.set_ylabel("share of runs that end with both")
    axis.legend(loc="lower left")


def draw_kept(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the share of clusters kept against all that was varied."""
    _draw_panels(
        path, rows, ("share kept", "kept, low", "kept, high"), "share of clusters kept", {"ylim": (-0.04, 1.04)}
    )


def draw_coverage(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the mean coverage error against all that was varied."""
    names = ("coverage", "coverage, low", "coverage, high")
    _draw_panels(path, rows, names, "coverage error, mean", {"yscale": "log"})


def _draw_panels(
    path: Path, rows: Sequence[Mapping[str, Any]], names: tuple[str, str, str], label: str, limits: dict[str, Any]
) -> None:
    with plots.figure(path, rows=2, columns=3, size=(10.2, 6.2), sharey=True) as (fig, axes):
        for axis, (sweep, (column, words)) in zip(axes.flat, _PANELS.items(), strict=True):
            lines = [row for row in rows if row["sweep"] == sweep]
            values = sorted({row[column] for row in lines})
            by_size = column == "smallest cluster"
            for method, style in _STYLES.items():
                drawn = sorted((row for row in lines if row["method"] == method), key=lambda row: row[column])
                if not drawn:
                    continue
                at = [row[column] if by_size else values.index(row[column]) for row in drawn]
                middle, low, high = ([row[name] for row in drawn] for name in names)
                axis.plot(at, middle, label=method, clip_on=False, **style)
                axis.fill_between(at, low, high, color=style["color"], alpha=0.12, linewidth=0)
            if by_size and lines:
                axis.set_xscale("log")
                _least(axis, lines[0]["theorem's least"])
            else:
                axis.set_xticks(range(len(values)), [f"{v:g}" if np.isfinite(v) else "∞" for v in values])
            axis.set(xlabel=words, title="20 dimensions" if "20-D" in sweep else "plane", **limits)
        for axis in axes[:, 0]:
            axis.set_ylabel(label)
        handles, labels = next(
            (found for axis in axes.flat if (found := axis.get_legend_handles_labels())[0]), ([], [])
        )
        fig.legend(handles, labels, loc="outside lower center", ncols=7)


def draw_least(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw how large a cluster the theorem asks for in the settings of the mixtures, beside all their records."""
    with plots.figure(path, columns=2, size=(7.4, 3.2), sharey=True) as (_, axes):
        for axis, name in zip(axes[0], ("epsilon", "samples"), strict=True):
            column, words = _PANELS[name]
            values = sorted({row[column] for row in rows if row["sweep"] == name and np.isfinite(row[column])})
            for sweep, style in ((name, "-"), (f"{name}, 20-D", "--")):
                least = {row[column]: row["theorem's least"] for row in rows if row["sweep"] == sweep}
                at = [value for value in values if value in least]
                space = "20 dimensions" if "20-D" in sweep else "plane"
                axis.plot(at, [least[value] for value in at], style, color=INK, marker="o", label=space)
            axis.axhline(RECORDS, color=GREY, linestyle=":", label="all records of the mixtures")
            axis.set(xscale="log", yscale="log", xlabel=words)
            axis.set_xticks(values, [f"{value:g}" for value in values])
            axis.minorticks_off()
        axes[0, 0].set_ylabel("least cluster of the theorem, records")
        axes[0, 0].legend()


def _least(axis: Any, size: float) -> None:
    axis.axvline(size, color=INK, linestyle=":")
    label = "the theorem's least"
    place = {"xycoords": axis.get_xaxis_transform(), "textcoords": "offset points"}
    axis.annotate(label, (size, 0.5), (-3, 0), rotation=90, ha="right", va="center", in_layout=False, **place)
