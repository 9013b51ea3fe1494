"""What every generator promises."""

from typing import ClassVar

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.core.types import Samples


class GeneratorContract:
    """Inherit, and make one; name a scale at which its variations differ from what they vary."""

    scale: ClassVar[float] = 0.5

    def make(self) -> Generator:
        raise AssertionError("inherit and make one")

    def random(self, count: int, seed: int = 0) -> Samples:
        return self.make().random(count, np.random.default_rng(seed))

    def vary(self, samples: Samples, scale: float, seed: int = 0) -> Samples:
        return self.make().vary(samples, np.full(len(samples), scale), np.random.default_rng(seed))

    @pytest.mark.parametrize("count", [1, 2, 13])
    def test_draws_as_many_samples_as_asked_for(self, count: int) -> None:
        assert len(self.random(count)) == count

    @pytest.mark.parametrize("count", [1, 2, 13])
    def test_writes_one_variation_of_every_sample(self, count: int) -> None:
        samples = self.random(count)
        varied = self.vary(samples, self.scale)
        assert varied.shape == samples.shape
        assert varied.dtype.kind == samples.dtype.kind

    def test_variations_can_be_varied_again_and_stacked(self) -> None:
        samples = self.random(4)
        again = self.vary(self.vary(samples, self.scale), self.scale)
        assert len(np.concatenate([samples, again])) == 8

    def test_the_seed_decides(self) -> None:
        np.testing.assert_array_equal(self.random(6, seed=3), self.random(6, seed=3))
        samples = self.random(6)
        first, again, other = (self.vary(samples, self.scale, seed) for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_variations_differ_from_the_samples_and_from_call_to_call(self) -> None:
        generator, rng = self.make(), np.random.default_rng(0)
        samples = generator.random(6, rng)
        first, second = (generator.vary(samples, np.full(len(samples), self.scale), rng) for _ in range(2))
        assert not np.array_equal(first, samples)
        assert not np.array_equal(first, second)

    def test_what_it_was_given_is_left_alone(self) -> None:
        samples = self.random(5)
        before = samples.copy()
        samples.setflags(write=False)
        self.vary(samples, self.scale)
        np.testing.assert_array_equal(samples, before)

    def test_what_it_gave_is_the_callers_own(self) -> None:
        generator = self.make()
        first = generator.random(5, np.random.default_rng(0))
        before = first.copy()
        first[:] = first[::-1].copy()
        np.testing.assert_array_equal(generator.random(5, np.random.default_rng(0)), before)


class VectorGeneratorContract(GeneratorContract):
    """What is promised of vectors besides: float32 rows, and a mean squared step of at most the scale."""

    def test_samples_are_finite_float32_rows(self) -> None:
        samples = self.random(7)
        for vectors in (samples, self.vary(samples, self.scale)):
            assert vectors.dtype == np.float32
            assert vectors.ndim == 2
            assert np.isfinite(vectors).all()

    @pytest.mark.parametrize("scale", [1e-6, 0.01, 1.0, 4.0])
    def test_the_mean_squared_step_is_at_most_the_scale(self, scale: float) -> None:
        samples = np.repeat(self.random(1), 4_000, axis=0)
        steps = np.asarray(self.vary(samples, scale) - samples, dtype=np.float64)
        squared = np.sum(steps**2, axis=1)
        deviation = squared.std() / np.sqrt(len(squared))
        assert squared.mean() <= scale + 5 * deviation + 1e-9

    def test_at_scale_zero_nothing_moves(self) -> None:
        samples = self.random(9)
        np.testing.assert_allclose(self.vary(samples, 0.0), samples, rtol=1e-6, atol=1e-6)

    def test_samples_of_another_precision_are_varied_too(self) -> None:
        samples = self.random(5)
        np.testing.assert_allclose(
            self.vary(samples.astype(np.float64), self.scale), self.vary(samples, self.scale), atol=1e-5
        )


class TextGeneratorContract(GeneratorContract):
    """What is promised of texts besides: an array of strings, none of them empty."""

    def test_samples_are_an_array_of_texts(self) -> None:
        samples = self.random(7)
        for texts in (samples, self.vary(samples, self.scale)):
            assert texts.dtype == np.dtype(object)
            assert texts.ndim == 1
            assert all(type(text) is str and text.strip() for text in texts)

    def test_none_are_drawn_where_none_are_asked_for(self) -> None:
        samples = self.random(0)
        assert samples.shape == self.vary(samples, self.scale).shape == (0,)

    def test_a_scale_that_means_nothing_is_refused(self) -> None:
        samples = self.random(2)
        for scale in (0.0, -1.0, float("nan")):
            with pytest.raises(InputError, match="scale must be"):
                self.vary(samples, scale)
