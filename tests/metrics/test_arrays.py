"""What the metrics of points take, and that tensors give what arrays give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.metrics import (
    balls,
    classical_recall,
    density,
    energy,
    frechet,
    mean_nearest_distance,
    precision,
    recall,
    sinkhorn1,
    wasserstein1,
)

METRICS: list[Callable[[Any, Any], Any]] = [
    precision,
    recall,
    density,
    classical_recall,
    mean_nearest_distance,
    wasserstein1,
    sinkhorn1,
    energy,
    frechet,
]
NAMES = [getattr(metric, "__name__", "") for metric in METRICS]
RNG = np.random.default_rng(0)
REAL, SYNTHETIC = RNG.standard_normal((60, 5)), RNG.standard_normal((40, 5))
SYNTHETIC[:5] = REAL[:5]


def spoilt(points: Any, value: float) -> Any:
    copy = points.copy()
    copy[3, 2] = value
    return copy


@pytest.mark.parametrize("metric", METRICS, ids=NAMES)
class TestEveryMetricOfPoints:
    @pytest.mark.parametrize(
        ("real", "synthetic", "words"),
        [
            (REAL, SYNTHETIC[:0], "synthetic embeddings must not be empty"),
            (REAL[:0], SYNTHETIC, "real embeddings must not be empty"),
            (REAL, SYNTHETIC[:, :4], "same width, got 5 and 4"),
            (REAL[0], SYNTHETIC, "real embeddings must be 2-D"),
            (spoilt(REAL, np.nan), SYNTHETIC, "real embeddings contain NaN"),
            (REAL, spoilt(SYNTHETIC, np.inf), "synthetic embeddings contain NaN or infinite"),
            (REAL, SYNTHETIC.astype(complex), "synthetic embeddings must be real numbers"),
        ],
    )
    def test_refuses_what_are_no_points(
        self, metric: Callable[..., Any], real: Any, synthetic: Any, words: str
    ) -> None:
        with pytest.raises(InputError, match=words):
            metric(real, synthetic)

    def test_refuses_tensors_that_are_no_points(self, metric: Callable[..., Any]) -> None:
        import torch  # noqa: PLC0415  (heavy)

        good, bad = torch.tensor(REAL), torch.tensor(spoilt(SYNTHETIC, np.nan))
        with pytest.raises(InputError, match="synthetic embeddings must be finite"):
            metric(good, bad)
        with pytest.raises(InputError, match="must be a 2-D tensor"):
            metric(good, bad[:0])
        with pytest.raises(InputError, match="both be numpy arrays or both tensors"):
            metric(good, SYNTHETIC)

    def test_gives_for_tensors_what_it_gives_for_arrays(self, metric: Callable[..., Any]) -> None:
        import torch  # noqa: PLC0415  (heavy)

        by_arrays, by_tensors = metric(REAL, SYNTHETIC), metric(torch.tensor(REAL), torch.tensor(SYNTHETIC))
        assert float(by_tensors) == pytest.approx(float(by_arrays), rel=1e-9)

    def test_does_not_care_for_precision_or_order_in_memory(self, metric: Callable[..., Any]) -> None:
        narrow = metric(REAL.astype(np.float32), SYNTHETIC.astype(np.float32))
        assert metric(np.asfortranarray(REAL), np.asfortranarray(SYNTHETIC)) == narrow


def test_tensors_are_worked_on_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch  # noqa: PLC0415  (heavy)

    real, synthetic = torch.tensor(REAL), torch.tensor(SYNTHETIC)
    whole = balls(real, synthetic, 1, 3), mean_nearest_distance(real, synthetic)
    monkeypatch.setattr("gape.metrics.arrays._BLOCK", 500)
    assert (balls(real, synthetic, 1, 3), mean_nearest_distance(real, synthetic)) == whole


def test_tensors_that_need_gradients_are_read_without() -> None:
    import torch  # noqa: PLC0415  (heavy)

    real = torch.tensor(REAL, requires_grad=True)
    assert recall(real, torch.tensor(SYNTHETIC)) == recall(REAL, SYNTHETIC)
