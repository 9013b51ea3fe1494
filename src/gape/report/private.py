"""What an internal report shows of the private data: where it lies, and how well the samples represent it.

NOT differentially private: no noise is added, and no ledger is charged. No other module of the report reads private
data, and a report for release does not import this one.
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
from gape.modalities import Columns, contents_of
from gape.report.plane import embed_samples
from gape.runs.folder.record import RunRecord

_MOST = 1000  # private points that are embedded, drawn and scored against
_NEIGHBOURS = 3  # recall and precision: the ball of a point reaches to this nearest other point


@dataclass(frozen=True)
class PrivateScores:
    """How well the samples of one round represent the private points."""

    recall: float
    precision: float
    distance: float  # mean distance from a private point to its nearest sample
    wasserstein: float


@dataclass(frozen=True)
class PrivateView:
    """A random sample of the private points. Their texts are not kept."""

    points: Points  # (k, d)
    records: int

    def scores(self, samples: Sequence[Points]) -> list[PrivateScores]:
        """Score the samples of every round, an array (m, d) per round."""
        from gape.metrics import balls, mean_nearest_distance, wasserstein1  # noqa: PLC0415

        scores = []
        for points in samples:
            (inside,) = balls(self.points, points, _NEIGHBOURS)
            distance, wasserstein = mean_nearest_distance(self.points, points), wasserstein1(self.points, points)
            scores.append(PrivateScores(inside.recall, inside.precision, distance, wasserstein))
        return scores


def read_private(
    record: RunRecord, embedder: Embedder, file: str | Path | None, column: str | None, progress: Callable[[int], None]
) -> PrivateView:
    """Read the private data and embed some of it in memory; its content is not kept."""
    samples = _read_content(record, file, column)
    require_private_embedding(embedder)
    rng = np.random.default_rng([record.plan.seed, *b"private"])
    sampled = np.sort(rng.permutation(len(samples))[:_MOST])
    return PrivateView(embed_samples(embedder, samples[sampled], progress), len(samples))


def _data_of(record: RunRecord) -> str:
    """Return the path of the private data of a run, unless the folder was written by someone else."""
    data = "" if record.settings is None else record.settings.data
    if not record.own:
        raise PrivacyError(
            f"{record.path} was not written by you on this machine, so its data {brief(data)} is not read; give the "
            "private data as --private FILE"
        )
    return data


def _read_content(record: RunRecord, file: str | Path | None, column: str | None) -> Samples:
    settings = record.settings
    if file is None and settings is not None and settings.data:
        file = _data_of(record)
    if file is None:
        raise InputError("an internal report needs the private data, which this run does not name; add --private FILE")
    content = record.modality.read(file, Columns(column or (settings.text if settings is not None else None))).content
    shape = contents_of(record.start).shape[1:]
    if content.shape[1:] != shape:
        raise InputError(f"{file} must contain rows of {shape[-1]} numbers, like the samples")
    return content
