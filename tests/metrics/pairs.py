"""Real and synthetic points for the tests of metrics: of every layout, with duplicates, ties and sets of one point."""

import numpy as np
from scipy.spatial.distance import cdist

from gape.core.types import Floats, Points
from strategies import LAYOUTS, random_points

SEEDS = range(60)


def random_pair(seed: int, most: int = 30) -> tuple[Points, Points]:
    """Draw two sets of one space and of one layout; half of the time they have points in common."""
    rng = np.random.default_rng(seed)
    n, m = (int(rng.choice([1, 2, int(rng.integers(3, most))])) for _ in range(2))
    points = random_points(rng, n + m, LAYOUTS[seed % len(LAYOUTS)])
    real, synthetic = points[:n], points[n:].copy()
    if rng.random() < 0.5:
        shared = min(n, m, 3)
        synthetic[:shared] = real[:shared]
    return real, synthetic


def all_distances(left: Points | Floats, right: Points | Floats) -> Floats:
    """Every distance by the definition, in float64."""
    gaps: Floats = cdist(left.astype(np.float64), right.astype(np.float64))
    return gaps
