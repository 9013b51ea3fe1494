from dataclasses import dataclass, field

import numpy as np
import pytest

from gape.core.errors import InputError, PrivacyError
from gape.core.types import Points, Samples
from gape.embedders.cached import Cached
from gape.embedders.identity import IdentityEmbedder
from gape.embedders.privacy import require_private_embedding


@dataclass
class Lengths:
    """Embeds a text by its length, and remembers what it was asked."""

    asked: list[str] = field(default_factory=list, repr=False)

    def embed(self, samples: Samples) -> Points:
        self.asked += samples.tolist()
        return np.array([[len(text), 1.0] for text in samples], dtype=np.float32).reshape(-1, 2)


def texts(*each: str) -> Samples:
    return np.array(each, dtype=object)


class TestCached:
    def test_what_was_embedded_is_not_embedded_again(self) -> None:
        inner = Lengths()
        cached = Cached(inner)
        first = cached.embed(texts("a", "bb", "a", ""))
        again = cached.embed(texts("ccc", "bb", ""))
        np.testing.assert_array_equal(first, [[1, 1], [2, 1], [1, 1], [0, 1]])
        np.testing.assert_array_equal(again, [[3, 1], [2, 1], [0, 1]])
        assert inner.asked == ["a", "bb", "", "ccc"]

    def test_what_it_gave_is_the_callers_own(self) -> None:
        cached = Cached(Lengths())
        cached.embed(texts("a"))[:] = 9
        np.testing.assert_array_equal(cached.embed(texts("a")), [[1, 1]])

    def test_it_forgets_what_was_least_recently_asked_for(self) -> None:
        inner = Lengths()
        cached = Cached(inner, size=2)
        for text in ("a", "b", "a", "c", "a", "b"):
            cached.embed(texts(text))
        assert inner.asked == ["a", "b", "c", "b"]

    def test_more_samples_than_it_can_hold_are_embedded_all_the_same(self) -> None:
        many = texts(*("x" * i for i in range(30)))
        cached = Cached(Lengths(), size=4)
        cached.embed(texts("x" * 29))
        np.testing.assert_array_equal(cached.embed(many)[:, 0], np.arange(30))

    def test_no_samples_give_no_rows_of_the_right_width(self) -> None:
        assert Cached(Lengths()).embed(texts()).shape == (0, 2)

    def test_vectors_are_told_apart_by_content(self) -> None:
        cached = Cached(IdentityEmbedder())
        vectors = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]], dtype=np.float32)
        np.testing.assert_array_equal(cached.embed(vectors), vectors)
        np.testing.assert_array_equal(cached.embed(vectors[::-1] + 1), vectors[::-1] + 1)

    def test_broken_characters_are_no_error(self) -> None:
        assert Cached(Lengths()).embed(texts("\ud800", "\udfff")).shape == (2, 2)

    def test_it_is_identified_as_the_embedder_inside(self) -> None:
        assert repr(Cached(Lengths(), size=5)) == "Lengths()"

    def test_it_hides_no_embedder_that_sends_text_away(self) -> None:
        inner = Lengths()
        require_private_embedding(Cached(inner))
        inner.private_text_may_leave = False  # type: ignore[attr-defined]
        with pytest.raises(PrivacyError, match="would send the private text"):
            require_private_embedding(Cached(inner))

    def test_a_cache_of_nothing_is_refused(self) -> None:
        with pytest.raises(InputError, match="size must be at least 1 embedding, got 0"):
            Cached(Lengths(), size=0)


def test_samples_that_it_could_confuse_are_refused() -> None:
    pairs = np.array([("low", "a text")], dtype=[("label", object), ("text", object)])
    with pytest.raises(InputError, match="only texts and vectors can be cached"):
        Cached(Lengths()).embed(pairs)
