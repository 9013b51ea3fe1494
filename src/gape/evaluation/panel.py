"""The synthetic samples that are nearest to a private record, beside that record: PRIVATE, for the owner's eyes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gape._support.files import require_writable_file, write_atomically
from gape._support.geometry import distances
from gape.core.errors import InputError, PrivacyError
from gape.core.types import Points, Samples
from gape.modalities import Modality
from gape.runs.folder.layout import Layout

_SHOWN = 20  # pairs
_BLOCK = 2**22  # distances held at once, in float64


def refuse_nearest(path: str | Path, kind: Modality) -> None:
    """Refuse a file for the picture that exists or lies in a run folder, and samples that are not pictures."""
    path = Path(path)
    if kind.pictures(np.empty(0, dtype=object)) is None:
        raise InputError(f"{kind.nouns} are not pictures, so their nearest records cannot be drawn; leave nearest out")
    if any(Layout(parent).is_run for parent in path.resolve().parents):
        raise PrivacyError(
            f"{path} is in the folder of a run, and the picture shows private {kind.nouns}; name another"
        )
    if path.exists():
        raise InputError(f"{path} exists and nothing is overwritten; remove it or name another file")
    require_writable_file(path)


def show_nearest(
    path: str | Path, kind: Modality, private: tuple[Samples, Points], synthetic: tuple[Samples, Points]
) -> None:
    """Write a picture of pairs, the nearest first: samples above, their nearest records below.

    A copied record would be in the first pair. The picture shows private records, so only its owner can read the file.
    """
    rows = max(1, _BLOCK // len(private[1]))
    gaps, nearest = np.empty(len(synthetic[1])), np.empty(len(synthetic[1]), dtype=np.int64)
    for start in range(0, len(gaps), rows):
        away = distances(synthetic[1][start : start + rows], private[1])
        nearest[start : start + rows] = away.argmin(axis=1)
        gaps[start : start + rows] = away.min(axis=1)
    closest = np.argsort(gaps, kind="stable")[:_SHOWN]
    sheet = kind.sheet([synthetic[0][closest], private[0][nearest[closest]]])
    if sheet is not None:
        write_atomically(Path(path), sheet, mode=0o600)
