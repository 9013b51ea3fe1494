import numpy as np
import pytest
from scipy import stats

from gape.core.errors import InputError
from gape.privacy.noise import Noise, SecureNoise, SeededNoise

# With secure noise a test of its law must fail now and then; at this level, not within a lifetime.
NEVER = 1e-9


def law(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    support = np.arange(-int(12 * sigma) - 2, int(12 * sigma) + 3)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    return support, weights / weights.sum()


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)], ids=["secure", "seeded"])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.7])
def test_noise_follows_the_discrete_gaussian_law(noise: Noise, sigma: float) -> None:
    counts = np.full(20_000, 7, dtype=np.int64)
    noisy = noise.add(counts, sigma, turn=1)
    assert noisy.dtype == np.int64
    support, probabilities = law(sigma)
    expected = probabilities * len(counts)
    frequent = expected > 5
    seen = np.array([(noisy - 7 == z).sum() for z in support])
    seen = np.append(seen[frequent], len(counts) - seen[frequent].sum())
    expected = np.append(expected[frequent], len(counts) - expected[frequent].sum())
    statistic = ((seen - expected) ** 2 / np.maximum(expected, 1e-3)).sum()
    assert stats.chi2.sf(statistic, df=frequent.sum()) > NEVER


def spread(noise: np.ndarray, claimed: float) -> float:
    """How many standard errors the mean square of the noise lies from that of the law of scale `claimed`."""
    support, probabilities = law(claimed)
    square, fourth = (probabilities @ support.astype(np.float64) ** power for power in (2, 4))
    return float((np.square(noise).mean() - square) / np.sqrt((fourth - square**2) / len(noise)))


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)], ids=["secure", "seeded"])
def test_noise_that_is_one_percent_too_small_is_noticed(noise: Noise) -> None:
    """One percent of the scale is 10 standard errors here; honest noise leaves 5.5 once in 26 million times."""
    drawn = noise.add(np.zeros(500_000, dtype=np.int64), 18.7, turn=1).astype(np.float64)
    assert abs(spread(drawn, claimed=18.7)) < 5.5
    assert spread(drawn, claimed=18.7 / 0.99) < -5.5


def test_secure_noise_is_fresh_every_time_and_in_every_bin() -> None:
    counts = np.zeros(64, dtype=np.int64)
    first, second = (SecureNoise().add(counts, 100.0, turn=1) for _ in range(2))
    assert (first != second).sum() > 32
    assert len(set(first.tolist())) > 16
    assert SecureNoise().secure


def test_seeded_noise_repeats_by_seed_and_round_and_says_that_it_is_not_secure() -> None:
    counts = np.arange(50, dtype=np.int64)
    again = SeededNoise(4).add(counts, 3.0, turn=2)
    assert np.array_equal(SeededNoise(4).add(counts, 3.0, turn=2), again)
    assert not np.array_equal(SeededNoise(4).add(counts, 3.0, turn=3), again)
    assert not np.array_equal(SeededNoise(5).add(counts, 3.0, turn=2), again)
    assert not SeededNoise(4).secure


def test_seeded_noise_refuses_a_scale_it_cannot_tabulate() -> None:
    with pytest.raises(InputError, match="use SecureNoise"):
        SeededNoise(0).add(np.zeros(2, dtype=np.int64), 1e9, turn=1)
