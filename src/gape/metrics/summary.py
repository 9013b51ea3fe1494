"""All metrics of points in one call, as the command line prints them."""

import numpy as np

from gape.core.errors import InputError
from gape.metrics.arrays import Array, check_pair
from gape.metrics.balls import balls
from gape.metrics.nearest import nearest_distances
from gape.metrics.transport import frechet, sinkhorn1, wasserstein1


def evaluate_points(
    real: Array,
    synthetic: Array,
    *,
    k: int = 3,
    coverage_k: int = 5,
    blur: float = 0.05,
    transport_points: int = 2000,
    rng: np.random.Generator | None = None,
) -> dict[str, float]:
    """Score synthetic points against real ones by every metric of points. The result is not differentially private.

    `precision` and `recall` (the paper's) are those of `k`, `density` and `coverage` those of `coverage_k`.
    `wasserstein1` and `sinkhorn1`, of the stated blur, are quadratic or worse, and are computed on at most
    `transport_points` points of each set, drawn by `rng`, by default of seed 0 so that two calls agree;
    `transport_real` and `transport_synthetic` say how many those were. W1 between samples overstates that between the
    sets: compare only equal numbers.

    real: (n, d), synthetic: (m, d).
    """
    if transport_points < 1:
        raise InputError(f"transport_points must be at least 1, got {transport_points}; use the default of 2000")
    X, Y = check_pair(real, synthetic)
    rng = np.random.default_rng(0) if rng is None else rng
    near, wide = balls(X, Y, k, coverage_k)
    gaps = nearest_distances(X, Y)
    few_X, few_Y = _some(X, transport_points, rng), _some(Y, transport_points, rng)
    divergence = sinkhorn1(few_X, few_Y, blur)
    return {
        "precision": near.precision,
        "recall": near.recall,
        "k": k,
        "density": wide.density,
        "coverage": wide.recall,
        "coverage_k": coverage_k,
        "mean_nearest_distance": float(gaps.mean()),
        "coverage_error": float(gaps.max()),
        "wasserstein1": wasserstein1(few_X, few_Y),
        "sinkhorn1": divergence.value,
        "sinkhorn_blur": divergence.blur,
        "sinkhorn_converged": float(divergence.converged),
        "transport_real": len(few_X),
        "transport_synthetic": len(few_Y),
        "frechet": frechet(X, Y),
    }


def _some(points: Array, most: int, rng: np.random.Generator) -> Array:
    """Return at most so many points, drawn without replacement."""
    return points if len(points) <= most else points[rng.permutation(len(points))[:most]]
