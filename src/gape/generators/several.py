"""Several generators that each write a share of the candidates."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.core.types import Floats, Indices, Samples
from gape.evolution.writers import assigned


@dataclass(frozen=True)
class SeveralWriters:
    """Several generators of the same kind of samples. A run decides who writes which candidate (`evolution.writers`).

    Where nobody decides, as in the last pass, all write equally many.
    """

    generators: tuple[Generator, ...]

    def __post_init__(self) -> None:
        if len(self.generators) < 2:
            raise InputError(f"several writers must be at least two, got {len(self.generators)}; use the one as it is")

    @property
    def writers(self) -> int:
        """The number of writers."""
        return len(self.generators)

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` samples, equally many by each writer."""
        return self.write(self._equally(count, rng), rng)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Write one variation of each sample, equally many by each writer."""
        return self.rewrite(samples, scales, self._equally(len(samples), rng), rng)

    def write(self, authors: Indices, rng: np.random.Generator) -> Samples:
        """Draw one sample by each of these writers."""
        return self._gathered(authors, lambda writer, members: writer.random(len(members), rng))

    def rewrite(self, samples: Samples, scales: Floats, authors: Indices, rng: np.random.Generator) -> Samples:
        """Write one variation of each sample, by the writer given for it."""
        return self._gathered(authors, lambda writer, members: writer.vary(samples[members], scales[members], rng))

    def _equally(self, count: int, rng: np.random.Generator) -> Indices:
        return assigned(np.full(self.writers, 1 / self.writers), count, rng)

    def _gathered(self, authors: Indices, written: Callable[[Generator, Indices], Samples]) -> Samples:
        """Put what each writer wrote in the places of its own."""
        parts = [
            (members, writer) for index, writer in enumerate(self.generators) if len(members := _of(authors, index))
        ]
        if not parts:
            return self.generators[0].random(0, np.random.default_rng(0))
        samples = [written(writer, members) for members, writer in parts]
        for (members, _), part in zip(parts, samples, strict=True):
            if len(part) != len(members):
                raise InputError(
                    f"a writer returned {len(part)} samples instead of {len(members)}; return one for each"
                )
        order = np.argsort(np.concatenate([members for members, _ in parts]), kind="stable")
        return np.concatenate(samples)[order]


def _of(authors: Indices, index: int) -> Indices:
    return np.flatnonzero(authors == index)
