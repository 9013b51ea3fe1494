"""The pages say what the stored runs on images say, and rare digits survive by the default rule."""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import pytest
from experiments.images import cifar_table, rare
from experiments.images.cifar_table import STORED, values

ROOT = Path(__file__).parents[2]


def test_the_pages_have_the_table_of_the_stored_runs() -> None:
    table = "\n".join(cifar_table.lines())
    for page in ("docs/images.md", "experiments/images/README.md"):
        assert table in (ROOT / page).read_text()


def test_what_the_pages_say_of_cifar_is_in_the_stored_runs() -> None:
    with (STORED.parent / "cifar_by_chance.csv").open() as file:
        chance = list(csv.DictReader(file))
    means = {name: np.mean([float(row[name]) for row in chance]) for name in ("FID", "accuracy", "recall", "W1")}
    assert {name: f"{mean:.3f}" for name, mean in means.items()} == {
        "FID": "57.003", "accuracy": "0.830", "recall": "0.469", "W1": "0.211",
    }  # fmt: skip
    default, augpe = ({e: values(e, rule, "right labels") for e in ("1", "10")} for rule in ("default", "AugPE"))
    assert all(default[e].mean + default[e].reach < augpe[e].mean + augpe[e].reach for e in default)
    assert values("1", "default", "W1").mean + 0.001 < values("1", "AugPE", "W1").mean
    assert values("1", "AugPE", "FID").mean < values("1", "default", "FID").mean
    for measure in ("FID", "accuracy", "recall", "W1"):
        one, other = (values("10", rule, measure) for rule in ("default", "AugPE"))
        assert abs(one.mean - other.mean) <= one.reach + other.reach
    more = [values("1", "default, 8 votes", name).mean for name in ("accuracy", "right labels")]
    gains = [more[i] - values("1", "default", name).mean for i, name in enumerate(("accuracy", "right labels"))]
    assert [f"{gain:.3f}" for gain in gains] == ["0.043", "0.189"]
    assert values("1", "ranking, 8 votes", "accuracy").mean > 0.80 < more[0]
    for epsilon in ("1", "10"):
        for rule in ("default", "AugPE"):
            assert values(epsilon, "SubsamplePE", "FID").mean > values(epsilon, rule, "FID").mean
            assert values(epsilon, "SubsamplePE", "recall").mean < values(epsilon, rule, "recall").mean
            assert values(epsilon, "SubsamplePE", "W1").mean > values(epsilon, rule, "W1").mean
    exact, rounded = json.loads((STORED.parent / "cifar_checked.json").read_text())["FID of 500"]
    assert (f"{exact:.2f}", f"{rounded:.2f}") == ("57.14", "57.15")


@pytest.mark.slow
def test_the_default_keeps_more_kinds_than_ranking() -> None:
    private, held_out = rare.unbalanced()
    assert len(private) == 7500
    asked = argparse.Namespace(epsilon=4.0, samples=40, rounds=8)
    kinds = {rule: rare.scored(private, held_out, rule, 0, asked)["kinds"] for rule in ("default", "AugPE")}
    assert kinds["default"] >= 4
    assert kinds["AugPE"] <= 3
