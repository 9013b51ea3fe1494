import numpy as np
import pytest
from scipy.stats import bootstrap as scipys_bootstrap

from gape.core.errors import InputError
from gape.metrics import bootstrap

SCORES = np.random.default_rng(0).exponential(size=300)


def test_is_close_to_that_of_scipy() -> None:
    theirs = scipys_bootstrap(
        (SCORES,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    ours = bootstrap(SCORES, np.random.default_rng(2), resamples=20_000)
    assert ours.value == pytest.approx(SCORES.mean(), rel=1e-12)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)


def test_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    intervals = [bootstrap(rng.random(80) < 0.3, rng, level=0.9, resamples=200) for _ in range(300)]
    held = np.mean([interval.low <= 0.3 <= interval.high for interval in intervals])
    assert held == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 300))


def test_takes_any_statistic_and_repeats_itself() -> None:
    first, second = (bootstrap(SCORES, np.random.default_rng(7), statistic=np.median) for _ in range(2))
    assert first == second
    assert first.low < first.value == np.median(SCORES) < first.high


def test_of_one_record_is_that_record() -> None:
    only = bootstrap([2.5], np.random.default_rng(0))
    assert (only.value, only.low, only.high) == (2.5, 2.5, 2.5)


@pytest.mark.parametrize("scores", [[], [np.nan, 1.0], [[1.0, 2.0]]])
def test_refuses_scores_that_are_none(scores: list[float]) -> None:
    with pytest.raises(InputError, match="scores must be a non-empty list of finite"):
        bootstrap(scores, np.random.default_rng(0))


def test_refuses_parameters_out_of_range() -> None:
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        bootstrap(SCORES, np.random.default_rng(0), level=95)
    with pytest.raises(InputError, match="resamples at least 1"):
        bootstrap(SCORES, np.random.default_rng(0), resamples=0)
