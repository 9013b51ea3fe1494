"""Cells and texts count alike by default, weights change that, and long texts are read to their end."""

from typing import Any

import numpy as np
import pytest

from gape.core.errors import InputError, PrivacyError
from gape.core.types import Points, Samples, as_samples
from gape.embedders.minilm import MiniLM
from gape.embedders.privacy import require_private_embedding
from gape.modalities import Mixed
from gape.modalities.mixed.columns import Prose
from gape.modalities.mixed.embedder import APART, MixedEmbedder, embed_windows, windows_of
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.rows.columns import Choices, Numbers
from gape.modalities.rows.schema import Schema


class Letters:
    """Embeds a text as unit vector by how often each letter occurs."""

    def embed(self, samples: Samples) -> Points:
        counts = np.array([[text.count(letter) for letter in "abcdefgh"] for text in samples], dtype=np.float32)
        counts = counts.reshape(len(samples), 8)
        points: Points = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
        return points


class Away(Letters):
    private_text_may_leave = False


def schema(cell_weight: float = 1.0, text_weight: float = 1.0, *, missing: bool = False) -> MixedSchema:
    cells = Schema({"x": Choices(("u", "v")), "y": Numbers(0, 9)}, {"x": cell_weight} if cell_weight != 1 else {})
    return MixedSchema(("x", "y", "z"), cells, {"z": Prose("letters", missing=missing)}, {"z": text_weight})


def squared(schema: MixedSchema, one: tuple[Any, ...], other: tuple[Any, ...]) -> float:
    rows = as_samples([schema.row(row, "row") for row in (one, other)])
    points = MixedEmbedder(schema, Letters()).embed(rows)
    assert points.dtype == np.float32
    return float(np.linalg.norm(points[0] - points[1]) ** 2)


def test_cells_and_texts_of_unrelated_rows_are_equally_far_apart() -> None:
    rng = np.random.default_rng(0)
    cells = [(("u", "v")[rng.integers(2)], int(rng.integers(10))) for _ in range(600)]
    rows = as_samples([schema().row((*cell, "a"), "row") for cell in cells])
    points = MixedEmbedder(schema(), Letters()).embed(rows).astype(np.float64)
    mean = np.mean(np.sum((points[:300] - points[300:]) ** 2, axis=1))
    assert mean == pytest.approx(APART / 2, rel=0.1)
    assert squared(schema(), ("u", 1, "a"), ("u", 1, "b")) == pytest.approx(2 / 2)


def test_a_weight_multiplies_the_squared_distance_of_its_column_alone() -> None:
    for heavy, ratio in ((schema(cell_weight=3), (3, 1, 1)), (schema(text_weight=3), (1, 1, 3))):
        for change, times in zip((("v", 1, "a"), ("u", 5, "a"), ("u", 1, "b")), ratio, strict=True):
            usual = squared(schema(), ("u", 1, "a"), change)
            assert squared(heavy, ("u", 1, "a"), change) == pytest.approx(times * usual, rel=1e-5)


def test_a_missing_text_is_as_far_from_any_text_as_unrelated_texts_are() -> None:
    some = schema(missing=True)
    assert squared(some, ("u", 1, None), ("u", 1, "b")) == pytest.approx(APART / 2, rel=1e-5)
    assert squared(some, ("u", 1, None), ("u", 1, " ")) == 0


def test_long_texts_are_read_to_their_end() -> None:
    texts = ["a " * 400, "a " * 200 + "b " * 200, "b"]
    points = embed_windows(Letters(), texts)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, rtol=0.2)
    assert points[1, 1] > 0.3
    np.testing.assert_array_equal(points[2], Letters().embed(as_samples(["b"]))[0])


@pytest.mark.parametrize(
    ("beginning", "one", "other"),
    [
        ("The soup was warm and the bread was fresh. " * 40, "Then nothing.", "A plane crashed into the sea. " * 20),
        ("今天天气很好我们去公园散步" * 60, "很好", "飞机失事" * 100),
        ("pneumonoultramicroscopicsilicovolcanoconiosis " * 140, "soup is good", "a plane crash at sea"),
    ],
)
def test_minilm_reads_long_texts_of_any_script_to_their_end(beginning: str, one: str, other: str) -> None:
    first, second = embed_windows(MiniLM(), [beginning + one, beginning + other])
    assert np.linalg.norm(first - second) > 0.01
    assert np.linalg.norm(first) == pytest.approx(1.0, abs=1e-4)


def test_windows_hold_the_whole_text_once() -> None:
    text = " ".join(f"word{i}" for i in range(400))
    assert " ".join(windows_of(text)) == text
    assert [len(window.split()) for window in windows_of(text)] == [150, 150, 100]
    assert "".join(windows_of("字" * 1000)).replace(" ", "") == "字" * 1000
    assert windows_of(" a  short text ") == [" a  short text "]
    assert windows_of("") == [""]


def test_private_texts_do_not_leave_by_the_inner_embedder() -> None:
    require_private_embedding(MixedEmbedder(schema(), Letters()))
    with pytest.raises(PrivacyError):
        require_private_embedding(MixedEmbedder(schema(), Away()))


def test_what_predicts_a_column_does_not_contain_it() -> None:
    kind = Mixed(schema())
    one, other = (as_samples([schema().row((cell, 3, "a"), "row")]) for cell in ("u", "v"))
    first, second = (MixedEmbedder(schema(), Letters()).embed(rows) for rows in (one, other))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(kind.features(one, first, "x"), kind.features(other, second, "x"))
    assert not np.array_equal(kind.features(one, first, "y"), kind.features(other, second, "y"))
    assert kind.labels(one, "x") == ["u"]
    with pytest.raises(InputError, match="'z' is not a column without texts of the schema; name one of 'x', 'y'"):
        kind.labels(one, "z")
