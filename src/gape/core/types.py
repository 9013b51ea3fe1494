"""Array types, named by role. Shapes: n private records, v candidates, m samples, d dimensions."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Points: TypeAlias = NDArray[np.float32]  # (v, d) or (n, d): embeddings
Samples: TypeAlias = NDArray[Any]  # (m, ...): one sample per entry of the first axis; vectors or texts
Counts: TypeAlias = NDArray[np.int64]  # (v,): exact votes; private, never leave `gape.privacy.release`
NoisyVotes: TypeAlias = NDArray[np.int64]  # (v,): votes after noise; public
Indices: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Costs: TypeAlias = NDArray[np.float32] | NDArray[np.float64]  # distances, at the precision that memory allows


def as_samples(texts: Sequence[str | None]) -> Samples:
    """Return texts as an object array, the form in which a run keeps them."""
    samples = np.empty(len(texts), dtype=object)
    samples[:] = texts
    return samples


def texts_of(samples: Samples) -> list[str]:
    """Return the texts of samples, without any labels."""
    texts: list[str] = (samples["text"] if samples.dtype.names else samples).tolist()
    return texts
