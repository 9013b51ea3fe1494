"""Discrete Gaussian noise: integer votes in, integer votes out, so that floating point cannot leak anything."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Counts, NoisyVotes


class Noise(Protocol):
    """The source of the noise of a release."""

    @property
    def secure(self) -> bool:
        """Whether nobody can predict or repeat the noise. Otherwise the run is not private."""
        ...

    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:
        """Return the counts with independent N_Z(0, sigma^2) added to each; sigma is positive."""
        ...


@dataclass(frozen=True)
class SecureNoise:
    """OpenDP's exact sampler (Canonne, Kamath & Steinke 2020) on the operating system's randomness."""

    @property
    def secure(self) -> bool:
        """Always True."""
        return True

    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:  # noqa: ARG002  (fresh every time)
        """Return the counts with independent discrete Gaussian noise."""
        return np.array(_mechanism(sigma)(counts.tolist()), dtype=np.int64)


@dataclass(frozen=True)
class SeededNoise:
    """Repeatable noise for tests and comparisons. A run made with it is marked as not private."""

    seed: int

    @property
    def secure(self) -> bool:
        """Always False: anyone who knows the seed can subtract the noise."""
        return False

    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:
        """Return the counts with discrete Gaussian noise that depends only on the seed and the round."""
        reach = int(np.ceil(12 * sigma)) + 1
        if reach > 10_000_000:
            raise InputError(f"seeded noise needs sigma below 800,000, got {sigma:g}; use SecureNoise")
        support = np.arange(-reach, reach + 1)
        law = np.exp(-(support**2) / (2 * sigma * sigma))
        rng = np.random.default_rng([self.seed, turn] if turn > 0 else [self.seed, -turn, *b"survey"])
        drawn = np.searchsorted(np.cumsum(law) / law.sum(), rng.random(len(counts)))
        return counts + support[np.minimum(drawn, 2 * reach)]


@lru_cache(maxsize=8)
def _mechanism(sigma: float) -> Any:  # OpenDP ships no annotations
    # They load a shared library, which a plain import should not. The prelude would also load scikit-learn and pandas.
    from opendp.domains import atom_domain, vector_domain  # noqa: PLC0415
    from opendp.measurements import make_gaussian  # noqa: PLC0415
    from opendp.metrics import l2_distance  # noqa: PLC0415
    from opendp.mod import enable_features  # noqa: PLC0415

    enable_features("contrib")  # where OpenDP keeps vector-valued Gaussian measurements
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="i64"), scale=sigma)
