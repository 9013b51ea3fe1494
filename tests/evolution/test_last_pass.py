"""The last pass: near copies are rewritten near where they were, and nothing else changes."""

import numpy as np

from gape.core.copies import Distinct
from gape.core.types import Floats, Points, Samples, as_samples, texts_of
from gape.evolution.last_pass import DRAWS, TRIES, LastPass
from gape.generators.labels import labelled

TEXTS = (
    "The cat sat on the warm mat all day long.",
    "The cat sat on the warm floor instead.",
    "A dog ran over the bridge and back again twice.",
    "The cat sat on the warm stove, and left.",
)


class Numbered:
    """Writes texts that say which one they vary and a number, which is where they lie."""

    def __init__(self, *numbers: float) -> None:
        self.numbers, self.asked = list(numbers), list[int]()

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        raise NotImplementedError

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        assert set(scales) == {0.9}
        self.asked.append(len(samples))
        written = [f"{self.numbers[i % len(self.numbers)]} is new here, number {i} now" for i in range(len(samples))]
        if samples.dtype.names:
            return labelled(samples["label"], as_samples(written))
        return as_samples(written)


class AtNumbers:
    """Puts a text at the number that it begins with, and any other at 0."""

    def embed(self, samples: Samples) -> Points:
        firsts = [text.split()[0] for text in texts_of(samples)]
        return np.array([[float(first) if first[0].isdigit() else 0.0] for first in firsts], dtype=np.float32)


def test_near_copies_are_rewritten_and_the_first_of_them_stays() -> None:
    samples = as_samples(TEXTS)
    rewritten = LastPass(Numbered(0.5, 0.2, 0.7), AtNumbers(), 0.9)(samples, np.random.default_rng(0))
    assert rewritten[[0, 2]].tolist() == [TEXTS[0], TEXTS[2]]
    assert all("is new here" in text for text in rewritten[[1, 3]])
    assert all(map(Distinct().take, rewritten))
    assert samples.tolist() == list(TEXTS)


def test_the_nearest_variation_takes_the_place() -> None:
    rewritten = LastPass(Numbered(0.5, 0.2, 0.7), AtNumbers(), 0.9)(as_samples(TEXTS[:2]), np.random.default_rng(0))
    assert rewritten[1].startswith("0.2 is new here")


def test_a_text_stays_that_has_no_variation_within_the_distance() -> None:
    generator = Numbered(0.5, 0.4)
    rewritten = LastPass(generator, AtNumbers(), 0.9, within=0.3)(as_samples(TEXTS[:2]), np.random.default_rng(0))
    assert rewritten.tolist() == list(TEXTS[:2])
    assert generator.asked == [DRAWS] * TRIES


def test_a_set_without_near_copies_is_left_alone() -> None:
    generator = Numbered(0.1)
    samples = as_samples([TEXTS[0], TEXTS[2]])
    assert LastPass(generator, AtNumbers(), 0.9)(samples, np.random.default_rng(0)).tolist() == samples.tolist()
    assert generator.asked == []


def test_labels_stay_with_their_places() -> None:
    samples = labelled(["a", "b", "c", "b"], as_samples(TEXTS))
    rewritten = LastPass(Numbered(0.5, 0.2, 0.7), AtNumbers(), 0.9)(samples, np.random.default_rng(0))
    assert rewritten["label"].tolist() == ["a", "b", "c", "b"]
    assert (rewritten["text"] != samples["text"]).tolist() == [False, True, False, True]
