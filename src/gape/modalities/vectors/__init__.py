"""Vectors, for runs that are set up in Python."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Embedder
from gape.embedders.identity import IdentityEmbedder
from gape.modalities.base import Modality
from gape.modalities.records import Columns, Records

__all__ = ["Vectors"]


class Vectors(Modality):
    """Points that are their own embedding."""

    name = "vectors"
    noun = "point"
    defaults: ClassVar[Mapping[str, Any]] = {"generator": name, "embedder": name}
    compared_by = "their coordinates"

    def read(self, source: object, columns: Columns) -> Records:  # noqa: ARG002  (vectors have none)
        """Read an array of vectors, or a file written by `numpy.save`."""
        try:
            array = np.load(source, allow_pickle=False) if isinstance(source, str | Path) else np.asarray(source)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{source} is not an array of vectors ({type(error).__name__}); write one with numpy.save"
            ) from None
        if not isinstance(array, np.ndarray) or array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
            raise InputError("vectors must be an array of numbers, one row for each record; write it with numpy.save")
        return Records.of_vectors(array, str(source) if isinstance(source, str | Path) else "the array")

    def embedder(self) -> Embedder:
        """Return the identity: vectors are their own embeddings."""
        return IdentityEmbedder()
