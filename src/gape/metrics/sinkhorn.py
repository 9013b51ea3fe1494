"""The debiased Sinkhorn divergence with Euclidean cost, a blurred W1, computed in the log domain.

With eps = blur, a and b uniform, and KL the relative entropy,

    OT(a, b) = min_P sum_ij P_ij |x_i - y_j| + eps KL(P | a b^T),   P >= 0 with row sums a and column sums b,
    S(a, b)  = OT(a, b) - OT(a, a)/2 - OT(b, b)/2 >= 0, and zero only if the two sets are equal,

which geomloss calls SamplesLoss("sinkhorn", p=1, blur=blur) (Cuturi, 2013; Feydy et al., 2019), run here until it
converges. The dual potentials satisfy f = T(g), g = T(f) with

    T(g)_i = -eps log (1/m) sum_j exp((g_j - |x_i - y_j|) / eps).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from gape._support.parallel import cores, one_blas_thread
from gape.core.errors import InputError
from gape.core.types import Floats
from gape.metrics.arrays import Array, check_pair, dense_distances, is_tensor, like, log_sum_exp, row_blocks, stacked

_BLOCK = 2**20  # distances per block, which one core works on
_HELD = 2**25  # most distances held in memory, 256 MB; more are computed in every iteration
_PATIENCE = 20  # steps after which the rate of convergence is visible
_LEAST_GAP = 1e-4  # least difference between 1 and the estimated rate of plain steps; limits steps to 1.98


@dataclass(frozen=True)
class Sinkhorn:
    """A Sinkhorn divergence, which is only meaningful together with its blur."""

    value: float
    blur: float
    iterations: int  # of the slowest of the three problems, at the final blur
    converged: bool  # whether all marginals are met within the tolerance, in mean relative error

    def __float__(self) -> float:
        """Return the value of the divergence."""
        return self.value


def sinkhorn1(
    real: Array, synthetic: Array, blur: float = 0.05, *, tolerance: float = 1e-5, iterations: int = 2000
) -> Sinkhorn:
    """Return the debiased Sinkhorn divergence of the two sets; the module docstring has the definition.

    `blur` is in units of distance: the divergence tends to W1 as it goes to zero, and to half the energy distance as it
    grows. Iterations stop when the marginals are met within `tolerance`, or after `iterations` steps with `converged`
    false. An error e of the marginals changes the value by at most about e times the diameter, and usually far less.

    real: (n, d), synthetic: (m, d). Memory is bounded; each iteration takes the time of n^2 + m^2 + n m distances.
    """
    if not 0 < blur < np.inf:
        raise InputError(f"blur must be positive and finite, got {blur}; use wasserstein1 for no blur")
    if not tolerance > 0 or iterations < 1:
        raise InputError(
            f"tolerance must be positive and iterations at least 1, got {tolerance} and {iterations}; use the defaults"
        )
    X, Y = check_pair(real, synthetic)
    limits = blur, tolerance, iterations
    between, real_within, synthetic_within = (
        _cross_transport(X, Y, *limits),
        _self_transport(X, *limits),
        _self_transport(Y, *limits),
    )
    return Sinkhorn(
        value=max(0.0, between.value - real_within.value / 2 - synthetic_within.value / 2),
        blur=blur,
        iterations=max(part.iterations for part in (between, real_within, synthetic_within)),
        converged=between.converged and real_within.converged and synthetic_within.converged,
    )


def _cross_transport(X: Array, Y: Array, blur: float, tolerance: float, iterations: int) -> Sinkhorn:
    """Compute OT(a, b) by alternating updates of the potentials, over-relaxed once the rate of convergence is known.

    Plain steps shrink the error by a factor r each. Steps w = 2 / (1 + sqrt(1 - r)) times as long shrink it by w - 1,
    as in Young (1954) for linear systems and Thibault et al. (2021) for Sinkhorn.
    """
    forth = _Costs(X, Y)
    back = forth.transposed()
    f, g = np.zeros(len(X)), np.zeros(len(Y))
    for eps in _decreasing_blurs(forth.bound(), blur):
        f = forth.softmin(g, eps)
        g = back.softmin(f, eps)
    step, column_error, errors = 1.0, 0.0, []
    for _ in range(iterations):
        better = forth.softmin(g, blur)
        errors.append(max(column_error, _error(f, better, blur)))
        if errors[-1] <= tolerance:
            break
        if len(errors) % _PATIENCE == 0:
            step = _better_step(step, errors[-1] / errors[-2]) if errors[-1] < errors[0] else 1.0
        f += step * (better - f)
        better = back.softmin(f, blur)
        column_error = _error(g, better, blur) if step > 1 else 0.0
        g += step * (better - g)
    return Sinkhorn(float(f.mean() + back.softmin(f, blur).mean()), blur, len(errors), errors[-1] <= tolerance)


def _better_step(step: float, shrinkage: float) -> float:
    """Return the best step length, given how much steps of the current length shrink the error.

    A length w below the best one shrinks it by s > w - 1 with (s + w - 1)^2 = s w^2 r (Young, 1954), which yields r.
    """
    if not step - 1 < shrinkage < 1:
        return step
    r = min((shrinkage + step - 1) ** 2 / (shrinkage * step**2), 1 - _LEAST_GAP)
    return float(2 / (1 + np.sqrt(1 - r)))


def _error(potential: Floats, better: Floats, blur: float) -> float:
    """Return the mean relative error of the marginals of the plan."""
    return float(np.mean(np.abs(_excess(potential, better, blur))))


def _excess(potential: Floats, better: Floats, blur: float) -> Floats:
    """Return by how much the marginals of the plan exceed the weights, relative to the weights."""
    with np.errstate(over="ignore"):
        return np.expm1((potential - better) / blur)


def _self_transport(X: Array, blur: float, tolerance: float, iterations: int) -> Sinkhorn:
    """Compute OT(a, a), which has a single potential f = T(f), by averaged steps."""
    costs = _Costs(X, X)
    f = np.zeros(len(X))
    for eps in _decreasing_blurs(costs.bound(), blur):
        f = (f + costs.softmin(f, eps)) / 2
    turn = 0
    while True:
        turn += 1
        better = costs.softmin(f, blur)
        error = _error(f, better, blur)
        if error <= tolerance or turn == iterations:
            break
        f = (f + better) / 2
    # The dual objective. Its last term is zero if the marginals are met, and its error is of second order in theirs.
    return Sinkhorn(float(2 * f.mean() - blur * _excess(f, better, blur).mean()), blur, turn, error <= tolerance)


def _decreasing_blurs(largest: float, blur: float) -> Floats:
    """Return decreasing values of epsilon from the largest distance down to the blur, each half the previous one."""
    halvings = np.arange(max(0, int(np.ceil(np.log2(max(largest, blur) / blur)))), -1, -1.0)
    scales: Floats = blur * 2.0**halvings
    return scales


class _Costs:
    """Distances of the points X to the points Y in blocks of rows: held in memory if few, otherwise recomputed."""

    def __init__(self, X: Array, Y: Array, held: Array | None = None) -> None:
        self._X, self._Y, self._held = X, Y, held
        if held is None and len(X) * len(Y) <= _HELD:
            self._held = stacked([dense_distances(X[rows], Y) for rows in self._blocks()])

    def _blocks(self) -> list[slice]:
        return row_blocks(len(self._X), len(self._Y), _BLOCK)

    def transposed(self) -> _Costs:
        """Return the distances of Y to X."""
        return _Costs(self._Y, self._X, None if self._held is None else self._held.T)

    def bound(self) -> float:
        """Return an upper bound on all distances, by the triangle inequality through the first point of X."""
        return sum(float(dense_distances(self._X[:1], points).max()) for points in (self._X, self._Y))

    def softmin(self, potential: Floats, eps: float) -> Floats:
        """Return T(potential), (n,), computed on all cores or on the device."""
        result = np.empty(len(self._X))
        on_device = like(potential, self._X)

        def work(rows: slice) -> None:
            costs = dense_distances(self._X[rows], self._Y) if self._held is None else self._held[rows]
            result[rows] = -eps * (log_sum_exp((on_device - costs) / eps) - np.log(len(potential)))

        blocks = self._blocks()
        if is_tensor(self._X) or len(blocks) == 1:
            for rows in blocks:
                work(rows)
        else:
            with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
                list(pool.map(work, blocks))
        return result
