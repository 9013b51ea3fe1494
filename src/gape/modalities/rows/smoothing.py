"""Shares of the cells of a number, when neighbouring cells hold about as much as each other.

Noisy counts y with precision P are replaced by exp(theta) at the least

    (y - exp theta)' P (y - exp theta) + strength |D theta|^2,

where D theta are the second differences of the logarithm of the density. With the logarithm, no count is negative, and
a peak stays sharp beside an empty tail. The strength is that of the largest marginal likelihood, by Laplace's
approximation, so it follows from the noise: without noise the counts stay as they are, and so do values that many
records share. All of this is post-processing of noisy counts.
"""

import numpy as np

from gape.core.types import Floats

FEWEST = 5  # cells in order that can be smoothed
_STRENGTHS = np.logspace(4, -3, 15)  # from the smoothest on, each beginning at the result of the one before
_STEPS, _LARGEST_STEP = 30, 3.0  # of Newton's method, and its largest change of a logarithm
_ENOUGH = 1e-3  # change of the objective at which it ends
_LEAST = -12.0  # logarithm of a count
_ANCHOR = 1e-4  # holds the logarithm of a count that neither counts nor neighbours determine


def smoothed_counts(noisy: Floats, precision: Floats, widths: Floats, start: Floats) -> Floats:
    """Return counts above 0, (cells,), given noisy ones with their precision, (cells, cells).

    `widths`, (ordered,), are those of the cells that lie in order, which come first; a width of 0 marks a cell of a
    single value, whose count is not compared with its neighbours. `start` are counts near the noisy ones.
    """
    compared = np.flatnonzero(widths > 0)
    rough = np.zeros((len(compared) - 2, len(noisy)))
    rough[:, compared] = np.diff(np.eye(len(compared)), n=2, axis=0)
    usual = np.zeros(len(noisy))
    usual[compared] = np.log(widths[compared])
    problem = _Problem(noisy, precision, rough, rough @ usual, np.log(np.maximum(start, 1.0)))
    theta, best, least = problem.anchor, start, np.inf
    for strength in _STRENGTHS:
        theta = problem.solve(theta, strength)
        misfit = problem.objective(theta, strength) + problem.log_determinant(theta, strength)
        misfit -= len(rough) * np.log(strength)
        if misfit < least:
            best, least = np.exp(theta), misfit
    return best


class _Problem:
    """The objective for a strength of smoothing, and its minimum by the method of Gauss and Newton."""

    def __init__(self, noisy: Floats, precision: Floats, rough: Floats, usual: Floats, anchor: Floats) -> None:
        self._noisy, self._precision, self._rough, self._usual = noisy, precision, rough, usual
        self._penalty = rough.T @ rough
        self.anchor = anchor

    def objective(self, theta: Floats, strength: float) -> float:
        away, bends = np.exp(theta) - self._noisy, self._rough @ theta - self._usual
        held = theta - self.anchor
        return float(away @ self._precision @ away + strength * (bends @ bends) + _ANCHOR * (held @ held))

    def solve(self, theta: Floats, strength: float) -> Floats:
        """Return the minimum, from `theta` on. A step that does not lower the objective is halved."""
        current = self.objective(theta, strength)
        for _ in range(_STEPS):
            counts = np.exp(theta)
            slope = counts * (self._precision @ (counts - self._noisy)) + _ANCHOR * (theta - self.anchor)
            slope += strength * (self._rough.T @ (self._rough @ theta - self._usual))
            step = np.clip(np.linalg.solve(self._curvature(theta, strength), slope), -_LARGEST_STEP, _LARGEST_STEP)
            for halving in range(10):
                nearer = np.maximum(theta - step / 2**halving, _LEAST)
                later = self.objective(nearer, strength)
                if later <= current:
                    break
            else:
                break
            theta, gain, current = nearer, current - later, later
            if gain < _ENOUGH:
                break
        return theta

    def log_determinant(self, theta: Floats, strength: float) -> float:
        return float(np.linalg.slogdet(self._curvature(theta, strength))[1])

    def _curvature(self, theta: Floats, strength: float) -> Floats:
        counts = np.exp(theta)
        return counts[:, None] * self._precision * counts + strength * self._penalty + _ANCHOR * np.eye(len(theta))
