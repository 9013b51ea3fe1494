"""Distances between the real and the synthetic set as a whole: W1, Sinkhorn divergence, energy and Fréchet distance.

All points of a set have equal weight: 1/n for a real point, 1/m for a synthetic one. The sizes may differ.
"""

import numpy as np
import scipy.linalg

from gape._support.geometry import distances
from gape._support.parallel import one_blas_thread
from gape.core.errors import InputError
from gape.core.types import Costs, Floats, Points
from gape.metrics.arrays import Array, check_pair, dense_distances, on_host, row_blocks, row_distances
from gape.metrics.sinkhorn import Sinkhorn, sinkhorn1
from gape.selection.flow import simplex as flow

__all__ = ["Sinkhorn", "energy", "frechet", "sinkhorn1", "wasserstein1"]

_ROWS = 512  # rows of distances computed at once
_HELD = 2**25  # most costs held in memory, twice (by row and by column): 0.5 GB; more are computed when needed
_WIDE = 8  # from this width on, most of a distance is a term of each end, which can be subtracted


def wasserstein1(real: Array, synthetic: Array) -> float:
    """Return W1 = min_P sum_ij P_ij |x_i - y_j| over P >= 0 with row sums 1/n and column sums 1/m (Kantorovich, 1942).

    Computed by the network simplex of `selection.flow`. The plan is optimal up to 2^-39 of the largest distance, and
    its cost is summed from the exact distances. The computation runs on the CPU, wherever the points are, and its time
    grows a little faster than n m: seconds for thousands of points, minutes for tens of thousands.

    real: (n, d), synthetic: (m, d).
    """
    X, Y = map(on_host, check_pair(real, synthetic))
    n, m = len(X), len(Y)
    # Integer weights, m for a real point and n for a synthetic one. The totals agree, so nothing flows to the root.
    supply, demand = np.full(n, float(m)), np.full(m, float(n))
    if n * m <= _HELD:
        costs = _on_grid(_reduced(distances(X, Y)) if X.shape[1] >= _WIDE else distances(X, Y))
        net = flow.network(costs, supply, demand, np.full(n, costs.max()))
        flow.optimise(net)
    else:
        table = _arc_table(X, Y)
        net = flow.optimise_by(flow.network_of(table, supply, demand, np.full(n, table.largest)), table)
    # Every arc of the plan joins a node and its parent in the tree.
    sent, node, parent = net.flow[:-1], np.arange(n + m), net.parent[:-1]
    used = np.flatnonzero((sent > 0) & (parent < n + m))
    x, y = np.minimum(node, parent)[used], np.maximum(node, parent)[used] - n
    return float(row_distances(X[x], Y[y]) @ sent[used]) / (n * m)


def _reduced(costs: Floats) -> Floats:
    """Subtract, in place, what all plans pay equally: u_x from each row and v_y from each column, leaving costs >= 0.

    Without this, the simplex spends most of its time on finding u and v for sets that are far apart.
    """
    costs -= costs.mean(axis=1, keepdims=True)
    costs -= costs.mean(axis=0)
    costs -= costs.min(axis=1, keepdims=True)
    costs -= costs.min(axis=0)
    return costs


def _on_grid(costs: Floats) -> Floats:
    return flow.on_grid(costs, float(costs.max()))


def _arc_table(X: Points, Y: Points) -> flow.ArcTable:
    """Return costs computed in blocks, minus u and v as in `_reduced`, for sets too large to hold all of them."""
    u, v = np.zeros(len(X)), np.zeros(len(Y))

    def rows(block: slice) -> Floats:
        return distances(X[block], Y) - u[block, None] - v

    blocks = [slice(start, start + _ROWS) for start in range(0, len(X), _ROWS)]
    if X.shape[1] >= _WIDE:
        sums = np.zeros(len(Y))
        for block in blocks:
            costs = rows(block)
            u[block] = costs.mean(axis=1)
            sums += costs.sum(axis=0)
        v += sums / len(X) - u.mean()
        for block in blocks:
            u[block] += rows(block).min(axis=1)
        v += np.min([rows(block).min(axis=0) for block in blocks], axis=0)
    largest = max(float(rows(block).max()) for block in blocks)

    def on_grid(costs: Floats) -> Costs:
        return flow.on_grid(np.maximum(costs, 0.0, out=costs), largest)

    return flow.ArcTable(
        rows=lambda block: on_grid(rows(block)),
        columns=lambda block: on_grid(distances(Y[block], X) - v[block, None] - u),
        largest=float(flow.on_grid(np.array([largest]), largest)[0]),
    )


def energy(real: Array, synthetic: Array) -> float:
    """Return the energy distance 2 E|x - y| - E|x - x'| - E|y - y'| (Szekely and Rizzo, 2013), estimated without bias.

    Means are over different points, x' other than x, so the expected value does not depend on n and m: it is 0 if both
    sets have the same distribution, and positive otherwise. A value may be negative. Of few points in many dimensions,
    those near the middle of the data have a lower W1 than other real records; here such points score worse.

    real: (n, d), synthetic: (m, d), with n and m at least 2.
    """
    X, Y = check_pair(real, synthetic)
    if min(len(X), len(Y)) < 2:
        raise InputError(f"both sets must have at least 2 points, got {len(X)} and {len(Y)}; add points")

    def total(left: Array, right: Array) -> float:
        return sum(float(dense_distances(left[rows], right).sum()) for rows in row_blocks(len(left), len(right)))

    n, m = len(X), len(Y)
    return 2 * total(X, Y) / (n * m) - total(X, X) / (n * (n - 1)) - total(Y, Y) / (m * (m - 1))


def frechet(real: Array, synthetic: Array) -> float:
    """Return the squared W2 of two Gaussians with the means and covariances of the sets (Dowson and Landau, 1982).

        |mu_x - mu_y|^2 + tr(S_x + S_y - 2 (S_x S_y)^(1/2)),   S = sum (x - mu)(x - mu)^T / (n - 1), zero for one point.

    Known as FID if the points are Inception embeddings (Heusel et al., 2017). It only sees two moments, and is biased
    upward for sets that are small compared to the dimension: compare it only between sets of equal size. With
    S = R^T R, the last trace is the sum of the singular values of R_x R_y^T, which stays accurate for singular
    covariances.

    real: (n, d), synthetic: (m, d).
    """
    X, Y = map(on_host, check_pair(real, synthetic))
    with one_blas_thread():  # threads of a factorisation would mostly wait for each other
        (mean_x, R_x), (mean_y, R_y) = _moments(X), _moments(Y)
        shared = np.linalg.svd(R_x @ R_y.T, compute_uv=False).sum()
    return max(0.0, float(np.sum((mean_x - mean_y) ** 2) + np.sum(R_x**2) + np.sum(R_y**2) - 2 * shared))


def _moments(points: Points) -> tuple[Floats, Floats]:
    """Return the mean, and R such that R^T R is the covariance, from blocks of rows."""
    mean: Floats = points.mean(axis=0, dtype=np.float64)
    R = np.zeros((0, points.shape[1]))
    rows = max(_ROWS, 2 * points.shape[1])
    for start in range(0, len(points), rows):
        stacked = np.concatenate([R, points[start : start + rows] - mean])
        R = scipy.linalg.qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0][: points.shape[1]]
    return mean, R / np.sqrt(max(len(points) - 1, 1))
