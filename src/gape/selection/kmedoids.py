"""K-medoids selection: the simplified GAPE of the paper's 2-D experiment."""

from dataclasses import dataclass

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Selection
from gape.core.types import Floats, Indices, NoisyVotes, Points

_MOST_ITERATIONS = 300


@dataclass(frozen=True)
class KMedoidsResult(Selection):
    """The medoids with the weighted k-median cost they reached."""

    cost: float  # sum over candidates of max(votes, 0) times the distance to the nearest medoid
    iterations: int


def k_medoids(points: Points, votes: NoisyVotes | Floats, size: int) -> KMedoidsResult:
    """Minimise sum_x max(w_x, 0) rho(x, S) over |S| = size by alternation (Maranzana 1963; Park & Jun 2009).

    Alternately assigns each point to its nearest medoid and replaces each medoid by the best point of its cluster,
    until nothing changes. It starts from the greedy choice of Kaufman & Rousseeuw (1990). From the most central
    points, Park & Jun's own start, it cannot reach a small cluster. Candidates without positive votes carry no
    weight but may serve as medoids of last resort.
    """
    if len(points) != len(votes):
        raise InputError(
            f"k-medoids needs one vote count per point, got {len(votes)} for {len(points)} points; give as many of both"
        )
    if not 1 <= size <= len(votes):
        raise InputError(
            f"k-medoids can select between 1 and {len(votes)} of {len(votes)} candidates, got size {size}; "
            "ask for fewer samples or make more candidates"
        )
    weights = np.maximum(np.asarray(votes, dtype=np.float64), 0.0)
    rho = distances(points, points)
    medoids = _greedy_start(rho, weights, size)
    iterations = 0
    while iterations < _MOST_ITERATIONS:
        iterations += 1
        cluster = np.argmin(rho[:, medoids], axis=1)
        cluster[medoids] = np.arange(size)  # among coinciding medoids each keeps its own cluster
        updated = medoids.copy()
        for position in range(size):
            members = np.flatnonzero((cluster == position) & (weights > 0))
            if len(members):
                within = weights[members] @ rho[np.ix_(members, members)]
                updated[position] = members[np.argmin(within)]
        if np.array_equal(updated, medoids):
            break
        medoids = updated
    cost = float(weights @ rho[:, medoids].min(axis=1))
    return KMedoidsResult(medoids.astype(np.int64), cost, iterations)


def _greedy_start(rho: Floats, weights: Floats, size: int) -> Indices:
    """Add the point that lowers the cost most, `size` times. Points with weight come first, ties go to the lowest."""
    nearest = np.full(len(rho), rho.max() + 1.0)
    taken = np.zeros(len(rho), dtype=np.bool_)
    chosen: list[int] = []
    for _ in range(size):
        cost = weights @ np.minimum(rho, nearest[:, None])
        chosen.append(int(np.lexsort((cost, weights <= 0, taken))[0]))
        taken[chosen[-1]] = True
        nearest = np.minimum(nearest, rho[:, chosen[-1]])
    return np.array(chosen)


@dataclass(frozen=True)
class KMedoids:
    """The simplified GAPE selector: k-medoids on the positive noisy votes."""

    def __call__(
        self,
        votes: NoisyVotes,
        points: Points,
        size: int,
        rng: np.random.Generator,  # noqa: ARG002  (the start is deterministic)
    ) -> KMedoidsResult:
        """Select by clustering."""
        return k_medoids(points, votes, size)
