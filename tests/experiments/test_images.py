"""Rare digits survive by the default rule and hardly by ranking, as the README of the experiment says."""

import argparse

import pytest
from experiments.images import rare


@pytest.mark.slow
def test_the_default_keeps_more_kinds_than_ranking() -> None:
    private, held_out = rare.unbalanced()
    assert len(private) == 7500
    asked = argparse.Namespace(epsilon=4.0, samples=40, rounds=8)
    kinds = {rule: rare.scored(private, held_out, rule, 0, asked)["kinds"] for rule in ("default", "AugPE")}
    assert kinds["default"] >= 4
    assert kinds["AugPE"] <= 3
