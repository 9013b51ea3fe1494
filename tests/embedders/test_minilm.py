from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.core.types import Points, Samples
from gape.embedders.minilm import MiniLM
from shared_minilm import unshared

WORDS = ["heart", "liver", "kidney", "river", "soil", "protein", "cancer", "trial", "nurse", "school", "vaccine"]


@pytest.fixture(scope="module", autouse=True)
def as_it_is() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        unshared(patch)
        yield


@cache
def model() -> MiniLM:
    return MiniLM()


def texts(*each: str) -> Samples:
    return np.array(each, dtype=object)


def embed(*each: str) -> Points:
    return model().embed(texts(*each))


def many(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 30))) for _ in range(count)]


class TestEmbeddings:
    def test_they_are_finite_float32_rows_of_length_one(self) -> None:
        points = embed(*many(20), "", " ", "\x00", "\ud800", "日本語", "😀", "x" * 5_000)
        assert points.shape == (27, 384)
        assert points.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-6)

    def test_they_are_the_published_models(self) -> None:
        # Cosines of the original float32 model, as its authors' library computes them.
        points = embed(
            "This is an example sentence", "Each sentence is converted", "The weather is lovely today.",
            "It's so sunny outside!", "He drove to the stadium.",
        )  # fmt: skip
        cosines = points @ points.T
        assert cosines[2, 3] == pytest.approx(0.6660, abs=0.02)
        assert cosines[2, 4] == pytest.approx(0.1046, abs=0.02)
        assert cosines[3, 4] == pytest.approx(0.1411, abs=0.02)

    def test_a_text_is_embedded_the_same_whatever_is_embedded_with_it(self) -> None:
        some = many(60)
        together = embed(*some)
        np.testing.assert_array_equal(together[::-1], embed(*some[::-1]))
        np.testing.assert_array_equal(together, np.concatenate([embed(text) for text in some]))

    def test_equal_texts_get_equal_rows(self) -> None:
        points = embed(*many(5), *many(5))
        np.testing.assert_array_equal(points[:5], points[5:])

    def test_case_accents_and_spaces_are_not_read(self) -> None:
        plain, other = embed("cafe naive", "  Café \n NAÏVE ")
        np.testing.assert_array_equal(plain, other)

    def test_text_beyond_the_limit_is_not_read(self) -> None:
        long = "river " * 300
        np.testing.assert_array_equal(embed(long), embed(long + "heart"))
        assert not np.array_equal(embed("river " * 200), embed("river " * 200 + "heart"))
        short = MiniLM(max_tokens=8)
        np.testing.assert_array_equal(short.embed(texts("river " * 6)), short.embed(texts("river " * 6 + "heart")))

    def test_no_texts_give_no_rows(self) -> None:
        assert embed().shape == (0, 384)

    def test_somebody_can_be_told_how_far_it_is(self) -> None:
        heard: list[tuple[int, int]] = []
        watched = model().watched(lambda done, of: heard.append((done, of)))
        np.testing.assert_array_equal(watched.embed(texts(*many(60))), embed(*many(60)))
        assert heard == sorted(heard)
        assert len(heard) > 5
        assert heard[-1] == (60, 60)


class TestIdentity:
    def test_the_representation_tells_weights_and_limit(self) -> None:
        assert repr(model()) == "MiniLM(weights=8199be6f699a, max_tokens=256)"


class TestRefusals:
    def test_samples_that_are_no_texts(self) -> None:
        with pytest.raises(InputError, match=r"embeds texts, got an array of float64 of shape \(2, 3\)"):
            model().embed(np.zeros((2, 3)))

    @pytest.mark.parametrize("limit", [0, 1, 513])
    def test_a_limit_that_the_model_has_no_room_for(self, limit: int) -> None:
        with pytest.raises(InputError, match=f"from 2 to 512, .* got {limit}"):
            MiniLM(max_tokens=limit)
