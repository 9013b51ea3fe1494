"""What an internal report shows of private data: where it lies, and how well the samples stand for it.

Nothing here is differentially private, and nothing here is paid for. No other module of the report reads private data,
and a report for release is made without this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gape._support.values import brief
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder
from gape.core.types import Points, Samples
from gape.embedders.privacy import require_private_embedding
from gape.modalities import Schema, load_rows, load_texts
from gape.report.plane import embed
from gape.runs.record import RunRecord
from gape.runs.text_folder import TextFolder

_MOST = 1000  # private points that are embedded, drawn and measured by


@dataclass(frozen=True)
class Scores:
    """How well the samples of one round stand for the private points."""

    recall: float
    precision: float
    distance: float  # from a private point to the nearest sample, on average
    wasserstein: float


@dataclass(frozen=True)
class PrivateView:
    """Private points, some of them drawn at random. Their texts are not kept."""

    points: Points  # (k, d)
    records: int

    def scores(self, samples: Sequence[Points]) -> list[Scores]:
        """Score the samples of every round, (m, d) each."""
        from gape.evaluation.metrics import mean_nearest_distance, precision, recall, wasserstein1  # noqa: PLC0415

        real = self.points
        return [
            Scores(
                float(recall(real, each)),
                float(precision(real, each)),
                float(mean_nearest_distance(real, each)),
                float(wasserstein1(real, each)),
            )
            for each in samples
        ]


def look(
    folder: RunRecord, embedder: Embedder, file: str | Path | None, column: str | None, progress: Callable[[int], None]
) -> PrivateView:
    """Read private data, embed some of it in memory, and forget what it says."""
    samples = _read(folder, file, column)
    require_private_embedding(embedder)
    rng = np.random.default_rng([folder.plan.seed, *b"private"])
    some = np.sort(rng.permutation(len(samples))[:_MOST])
    return PrivateView(embed(embedder, samples[some], progress), len(samples))


def _data_of(folder: RunRecord) -> str:
    """Where the private data of a run lies, if this user has said so and not a stranger."""
    on_disk = TextFolder(folder.path)
    if not on_disk.own:
        raise PrivacyError(
            f"{folder.path} was not written by you on this machine, so its data {brief(on_disk.settings().data)} is "
            "not read; give the private data as --private FILE"
        )
    return on_disk.settings().data


def _read(folder: RunRecord, file: str | Path | None, column: str | None) -> Samples:
    settings = folder.settings
    if file is None and settings is not None and settings.data:
        file = _data_of(folder)
    if file is None:
        raise InputError("an internal report needs the private data, which this run does not name; give --private FILE")
    if settings is not None and settings.schema is not None:
        return load_rows(file, Schema.read(settings.schema)).texts
    if folder.is_text:
        return load_texts(file, column or (settings.text if settings is not None else None)).texts
    width = folder.start.shape[1]
    try:
        points = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is no array of vectors ({type(error).__name__}); write one by numpy.save") from None
    if not isinstance(points, np.ndarray) or points.ndim != 2 or points.shape[1] != width or not len(points):
        raise InputError(f"{file} must hold rows of {width} numbers, as the samples have; write it by numpy.save")
    return points.astype(np.float32)
