"""The two figures of the rates: errors against n, and slopes against the ambient dimension."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gape.evaluation import plots

Rows = Sequence[dict[str, Any]]

# Okabe & Ito's palette again, by ambient dimension and by intrinsic dimension; markers tell it once more.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_MARKERS = ("o", "s", "^", "D")
_LOOKS: dict[str, dict[str, Any]] = {
    "subspace": {"linestyle": "-"},
    "isotropic": {"linestyle": "--", "markerfacecolor": "white"},
}


def _style(value: int, among: Sequence[int]) -> dict[str, Any]:
    place = list(among).index(value) % len(_COLOURS)
    return {"color": _COLOURS[place], "marker": _MARKERS[place]}


def _values(rows: Rows, name: str) -> list[Any]:
    return sorted({row[name] for row in rows})


def _chosen(rows: Rows, **wanted: Any) -> Rows:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def draw_errors(path: Path, errors: Rows) -> None:
    """Draw the mean error against n on logarithmic axes, a panel for each k, with the theorem's slope."""
    intrinsic, ambient = _values(errors, "k"), _values(errors, "d")
    size = (3.0 * len(intrinsic) + 0.4, 4.2)
    with plots.figure(path, columns=len(intrinsic), size=size, sharex=True, sharey=True) as (fig, axes):
        for axis, k in zip(axes[0], intrinsic, strict=True):
            for d in ambient:
                for line, look in _LOOKS.items():
                    rows = _chosen(errors, variations=line, k=k, d=d)
                    found = [[row[name] for row in rows] for name in ("n", "mean W1")]
                    axis.plot(*found, label=f"{line}, d = {d}", **look, **_style(d, ambient))
            quiet = _mean_over_d(_chosen(errors, variations="subspace, no noise", k=k))
            axis.plot(list(quiet), list(quiet.values()), color=plots.GREY, label="subspace, no noise, mean over d")
            noisy = _mean_over_d(_chosen(errors, variations="subspace", k=k))
            x, y = np.array(list(noisy)), np.array(list(noisy.values()))
            middle = np.exp(np.mean(np.log(y))) * (x / np.exp(np.mean(np.log(x)))) ** (-1 / k)
            axis.plot(x, middle, color=plots.INK, linestyle=":", linewidth=2.2, label="$n^{-1/k}$, the theorem's slope")
            away = 0.5 * k / (k + 1)  # mean distance of the records to the centre of their ball
            axis.axhline(away, color=plots.GREY, linewidth=0.8, linestyle="-.", label="the start, all at the centre")
            axis.set(title=f"k = {k}", xlabel="records n", xscale="log", yscale="log")
            axis.set_xticks(x, [f"{n:,}" for n in x])
            axis.minorticks_off()
        axes[0, 0].set_ylabel("W1 to the private data")
        axes[0, 0].set_yticks([0.03, 0.05, 0.1, 0.2, 0.4], ["0.03", "0.05", "0.1", "0.2", "0.4"])
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7.5)


def _mean_over_d(rows: Rows) -> dict[int, float]:
    return {n: float(np.mean([row["mean W1"] for row in _chosen(rows, n=n)])) for n in _values(rows, "n")}


def draw_slopes(path: Path, slopes: Rows) -> None:
    """Draw the fitted slopes with their intervals against d, beside what the theorem says."""
    intrinsic = _values(slopes, "k")
    ambient = np.array(_values(slopes, "d"), dtype=np.float64)
    with plots.figure(path, size=(6.4, 3.8)) as (_, axes):
        axis = axes[0, 0]
        for place, k in enumerate(intrinsic):
            for line, look in _LOOKS.items():
                rows = _chosen(slopes, variations=line, k=k)
                if not rows:
                    continue
                y = np.array([row["slope"] for row in rows])
                reach = np.abs([[row["low"], row["high"]] for row in rows] - y[:, None]).T
                x = [row["d"] * 1.04 ** (place - 1) for row in rows]  # side by side, so that no interval hides another
                axis.errorbar(x, y, reach, label=f"{line}, k = {k}", capsize=2.5, **look, **_style(k, intrinsic))
            axis.axhline(-1 / k, color=_style(k, intrinsic)["color"], linestyle=":", linewidth=1.2, zorder=1)
            at = {"xy": (1.01, -1 / k), "xycoords": ("axes fraction", "data"), "annotation_clip": False}
            axis.annotate(f"-1/{k}", **at, va="center", fontsize=8)
        axis.plot(ambient, -1 / ambient, color=plots.INK, linestyle=":", label="-1/d, by theory for isotropic")
        axis.set(xscale="log", xlabel="ambient dimension d", ylabel="slope of log W1 over log n")
        axis.set_xticks(ambient, [f"{d:g}" for d in ambient])
        axis.minorticks_off()
        axis.legend(loc="center left", bbox_to_anchor=(1.08, 0.5))
