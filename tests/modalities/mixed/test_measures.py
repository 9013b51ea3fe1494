"""What texts tell about the choices beside them."""

import json
from typing import Any

import numpy as np
import pytest

from gape.core.types import Points, Samples, as_samples
from gape.metrics.measure import Measure, Scoring
from gape.modalities.mixed import Mixed
from gape.modalities.mixed.columns import Prose
from gape.modalities.mixed.embedder import MixedEmbedder
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.rows.columns import Choices, Numbers
from gape.modalities.rows.schema import Schema

SCHEMA = MixedSchema(
    ("stars", "price", "review"),
    Schema({"stars": Choices((1, 2, 3)), "price": Numbers(0, 9)}),
    {"review": Prose("reviews")},
)


class Moods:
    """Embeds a text by its mood, with some noise of its own."""

    private_text_may_leave = False

    def embed(self, samples: Samples) -> Points:
        points = np.zeros((len(samples), 6), dtype=np.float32)
        for row, text in enumerate(samples):
            mood, number = text.split()
            points[row, ("bad", "fair", "good").index(mood)] = 1
            points[row, 3:] = np.random.default_rng(int(number)).normal(size=3) / 5
        return points


def reviews(count: int, seed: int, agreeing: float) -> Samples:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for i in range(count):
        stars = int(rng.choice([1, 2, 3], p=[0.2, 0.3, 0.5]))
        told = stars if rng.random() < agreeing else int(rng.integers(1, 4))
        rows.append(
            {"stars": stars, "price": i % 9, "review": f"{('bad', 'fair', 'good')[told - 1]} {seed * 1000 + i}"}
        )
    return as_samples([json.dumps(row) for row in rows])


def measured(agreeing: float) -> dict[str, Measure]:
    real, synthetic = reviews(400, 1, 0.9), reviews(200, 2, agreeing)
    embed = MixedEmbedder(SCHEMA, Moods()).embed
    found = Mixed(SCHEMA).agreement((real, embed(real)), (synthetic, embed(synthetic)), Scoring())
    return {measure.name: measure for measure in found}


def test_texts_that_agree_with_their_cells_teach_and_are_recognised() -> None:
    good, poor = measured(1.0), measured(0.0)
    assert list(good) == ["stars by texts", "stars in texts"]  # numbers are not classes
    assert good["stars by texts"].value > 0.88
    assert good["stars in texts"].value > 0.95
    assert poor["stars by texts"].value < 0.6
    assert poor["stars in texts"].value < 0.5
    assert "guessing the commonest gives 46%" in good["stars by texts"].says


def test_the_cells_themselves_are_not_read() -> None:
    assert measured(0.0)["stars by texts"].value == pytest.approx(0.5, abs=0.1)
