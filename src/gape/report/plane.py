"""Where texts lie: their embeddings, and the plane in which a page can draw them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gape.core.protocols import Embedder
from gape.core.types import Floats, Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.report.words import embedder_called
from gape.runs.embedder import make_embedder
from gape.runs.record import RunRecord
from gape.runs.settings import Settings
from gape.runs.text_folder import TextFolder

_AT_ONCE = 64  # texts embedded between two calls of `progress`
_GRID = 10_000  # coordinates are whole numbers up to this: finer than any screen


@dataclass(frozen=True)
class Plane:
    """A plane in the space of embeddings, with the square that a page draws of it."""

    centre: Floats  # (d,)
    directions: Floats  # (d, 2)
    shown: float  # share of the variance of the points that it shows
    corner: Floats  # (2,): of the square
    side: float
    exact: bool  # the space is a plane itself

    def ticks(self) -> list[list[tuple[int, str]]]:
        """Return whole places along x and along y of the grid, with their coordinates, where these mean something."""
        step = 10.0 ** math.floor(math.log10(self.side / 2))
        step *= 5 if self.side / step > 20 else 2 if self.side / step > 8 else 1
        found = []
        for low in self.corner.tolist():
            places = step * np.arange(math.ceil(low / step), math.floor((low + self.side) / step) + 1)
            found.append([(round((at - low) / self.side * _GRID), f"{at + 0.0:.3g}") for at in places.tolist()])
        return found

    def place(self, points: Points) -> list[list[int]]:
        """Return x and y of points as whole numbers of a grid, y upward, cut off at the edge of the square."""
        flat = ((points - self.centre) @ self.directions - self.corner) / self.side * _GRID
        whole: list[list[int]] = np.clip(np.rint(flat), 0, _GRID).astype(int).T.tolist()
        return whole


def local_embedder(folder: RunRecord) -> tuple[Embedder, str]:
    """Return the embedder for the page, with its name: that of the run where it works on this machine, else MiniLM.

    So a report sends nothing anywhere, and costs nothing, whichever service the run has used; and it loads no model
    that a stranger's folder names.
    """
    if not folder.is_text:
        return IdentityEmbedder(), "the vectors themselves"
    settings = folder.settings or Settings()
    theirs = settings.embedder.startswith("st:") and not TextFolder(folder.path).own
    if settings.embedder.startswith("openai:") or theirs:
        settings = settings.with_values(embedder="minilm")
    return make_embedder(settings), embedder_called(settings.embedder)


def embed(embedder: Embedder, samples: Samples, progress: Callable[[int], None]) -> Points:
    """Embed samples by what they say, without their labels; `progress` is told how many are done, each time."""
    content = samples["text"] if samples.dtype.names else samples
    parts = []
    for begin in range(0, len(content), _AT_ONCE):
        parts.append(embedder.embed(content[begin : begin + _AT_ONCE]))
        progress(len(parts[-1]))
    return np.concatenate(parts)


def fit_plane(points: Points) -> Plane:
    """Fit the two directions in which points, (n, d), spread most; points of a plane or a line keep their own axes."""
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
