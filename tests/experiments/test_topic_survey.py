"""The README of experiments/topic_survey says what its stored runs say."""

from pathlib import Path

import pytest
from experiments.topic_survey import tables

from gape.evaluation.compare import SeedMean

README = Path(tables.__file__).with_name("README.md").read_text(encoding="utf-8")
SETTINGS = [
    (data, size, share, epsilon)
    for data in tables.CORPORA
    for size in (50, 200)
    for share in ("0.1", "0.3")
    for epsilon in tables.EPSILONS
]


def gain(data: str, size: int, share: str, epsilon: float, figure: str) -> SeedMean:
    found = tables.gain(tables.corpus(data, size), share, "0", epsilon, figure)
    assert found is not None
    assert len(found.values) == 5
    return found


def test_the_tables_are_those_of_the_stored_runs() -> None:
    for table in tables.tables():
        assert "\n".join(table) in README


def test_the_start_is_better_if_the_texts_are_about_few_topics() -> None:
    gains = [gain(*setting, "start recall").mean for setting in SETTINGS if setting[0] == "few"]
    assert round(min(gains), 3) == 0.035
    assert round(max(gains), 3) == 0.196
    assert all(gain(*setting, "start W1").mean > 0 for setting in SETTINGS if setting[0] == "few")


def test_the_end_is_not() -> None:
    recalls = [gain(*setting, "end recall") for setting in SETTINGS]
    assert all(found.mean <= found.reach for found in recalls)
    distances = {setting: gain(*setting, "end W1") for setting in SETTINGS}
    beyond = [setting for setting, found in distances.items() if found.mean > found.reach]
    assert len(distances) == 24
    assert beyond == [("few", 50, "0.1", 1.0)]
    assert all(
        abs(gain(*setting, figure).mean) < 0.02
        for setting in SETTINGS
        if setting[0] == "all"
        for figure in ("end recall", "end W1")
    )


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("variant", tables.VARIANTS)
def test_with_the_model_the_start_is_better_and_recall_at_the_end_is_lower(variant: str, epsilon: float) -> None:
    found = {
        figure: tables.gain(tables.models("reddit-few"), variant, "default", epsilon, figure)
        for figure in tables.FIGURES
    }
    means = {figure: gained.mean for figure, gained in found.items() if gained is not None}
    assert 0.065 < means["start recall"] < 0.135
    assert means["start W1"] > 0
    assert -0.07 < means["end recall"] < -0.025
    assert 0 <= means["end W1"] < 0.007


@pytest.mark.parametrize("epsilon", tables.EPSILONS)
@pytest.mark.parametrize("variant", tables.VARIANTS)
def test_with_fewer_samples_the_start_is_better_and_the_end_within_its_interval(variant: str, epsilon: float) -> None:
    runs = tables.models("reddit-few-80")
    start, end, distance = (
        tables.gain(runs, variant, "default", epsilon, figure) for figure in ("start recall", "end recall", "end W1")
    )
    assert start is not None
    assert end is not None
    assert distance is not None
    assert 0.07 <= round(start.mean, 2) <= 0.13
    assert -0.002 <= round(end.mean, 3) <= 0.030
    assert end.mean <= end.reach
    assert 0.002 <= round(distance.mean, 3) <= 0.007
    assert distance.mean <= distance.reach


@pytest.mark.parametrize("share", ["0.1", "0.3"])
@pytest.mark.parametrize("epsilon", tables.EPSILONS)
def test_rows_with_texts_gain_at_the_start_and_not_at_the_end(share: str, epsilon: float) -> None:
    found = {
        (data, figure): tables.gain(tables.corpus(data, 50, "reviews"), share, "0", epsilon, figure)
        for data in tables.REVIEWS
        for figure in tables.FIGURES
    }
    for (data, figure), gained in found.items():
        assert gained is not None
        assert len(gained.values) == 8
        if data == "few" and figure == "start recall":
            assert 0.09 <= round(gained.mean, 2) <= 0.30
            assert gained.mean > gained.reach
        if figure.startswith("end"):
            assert gained.mean <= gained.reach
