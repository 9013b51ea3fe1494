"""Synthetic text in three minutes: forum questions as private data, the embedded model, and a figure of the progress.

The questions are in the public domain (Reddit self posts up to 2013, collected as "Reddit Top 2.5 Million" under the
ODC PDDL 1.0; only short ones without links or strong words), so the figure may show them. A figure of real private
data must not be published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from gape._support.files import read_table
from gape._support.geometry import distances
from gape.core.errors import RunError
from gape.core.types import Floats, Points
from gape.embedders.minilm import MiniLM
from gape.evaluation.plots import COLOURS, GREY, INK, figure, require_matplotlib
from gape.modalities import load_texts
from gape.modalities.arrow import samples_from_arrow
from gape.runs.folder.layout import Layout
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import SyntheticTexts, run_text

RUN = "run"
_MEASURED = 400  # number of records in the figure and in the distances


@dataclass(frozen=True)
class TextDemo:
    """The synthetic texts of the demo, and how close they got to the private ones."""

    result: SyntheticTexts
    records: int
    measured: int  # number of records used for gaps and figure
    gaps: tuple[float, ...]  # mean distance from a record to the nearest text, at the start and after each round
    figure: Path


def demo_settings(epsilon: float, seed: int) -> Settings:
    """Return the settings of the demo: small enough for three minutes on two cores."""
    with as_file(files(__package__) / "questions.toml") as prompts:
        return Settings.of(
            {
                "epsilon": epsilon,
                "seed": seed,
                "prompts": str(prompts),
                "samples": 24,
                "rounds": 4,
                "scales": (0.6, 0.9),
            }
        )


def run_questions(
    folder: str | Path,
    epsilon: float = 4.0,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> TextDemo:
    """Make synthetic questions from the private ones, and plot how each round gets closer to them.

    The run is an ordinary one in the subfolder `run`. The same call resumes it.
    """
    require_matplotlib()
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / RUN).exists())):
        raise RunError(f"{folder} exists and is not the folder of a demo; choose a new folder")
    with as_file(files(__package__) / "questions.csv.gz") as data:
        records = load_texts(data, "text")
    result = run_text(demo_settings(epsilon, seed), folder / RUN, source=records.content.tolist(), progress=progress)
    embedder = MiniLM()
    shown = np.random.default_rng(seed).choice(len(records), _MEASURED, replace=False)
    private = embedder.embed(records.content[shown])
    layout = Layout(folder / RUN)
    rounds = [layout.round(turn).synthetic for turn in layout.complete()]
    rounds.sort(key=lambda path: int(path.parent.name))
    # As many texts of the start as of each round, so that the comparison is of positions, not of numbers.
    written = [embedder.embed(samples_from_arrow(read_table(path)["sample"])[: len(result)]) for path in rounds]
    gaps = tuple(float(distances(private, points).min(axis=1).mean()) for points in written)
    drawn = folder / "way.png"
    _draw(drawn, private, written, gaps, f"{len(records):,} private texts, {result.privacy.headline}")
    return TextDemo(result, len(records), len(shown), gaps, drawn)


def _draw(path: Path, private: Points, written: list[Points], gaps: tuple[float, ...], title: str) -> None:
    """Draw the first and the last texts among the private ones, and the distance between them by round."""
    plane = _principal_plane(private)
    with figure(path, columns=3, size=(9.6, 3.4)) as (fig, axes):
        for axis, name, points in ((axes[0, 0], "start", written[0]), (axes[0, 1], "end", written[-1])):
            axis.scatter(*(private @ plane).T, s=4, color=GREY, alpha=0.45, linewidth=0, label="private")
            axis.scatter(
                *(points @ plane).T, s=30, color=COLOURS["GAPE"], edgecolor="white", linewidth=0.6, label="synthetic"
            )
            axis.set(title=f"{name}: {len(points)} texts", xticks=[], yticks=[])
        for axis in axes[0, 1:2]:
            axis.set(xlim=axes[0, 0].get_xlim(), ylim=axes[0, 0].get_ylim())
        axes[0, 0].legend(loc="lower left")
        axes[0, 2].plot(range(len(gaps)), gaps, color=COLOURS["GAPE"], marker="o")
        axes[0, 2].set(xlabel="round", ylabel="mean over private texts", title="distance to the nearest synthetic text")
        axes[0, 2].set_xticks(range(len(gaps)))
        axes[0, 2].tick_params(colors=INK)
        fig.suptitle(title, fontsize=10.5)


def _principal_plane(points: Points) -> Floats:
    """Return the two directions, (d, 2), of largest variance."""
    centred = points - points.mean(axis=0)
    _, _, directions = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    plane: Floats = directions[:2].T
    return plane
