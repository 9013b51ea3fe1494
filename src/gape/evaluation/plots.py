"""Figures of runs in the plane, and the style that all figures of the project share.

Matplotlib is the optional extra `plot`; it is imported where it is used, without its global state or a display.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Indices, Points, Samples
from gape.evaluation.diagnostics import Diagnosis
from gape.evolution.state import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Okabe & Ito's palette, which readers with any common colour blindness can tell apart; markers differ as well.
COLOURS = {"Ranking": "#D55E00", "Subsampling": "#0072B2", "K-medoids": "#CC79A7", "GAPE": "#009E73"}
MARKERS = {"Ranking": "s", "Subsampling": "D", "K-medoids": "^", "GAPE": "o"}
GREY = "#8C8C8C"
INK = "#333333"
_LAST = "#D55E00"  # stands out from the colours of the rounds

_STYLE: dict[Any, Any] = {  # matplotlib types the keys as a Literal of all of its settings
    "svg.hashsalt": "gape",  # makes the files reproducible
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
}


@dataclass(frozen=True)
class Trajectory:
    """The samples of a run after each round, and the sample of the previous round that each comes from."""

    samples: tuple[Samples, ...]  # S(0), ..., S(T)
    parents: tuple[Indices, ...]  # parents[t - 1][i]: index in S(t - 1) of the sample that S(t)[i] equals or varies

    @classmethod
    def of(cls, states: Iterable[State]) -> Trajectory:
        """Collect the trajectory from all states of a run, in order."""
        samples: list[Samples] = []
        parents: list[Indices] = []
        proposal = None
        for state in states:
            if state.proposal is not None:
                proposal = state.proposal
                continue
            samples.append(state.synthetic)
            if proposal is not None and state.selection is not None:
                parents.append(proposal.parents[state.selection.indices])
        return cls(tuple(samples), tuple(parents))

    @property
    def last(self) -> int:
        """The last round T."""
        return len(self.samples) - 1

    def ancestry(self, turn: int) -> NDArray[np.float32]:
        """Return the path of each member of S(turn) from the start, (turn + 1, len(S(turn)), d)."""
        members = np.arange(len(self.samples[turn]))
        path = [self.samples[turn]]
        for t in range(turn, 0, -1):
            members = self.parents[t - 1][members]
            path.append(self.samples[t - 1][members])
        return np.stack(path[::-1]).astype(np.float32)


def require_matplotlib() -> None:
    """Raise an error if matplotlib is missing, so that callers can check before a long computation."""
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415
    except ImportError as error:
        raise InputError("plots need matplotlib; install gape[plot]") from error


@contextmanager
def figure(
    path: str | Path, *, rows: int = 1, columns: int = 1, size: tuple[float, float], **options: Any
) -> Iterator[tuple[Figure, NDArray[Any]]]:
    """Yield a figure of `size` inches with its axes, (rows, columns), and write it to `path` as PNG at the end."""
    require_matplotlib()
    import matplotlib as mpl  # noqa: PLC0415  (an optional extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        drawn = Figure(figsize=size, layout="constrained")
        yield drawn, drawn.subplots(rows, columns, squeeze=False, **options)
        drawn.savefig(path, format="png", dpi=150, metadata={"Software": None})


def trajectory_figure(
    path: str | Path,
    private: Points,
    trajectory: Trajectory,
    title: str,
    *,
    rounds: Sequence[int] = (0, 1, 2, 5, 10, 20),
    colour: str = COLOURS["GAPE"],
) -> None:
    """Draw the samples after some rounds of a run in the plane, with the path of each.

    The private points are drawn as well, so use this only for made-up or public data.
    """
    shown = [t for t in rounds if t < trajectory.last] + [trajectory.last]
    with figure(path, columns=len(shown), size=(1.65 * len(shown), 3.1), sharex=True, sharey=True) as (fig, axes):
        for axis, t in zip(axes[0], shown, strict=True):
            _private_points(axis, private)
            axis.plot(*np.moveaxis(trajectory.ancestry(t), 2, 0), color=colour, alpha=0.45, linewidth=0.9, zorder=2)
            _sample_points(axis, trajectory.samples[t], colour)
            axis.set_title(f"round {t}" if t else "start")
        _frame(axes[0], private, [trajectory])
        fig.suptitle(title, fontsize=10.5)
        _legend(fig, colour)


def comparison_figure(path: str | Path, private: Points, trajectories: Mapping[str, Trajectory], title: str) -> None:
    """Draw the trajectories of several runs side by side, coloured by round, with the last samples marked.

    The private points are drawn as well, so use this only for made-up or public data.
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  (an optional extra)

    size = (2.35 * len(trajectories) + 0.9, 3.9)
    with figure(path, columns=len(trajectories), size=size, sharex=True, sharey=True) as (fig, axes):
        for axis, (name, trajectory) in zip(axes[0], trajectories.items(), strict=True):
            _private_points(axis, private)
            axis.plot(
                *np.moveaxis(trajectory.ancestry(trajectory.last), 2, 0),
                color=INK,
                alpha=0.35,
                linewidth=0.8,
                zorder=2,
            )
            turns = np.repeat(np.arange(trajectory.last + 1), [len(s) for s in trajectory.samples])
            passed = axis.scatter(
                *np.concatenate(trajectory.samples).T, c=turns, cmap="viridis_r", s=14, linewidth=0, zorder=3
            )
            _sample_points(axis, trajectory.samples[-1], _LAST, marker="*", size=120)
            axis.set_title(name)
        _frame(axes[0], private, trajectories.values())
        bar = fig.colorbar(passed, ax=axes[0, -1], label="round", shrink=0.85, aspect=28)
        bar.locator = MaxNLocator(integer=True, nbins=5)
        bar.outline.set_visible(False)
        fig.suptitle(title, fontsize=10.5)
        _legend(fig, _LAST, marker="*", path_colour=INK, label="synthetic points after the last round")


def dimension_figure(path: str | Path, diagnosis: Diagnosis) -> None:
    """Draw the intrinsic dimension of variations against their scale: the median and the range over texts."""
    counts = np.array([[d.dimension for d in at_scale.dimensions] for at_scale in diagnosis.scales])  # (scales, texts)
    scales = [at_scale.scale for at_scale in diagnosis.scales]
    with figure(path, size=(4.6, 3.2)) as (_, axes):
        axis = axes[0, 0]
        axis.fill_between(scales, counts.min(axis=1), counts.max(axis=1), color=COLOURS["GAPE"], alpha=0.2, linewidth=0)
        axis.plot(scales, np.median(counts, axis=1), color=COLOURS["GAPE"], marker="o")
        axis.set(
            title=f"Directions that hold 80% of the variation, of {diagnosis.ambient}",
            xlabel="scale of the variations",
            ylabel="intrinsic dimension",
            ylim=(0, None),
        )


def decay_figure(path: str | Path, diagnosis: Diagnosis) -> None:
    """Draw the decay of the singular values of the first text's variations, one line per scale."""
    import matplotlib as mpl  # noqa: PLC0415  (an optional extra)

    colours = mpl.colormaps["viridis_r"](np.linspace(0.1, 0.95, len(diagnosis.scales)))
    with figure(path, size=(4.6, 3.2)) as (_, axes):
        axis = axes[0, 0]
        for at_scale, colour in zip(diagnosis.scales, colours, strict=True):
            values = at_scale.dimensions[0].singular_values
            axis.plot(np.arange(1, len(values) + 1), values / values[0], color=colour, label=f"{at_scale.scale:g}")
        axis.set(
            title="Singular values of the variations of one text",
            xlabel="rank (log scale)",
            ylabel="share of the largest",
            xscale="log",
            ylim=(0, None),
        )
        axis.legend(title="scale")


def bias_figure(path: str | Path, seen: Diagnosis) -> None:
    """Draw how far the mean of the variations lies from their sample, and how far they spread, against their scale."""
    found = np.array([[(m.bias, m.bias_error, np.sqrt(m.variance)) for m in each.moments] for each in seen.scales])
    scales = [each.scale for each in seen.scales]
    bias, chance, spread = np.median(found, axis=1).T  # over texts
    with figure(path, size=(4.6, 3.2)) as (_, axes):
        axis = axes[0, 0]
        axis.fill_between(scales, found[..., 0].min(axis=1), found[..., 0].max(axis=1), color=_LAST, alpha=0.2)
        axis.plot(scales, bias, color=_LAST, marker="s", label="bias, |mean - y|")
        axis.plot(scales, chance, color=GREY, linestyle=":", label="by chance, without bias")
        axis.plot(scales, spread, color=COLOURS["GAPE"], marker="o", label="spread, sqrt(tr Cov)")
        axis.set(
            title="Mean and spread of the variations",
            xlabel="scale of the variations",
            ylabel="distance in the embedding",
            ylim=(0, None),
        )
        axis.legend()


def _private_points(axis: Axes, private: Points) -> None:
    axis.scatter(private[:, 0], private[:, 1], s=2.5, color=GREY, alpha=0.25, linewidth=0, zorder=1, rasterized=True)


def _sample_points(axis: Axes, samples: Samples, colour: str, *, marker: str = "o", size: float = 34) -> None:
    axis.scatter(
        samples[:, 0], samples[:, 1], s=size, marker=marker, color=colour, edgecolor="white", linewidth=0.7, zorder=4
    )


def _frame(axes: Iterable[Axes], private: Points, trajectories: Iterable[Trajectory]) -> None:
    """Give all panels the same limits, which contain everything drawn, and equal units."""
    everything = np.concatenate([private, *(s for trajectory in trajectories for s in trajectory.samples)])
    low, high = everything.min(axis=0), everything.max(axis=0)
    margin = 0.06 * float((high - low).max())
    for axis in axes:
        axis.locator_params(nbins=5, integer=True)
        axis.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin), aspect="equal")


def _legend(
    fig: Figure, colour: str, *, marker: str = "o", label: str = "synthetic points", path_colour: str = ""
) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415  (an optional extra)

    size = 12 if marker == "*" else 8
    entries = [
        Line2D([], [], marker="o", linestyle="none", color=GREY, markersize=3.5, label="private points (made up)"),
        Line2D([], [], marker=marker, linestyle="none", color=colour, markersize=size, mec="white", label=label),
        Line2D([], [], color=path_colour or colour, alpha=0.5, linewidth=1.0, label="their path from the start"),
    ]
    fig.legend(handles=entries, loc="outside lower center", ncols=3)
