"""Synthetic text in three minutes: forum posts as private data, the embedded model, and a figure of the progress.

The private posts are about four subjects. The prompts name a hundred topics, most of them others, so that votes have to
find out what the posts are about. The posts are in the public domain (Reddit self posts up to 2013, collected as
"Reddit Top 2.5 Million" under the ODC PDDL 1.0; only short ones without links or strong words), so the figure may show
them. A figure of real private data must not be published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import cast

import numpy as np

from gape._support.files import read_table
from gape._support.geometry import distances
from gape.core.errors import RunError
from gape.core.types import Floats, Points, Samples
from gape.embedders.minilm import MiniLM
from gape.evaluation.plots import COLOURS, INK, figure, require_matplotlib
from gape.modalities import load_texts
from gape.modalities.arrow import samples_from_arrow
from gape.runs.folder.layout import Layout
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import SyntheticTexts, run_text

RUN = "run"
SUBJECTS = {"fitness": "#009E73", "health": "#56B4E9", "money": "#E69F00", "work": "#CC79A7"}  # with their colours
_MEASURED = 400  # number of records in the figure and in the distances
_PAIRS = 4


@dataclass(frozen=True)
class TextDemo:
    """The synthetic texts of the demo, and how close they got to the private ones."""

    result: SyntheticTexts
    records: int
    measured: int  # number of records used for gaps and figure
    gaps: tuple[float, ...]  # mean distance from a record to the nearest text, at the start and after each round
    pairs: tuple[tuple[str, str], ...]  # private texts, and the synthetic text nearest to each
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
                "initial": 144,  # a wide start: the first vote finds the subjects
                "scales": (0.6, 0.9),
                "temperature": 0.8,  # a small model rambles at 1
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
        records = load_texts(data, "text", label="topic")
    labels = cast(Samples, records.labels)
    chosen = np.isin(labels.astype(str), list(SUBJECTS))
    texts, subjects = records.content[chosen], labels[chosen]
    result = run_text(demo_settings(epsilon, seed), folder / RUN, source=texts.tolist(), progress=progress)
    embedder = MiniLM()
    shown = np.random.default_rng(seed).choice(len(texts), _MEASURED, replace=False)
    private = embedder.embed(texts[shown])
    layout = Layout(folder / RUN)
    rounds = [layout.round(turn).synthetic for turn in layout.complete()]
    rounds.sort(key=lambda path: int(path.parent.name))
    # As many texts of the start as of each round, so that the comparison is of positions, not of numbers.
    written = [samples_from_arrow(read_table(path)["sample"])[: len(result)] for path in rounds]
    points = [embedder.embed(samples) for samples in written]
    gaps = tuple(float(distances(private, each).min(axis=1).mean()) for each in points)
    drawn = folder / "way.png"
    title = f"{len(texts):,} private texts about four subjects, {result.privacy.headline}"
    _draw(drawn, private, subjects[shown], points, gaps, title)
    pairs = _pairs(texts[shown], written[-1], distances(private, points[-1]))
    return TextDemo(result, len(texts), len(shown), gaps, pairs, drawn)


def _pairs(private: Samples, synthetic: Samples, gaps: Floats) -> tuple[tuple[str, str], ...]:
    """Return the synthetic texts that are nearest to the most private ones, each with the nearest of these."""
    nearest = gaps.argmin(axis=1)
    popular = np.argsort(-np.bincount(nearest, minlength=len(synthetic)), kind="stable")[:_PAIRS]
    return tuple((str(private[gaps[:, index].argmin()]), str(synthetic[index])) for index in popular)


def _draw(
    path: Path, private: Points, subjects: Samples, written: list[Points], gaps: tuple[float, ...], title: str
) -> None:
    """Draw the first and the last texts among the private ones, and the distance between them by round."""
    plane = _plane(private, subjects)
    with figure(path, columns=3, size=(10.5, 3.9)) as (fig, axes):
        for axis, name, points in ((axes[0, 0], "start", written[0]), (axes[0, 1], "end", written[-1])):
            for subject, colour in SUBJECTS.items():
                members = private[subjects == subject] @ plane
                axis.scatter(*members.T, s=7, color=colour, alpha=0.55, linewidth=0, label=f"private: {subject}")
            axis.scatter(*(points @ plane).T, s=34, color=INK, edgecolor="white", linewidth=0.8, label="synthetic")
            axis.set(title=f"{name}: {len(points)} synthetic texts", xticks=[], yticks=[])
        axes[0, 1].set(xlim=axes[0, 0].get_xlim(), ylim=axes[0, 0].get_ylim())
        axes[0, 2].plot(range(len(gaps)), gaps, color=COLOURS["GAPE"], marker="o")
        axes[0, 2].set(xlabel="round", title="mean distance from a private text\nto the nearest synthetic one")
        axes[0, 2].set_xticks(range(len(gaps)))
        axes[0, 2].tick_params(colors=INK)
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SUBJECTS) + 1)
        fig.suptitle(title, fontsize=10.5)


def _plane(points: Points, subjects: Samples) -> Floats:
    """Return the two directions, (d, 2), in which the means of the subjects differ most."""
    means = np.array([points[subjects == subject].mean(axis=0) for subject in SUBJECTS], dtype=np.float64)
    _, _, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    plane: Floats = directions[:2].T
    return plane
