"""For samples that are vectors already."""

from dataclasses import dataclass

import numpy as np

from gape.core.types import Points, Samples


@dataclass(frozen=True)
class IdentityEmbedder:
    """Takes vectors as their own embedding."""

    def embed(self, samples: Samples) -> Points:
        """Return the samples as float32 rows."""
        return np.ascontiguousarray(samples, dtype=np.float32)
