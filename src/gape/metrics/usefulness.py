"""How useful synthetic data is for training: a model is trained on it and tested on real records.

The tests read real records and are not differentially private. Compare each result with that of the same model trained
on as many real records, or untrained: a test that the untrained model passes says nothing about the data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from gape._support.parallel import one_blas_thread
from gape.core.errors import InputError
from gape.core.types import Floats
from gape.metrics.arrays import Array, check_pair, on_host


@dataclass(frozen=True)
class Classification:
    """The performance on real points of a classifier trained on synthetic ones."""

    accuracy: float  # share of real points labelled correctly
    balanced_accuracy: float  # mean of that share over the real labels, so that rare labels count as much
    auc: float  # mean area under the ROC curve of each label against the others; 0.5 if nothing was learnt
    correct: NDArray[np.bool_]  # (n,), for `bootstrap`


def classify(
    synthetic: Array, synthetic_labels: Sequence[Any], real: Array, real_labels: Sequence[Any], *, penalty: float = 1e-3
) -> Classification:
    """Train multinomial logistic regression on labelled synthetic points, and test it on real ones.

    With x centred at the synthetic mean and divided by its root mean square norm, it minimises

        -(1/m) sum_i log softmax(W x_i + b)_{y_i} + (penalty / 2) |W|^2,

    which is strictly convex in W and has one optimum, found by L-BFGS. A real label that no synthetic point has is
    never predicted, so its records count as wrong.

    synthetic: (m, d), real: (n, d), with one label per point.
    """
    X, Y = map(on_host, check_pair(real, synthetic))
    if len(real_labels) != len(X) or len(synthetic_labels) != len(Y):
        raise InputError(
            f"every point needs one label, got {len(real_labels)} for {len(X)} real and {len(synthetic_labels)} for "
            f"{len(Y)} synthetic points; list the labels in the order of the points"
        )
    if not 0 < penalty < math.inf:
        raise InputError(f"penalty must be positive and finite, got {penalty}; use the default of 1e-3")
    centre: Floats = Y.mean(axis=0, dtype=np.float64)
    size = math.sqrt(float(np.mean(np.sum((Y - centre) ** 2, axis=1)))) or 1.0
    classes: dict[Any, int] = {}
    targets = np.array([classes.setdefault(label, len(classes)) for label in synthetic_labels])
    with one_blas_thread():  # the products are too small for several threads
        W, b = _logistic_regression((Y - centre) / size, targets, len(classes), penalty)
        logits = (X - centre) / size @ W + b
    correct = logits.argmax(axis=1) == np.array([classes.get(label, -1) for label in real_labels])
    shares = [correct[[other == label for other in real_labels]].mean() for label in dict.fromkeys(real_labels)]
    auc = _mean_auc(logits, classes, real_labels)
    return Classification(float(correct.mean()), float(np.mean(shares)), auc, correct)


def _mean_auc(logits: Floats, classes: dict[Any, int], labels: Sequence[Any]) -> float:
    """Return the mean over labels of the chance that a record with it scores above one without it; ties count half."""
    areas = []
    for label in dict.fromkeys(labels):
        has = np.array([other == label for other in labels])
        if has.all():
            continue
        if label not in classes or len(classes) == 1:
            areas.append(0.5)
            continue
        own = logits[:, classes[label]]
        others = np.delete(logits, classes[label], axis=1)
        scores = own - logsumexp(others, axis=1)
        inside, outside = scores[has], np.sort(scores[~has])
        below, up_to = (np.searchsorted(outside, inside, side).sum() for side in ("left", "right"))
        areas.append((below + up_to) / (2 * len(inside) * len(outside)))
    return float(np.mean(areas)) if areas else 0.5


def _logistic_regression(X: Floats, targets: NDArray[Any], classes: int, penalty: float) -> tuple[Floats, Floats]:
    """Return the weights (d, classes) and the biases (classes,)."""
    m, d = X.shape
    rows = np.arange(m)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        W, b = parameters[classes:].reshape(d, classes), parameters[:classes]
        logits = X @ W + b
        logs = logits - logsumexp(logits, axis=1, keepdims=True)
        value = -logs[rows, targets].mean() + penalty / 2 * np.sum(W * W)
        gradient = np.exp(logs)
        gradient[rows, targets] -= 1
        gradient /= m
        return float(value), np.concatenate([gradient.sum(axis=0), (X.T @ gradient + penalty * W).ravel()])

    # Stop by the gradient only: in float64 the loss stops changing well before the weights do.
    limits = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-7, "ftol": 0.0}
    best = minimize(loss, np.zeros(classes * (d + 1)), jac=True, method="L-BFGS-B", options=limits).x
    return best[classes:].reshape(d, classes), best[:classes]
