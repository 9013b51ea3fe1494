from typing import Any

import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.core.types import Points, Samples
from gape.generators import corpus
from gape.generators.corpus import CorpusText


class Line:
    """Embeds the text "7" at 7, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, samples: Samples) -> Points:
        self.asked += len(samples)
        return np.array([[float(text), 0.0] for text in samples], dtype=np.float32).reshape(-1, 2)


NUMBERS = [str(i) for i in range(101)]


def texts(*written: Any) -> Samples:
    samples = np.empty(len(written), dtype=object)
    samples[:] = [str(text) for text in written]
    return samples


class TestContract(TextGeneratorContract):
    def make(self) -> Generator:
        return CorpusText(NUMBERS, Line())


def test_random_texts_repeat_only_once_the_corpus_is_used_up() -> None:
    drawn = CorpusText([*NUMBERS, *NUMBERS], Line()).random(250, np.random.default_rng(0))
    for part in (drawn[:101], drawn[101:202]):
        assert set(part) == set(NUMBERS)
    assert len(set(drawn[202:])) == 48
    assert list(drawn[:101]) != NUMBERS


@pytest.mark.parametrize(("scale", "near"), [(1e-9, 2), (0.25, 4), (0.5, 10), (0.75, 32), (1.0, 100)])
def test_a_variation_is_uniform_among_the_nearest_others(scale: float, near: int) -> None:
    varied = CorpusText(NUMBERS, Line()).vary(texts(*[0] * 6000), np.full(6000, scale), np.random.default_rng(0))
    drawn = np.bincount(varied.astype(int), minlength=101)
    assert drawn[0] == 0
    assert drawn[near + 1 :].sum() == 0
    expected = 6000 / near
    assert np.abs(drawn[1 : near + 1] - expected).max() < 5 * np.sqrt(expected) + 1


def test_a_sample_from_elsewhere_is_embedded_and_may_get_its_nearest() -> None:
    varied = CorpusText(NUMBERS, Line()).vary(texts(*["50.2"] * 400), np.full(400, 0.3), np.random.default_rng(0))
    assert set(varied) == {"49", "50", "51", "52"}


def test_the_corpus_is_embedded_once_and_only_when_needed() -> None:
    embedder = Line()
    generator = CorpusText(NUMBERS, embedder)
    samples = generator.random(20, np.random.default_rng(0))
    assert embedder.asked == 0
    for seed in range(3):
        generator.vary(samples, np.full(len(samples), 0.5), np.random.default_rng(seed))
    assert embedder.asked == 101


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = CorpusText(NUMBERS, Line())
    samples = np.concatenate([generator.random(30, np.random.default_rng(0)), texts("3.7", "88.1")])
    whole = generator.vary(samples, np.full(len(samples), 0.6), np.random.default_rng(1))
    monkeypatch.setattr(corpus, "_BLOCK", 250)
    np.testing.assert_array_equal(generator.vary(samples, np.full(len(samples), 0.6), np.random.default_rng(1)), whole)


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="at least 2 different texts, got 1"):
        CorpusText(["a", "a"], Line())
    with pytest.raises(InputError, match=r"scale must be in \(0, 1\], got 1.5"):
        CorpusText(NUMBERS, Line()).vary(texts("1"), np.array([1.5]), np.random.default_rng(0))
