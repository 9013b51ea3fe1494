"""Embeddings of the samples, and the plane in which the map draws them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gape.core.protocols import Embedder
from gape.core.types import Floats, Points, Samples
from gape.modalities import contents_of
from gape.report.words import embedder_name
from gape.runs.embedder import make_embedder
from gape.runs.folder.record import RunRecord

_BATCH = 64  # texts embedded between two calls of `progress`
_GRID = 10_000  # map coordinates are whole numbers from 0 to this


@dataclass(frozen=True)
class Plane:
    """A plane in the embedding space, and the square of it that the map shows."""

    centre: Floats  # (d,)
    directions: Floats  # (d, 2)
    shown: float  # share of the variance of the points
    corner: Floats  # (2,): lower left corner of the square
    side: float
    exact: bool  # the space is two-dimensional

    def ticks(self) -> list[list[tuple[int, str]]]:
        """Return the ticks of the x axis and of the y axis: position on the grid, and coordinate as text."""
        step = 10.0 ** math.floor(math.log10(self.side / 2))
        step *= 5 if self.side / step > 20 else 2 if self.side / step > 8 else 1
        axes = []
        for low in self.corner.tolist():
            values = step * np.arange(math.ceil(low / step), math.floor((low + self.side) / step) + 1)
            axes.append([(round((x - low) / self.side * _GRID), f"{x + 0.0:.3g}") for x in values.tolist()])
        return axes

    def to_grid(self, points: Points) -> list[list[int]]:
        """Return the x and the y of points on the grid, y upward, clipped to the square."""
        flat = ((points - self.centre) @ self.directions - self.corner) / self.side * _GRID
        whole: list[list[int]] = np.clip(np.rint(flat), 0, _GRID).astype(int).T.tolist()
        return whole


def local_embedder(record: RunRecord) -> tuple[Embedder, str]:
    """Return the embedder of the report and its name: that of the run if it works on this machine, else MiniLM.

    A report never calls a service, whichever one the run used, and never loads a model named by a folder that someone
    else wrote.
    """
    settings = record.settings
    if settings is None:
        return record.modality.public_embedder(), record.modality.compared_by or embedder_name("minilm")
    named, kind = ":" in settings.embedder, settings.kind
    if settings.embedder.startswith("openai:") or (named and not record.own):
        if "minilm" not in kind.comparers():
            return record.modality.public_embedder(), record.modality.compared_by
        settings = settings.with_values(embedder="minilm")
    own = settings.embedder in {kind.name, kind.defaults.get("embedder")} and kind.owns(settings.embedder)
    return make_embedder(settings), record.modality.compared_by if own else embedder_name(settings.embedder)


def embed_samples(embedder: Embedder, samples: Samples, progress: Callable[[int], None]) -> Points:
    """Embed samples without their labels; `progress` receives the number embedded since its last call."""
    content = contents_of(samples)
    parts = []
    for begin in range(0, len(content), _BATCH):
        parts.append(embedder.embed(content[begin : begin + _BATCH]))
        progress(len(parts[-1]))
    return np.concatenate(parts)


def fit_plane(points: Points) -> Plane:
    """Fit the plane of the first two principal components of points, (n, d); for d <= 2, keep their own axes."""
    x = points.astype(np.float64)
    if x.shape[1] <= 2:
        centre, directions, shown = np.zeros(x.shape[1]), np.eye(x.shape[1], 2), 1.0
    else:
        centre = x.mean(axis=0)
        _, values, rows = np.linalg.svd(x - centre, full_matrices=False)
        directions = np.zeros((x.shape[1], 2))
        directions[:, : min(2, len(rows))] = rows[:2].T
        shown = float((values[:2] ** 2).sum() / max((values**2).sum(), 1e-300))
    flat = (x - centre) @ directions
    low, high = flat.min(axis=0), flat.max(axis=0)
    side = float(max((high - low).max(), 1e-9)) * 1.12
    return Plane(centre, directions, shown, (low + high - side) / 2, side, exact=x.shape[1] == 2)
