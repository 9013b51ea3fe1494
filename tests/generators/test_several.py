import numpy as np
import pytest

from contracts.generator import VectorGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator, SharedGenerator
from gape.generators.several import SeveralWriters
from gape.generators.vectors import GaussianGenerator, StartFromBox

LEFT, RIGHT = (
    GaussianGenerator.isotropic(StartFromBox(low, high), 2)
    for low, high in (((-9.0, 0.0), (-8.0, 1.0)), ((8.0, 0.0), (9.0, 1.0)))
)


class TestContract(VectorGeneratorContract):
    def make(self) -> Generator:
        return SeveralWriters((LEFT, RIGHT))


def test_everyone_writes_in_the_places_of_its_own() -> None:
    both = SeveralWriters((LEFT, RIGHT))
    assert isinstance(both, SharedGenerator)
    authors = np.array([1, 0, 0, 1, 1])
    samples = both.write(authors, np.random.default_rng(0))
    np.testing.assert_array_equal(samples[:, 0] > 0, authors == 1)
    varied = both.rewrite(samples, np.full(5, 1e-4), authors, np.random.default_rng(0))
    np.testing.assert_allclose(varied, samples, atol=0.2)  # each in its place
    assert len(both.write(np.empty(0, dtype=np.int64), np.random.default_rng(0))) == 0


def test_where_nobody_decides_all_write_equally_many() -> None:
    samples = SeveralWriters((LEFT, RIGHT)).random(20, np.random.default_rng(0))
    assert (samples[:, 0] > 0).sum() == 10


def test_one_writer_is_refused() -> None:
    with pytest.raises(InputError, match="at least two, got 1"):
        SeveralWriters((LEFT,))
