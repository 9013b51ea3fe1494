"""The pages say what the stored runs on images say, and rare digits survive by the default rule."""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import pytest
from experiments.images import cifar_table, rare
from experiments.images.cifar_table import DIGITS, STORED, VOTES, values

from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import note_of
from gape.metrics import mean_nearest_distance

ROOT = Path(__file__).parents[2]
LOG = "experiments/images/README.md"


def test_the_pages_have_the_table_of_the_stored_runs() -> None:
    for stored, pages in ((STORED, ("docs/images.md", LOG)), (VOTES, (LOG,))):
        table = "\n".join(cifar_table.lines(stored))
        for page in pages:
            assert table in (ROOT / page).read_text()


def test_the_pages_say_of_votes_with_a_corpus_what_the_stored_runs_say() -> None:
    def ahead(epsilon: str, rule: str, measure: str) -> float:
        gain = values(epsilon, "default", measure, VOTES).mean - values(epsilon, rule, measure, VOTES).mean
        return -gain if measure in {"FID", "W1"} else gain

    assert all(
        ahead(epsilon, rule, name) > 0 for epsilon in ("0.5", "1") for rule in ("one vote", "AugPE") for name in DIGITS
    )
    for epsilon in ("4", "10"):
        for name in DIGITS:
            reach = sum(values(epsilon, rule, name, VOTES).reach for rule in ("default", "one vote"))
            assert abs(ahead(epsilon, "one vote", name)) <= reach
        assert ahead(epsilon, "default, 8 votes", "FID") > 0
        assert all(ahead(epsilon, rule, "W1") < 0 for rule in ("AugPE", "ranking, 8 votes"))
    for epsilon in ("0.5", "1"):
        assert all(ahead(epsilon, "default, 8 votes", name) < 0 for name in ("accuracy", "right labels"))
    with VOTES.open() as file:
        cast = {(row["epsilon"], row["votes"]) for row in csv.DictReader(file) if row["rule"] == "default"}
    assert cast == {("0.5", "4"), ("1", "4"), ("4", "2"), ("10", "2")}


def test_what_the_pages_say_of_cifar_is_in_the_stored_runs() -> None:
    with (STORED.parent / "cifar_by_chance.csv").open() as file:
        chance = list(csv.DictReader(file))
    means = {name: np.mean([float(row[name]) for row in chance]) for name in ("FID", "accuracy", "recall", "W1")}
    assert {name: f"{mean:.3f}" for name, mean in means.items()} == {
        "FID": "57.003", "accuracy": "0.830", "recall": "0.469", "W1": "0.211",
    }  # fmt: skip

    def gain(epsilon: str, rule: str, measure: str) -> float:
        return values(epsilon, "default", measure).mean - values(epsilon, rule, measure).mean

    assert [f"{gain('1', 'one vote', name):.3f}" for name in ("accuracy", "right labels")] == ["0.038", "0.138"]
    assert gain("1", "AugPE", "right labels") > 0.03 < gain("1", "AugPE", "recall")
    assert abs(gain("1", "AugPE", "accuracy")) < 0.005
    assert all(gain("1", rule, "W1") < 0 for rule in ("one vote", "AugPE", "ranking, equal votes"))
    assert gain("1", "AugPE", "FID") > 0 < gain("1", "ranking, equal votes", "FID")
    assert all(gain("1", "ranking, equal votes", name) < 0 for name in ("accuracy", "right labels"))
    ranked = ("AugPE", "ranking, equal votes")
    for measure in ("FID", "accuracy", "recall", "W1"):
        for rule in ranked:
            reach = sum(values("10", each, measure).reach for each in ("default", rule))
            assert abs(gain("10", rule, measure)) <= reach
    assert all(gain("10", rule, "right labels") < 0 for rule in ranked)
    for rule in ("default, 8 votes", "ranking, 8 votes"):
        assert gain("1", rule, "right labels") < 0
        assert gain("10", rule, "FID") < -1
    with STORED.open() as file:
        cast = {(row["epsilon"], row["votes"]) for row in csv.DictReader(file) if row["rule"] == "default"}
    assert cast == {("1", "3"), ("10", "2")}
    for epsilon in ("1", "10"):
        for rule in ("default", "AugPE"):
            assert values(epsilon, "SubsamplePE", "FID").mean > values(epsilon, rule, "FID").mean
            assert values(epsilon, "SubsamplePE", "recall").mean < values(epsilon, rule, "recall").mean
            assert values(epsilon, "SubsamplePE", "W1").mean > values(epsilon, rule, "W1").mean
    exact, rounded = json.loads((STORED.parent / "cifar_checked.json").read_text())["FID of 500"]
    assert (f"{exact:.2f}", f"{rounded:.2f}") == ("57.14", "57.15")


def test_held_out_terrain_gets_nearer_in_every_round() -> None:
    with (STORED.parent / "terrain.csv").open() as file:
        rows = list(csv.DictReader(file))
    ways = [[float(row["distance"]) for row in rows if row["seed"] == seed] for seed in ("0", "1")]
    assert all(len(way) == 6 and (np.diff(way) < 0).all() for way in ways)
    said = " and ".join(f"from {way[0]:.3f} to {way[-1]:.3f}".replace("0.", ".") for way in ways)
    for page in ("docs/images.md", LOG):
        assert said in " ".join((ROOT / page).read_text().split())


def stored_rare(rule: str, column: str) -> list[str]:
    with (STORED.parent / "rare.csv").open() as file:
        return [row[column] for row in csv.DictReader(file) if row["rule"] == rule]


def test_the_pages_say_which_rare_digits_are_left() -> None:
    names = {"default": "default (2 votes per record)", "AugPE": "AugPE (ranking, one vote)"}
    for rule in ("default", "AugPE", "ranking, equal votes", "SubsamplePE"):
        kinds, shown = stored_rare(rule, "kinds"), stored_rare(rule, "shown")
        assert [str(len(set(each) - {"."})) for each in shown] == kinds
        distance = np.mean([float(each) for each in stored_rare(rule, "distance of rare digits")])
        mean = np.mean([int(each) for each in kinds])
        line = f"| {names.get(rule, rule)} | {', '.join(kinds)} | {mean:.1f} | {distance:.3f}".replace("| 0.", "| .")
        assert all(line in (ROOT / page).read_text() for page in ("docs/images.md", LOG))
    assert all(5 <= int(kinds) <= 7 for kinds in stored_rare("default", "kinds"))
    assert set(stored_rare("ranking, equal votes", "kinds")) == {"1"}
    assert set(stored_rare("AugPE", "kinds")) == {"1", "2"}
    assert "(images/rare.png)" in (ROOT / "docs/images.md").read_text()
    assert "docs/images/rare.png" in (ROOT / LOG).read_text()


def test_the_pages_have_the_figures_of_digits() -> None:
    digits = {"accuracy": 3, "recall": 2, "precision": 2, "W1": 3, "lineages": 0}
    stored = STORED.with_name("digits.csv")
    for epsilon, votes in (("1", 10), ("10", 2)):
        names = {"default": f"default ({votes} votes per record)", "AugPE": "AugPE (ranking, one vote)"}
        for rule in ("default", "ranking, equal votes", "AugPE", "SubsamplePE"):
            found = [(values(epsilon, rule, name, stored), places) for name, places in digits.items()]
            cells = [f"{mean.mean:.{places}f} ± {mean.reach:.{places}f}".replace("0.", ".") for mean, places in found]
            line = f"| {epsilon} | {names.get(rule, rule)} | {' | '.join(cells)} |"
            assert all(line in (ROOT / page).read_text() for page in ("docs/images.md", LOG)), line


@pytest.mark.slow
def test_the_default_keeps_more_kinds_than_ranking() -> None:
    private, held_out = rare.unbalanced()
    assert len(private) == 7500
    asked = argparse.Namespace(epsilon=4.0, samples=40, rounds=8)
    kinds = {}
    for rule in ("default", "AugPE"):
        samples, _ = rare.evolved(private, rule, 0, asked)
        kinds[rule] = len({json.loads(note_of(sample))[0] for sample in samples})
        distance = mean_nearest_distance(held_out, PixelEmbedder().embed(samples))
        assert f"{distance:.4g}" == stored_rare(rule, "distance of rare digits")[0]
    assert kinds["default"] >= 4
    assert kinds["AugPE"] <= 3
