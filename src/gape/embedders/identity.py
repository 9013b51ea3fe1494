"""The embedder for samples that are already vectors."""

from dataclasses import dataclass

import numpy as np

from gape.core.types import Points, Samples


@dataclass(frozen=True)
class IdentityEmbedder:
    """Uses vectors as their own embeddings."""

    def embed(self, samples: Samples) -> Points:
        """Return the samples as float32 rows."""
        return np.ascontiguousarray(samples, dtype=np.float32)
