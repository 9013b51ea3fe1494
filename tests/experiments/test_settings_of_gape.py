"""The settings of GAPE: each is what it says, runs are made once and survive a cut, and the results are there."""

import csv
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.corpus_text.run import Data
from experiments.settings_of_gape import run as settings
from experiments.settings_of_gape import sweeps

from figures import is_a_drawing
from gape.evolution.plan import Plan
from gape.modalities import load_texts
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "settings_of_gape"
QUESTIONS = ROOT / "src" / "gape" / "cli" / "demos" / "questions.csv.gz"
PLAN = Plan(1.0, 1e-5, 10, 200, scales=sweeps.DEFAULT.scales)
SOME = {name: sweeps.SWEEPS[name] for name in ("threshold, in sigma", "what is made of the votes")}


@pytest.fixture
def bench() -> settings.Bench:
    rng = np.random.default_rng(0)
    private, public = (rng.standard_normal((size, 8)).astype(np.float32) for size in (60, 80))
    return settings.Bench(Data(private, tuple(str(place) for place in range(len(public))), public), samples=5)


def test_glance_writes_tables_and_figures_and_makes_no_run_twice(
    tmp_path: Path, bench: settings.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = settings.run(tmp_path, bench, 2, sweeps=SOME)
    assert len(rows) == 2 * sum(len(line) for lines in SOME.values() for line in lines.values())
    assert all(row["seeds"] == 2 for row in rows)
    with (tmp_path / "settings.csv").open(newline="") as opened:
        assert len(list(csv.DictReader(opened))) == len(rows)
    assert len((tmp_path / "settings.md").read_text().splitlines()) == len(rows) + 2
    assert all(is_a_drawing(tmp_path / name) for name in ("recall.png", "mean_nearest_distance.png", "sinkhorn_w1.png"))

    whole = (tmp_path / "runs.csv").read_bytes()
    monkeypatch.setattr(settings.Bench, "measure", lambda *case: pytest.fail(f"{case} was run again"))
    assert settings.run(tmp_path, bench, 2, sweeps=SOME) == rows
    assert (tmp_path / "runs.csv").read_bytes() == whole


def test_a_run_that_was_cut_short_is_made_again_and_comes_to_the_same(tmp_path: Path, bench: settings.Bench) -> None:
    one = {"what is made of the votes": {"": {"ranked, raw": sweeps.RANKED}}}
    settings.run(tmp_path, bench, 2, epsilons=(4.0,), sweeps=one)
    store = tmp_path / "runs.csv"
    before = settings.stored(store)
    store.write_bytes(store.read_bytes()[:-12])
    assert sum(map(len, settings.stored(store).values())) == 3
    settings.run(tmp_path, bench, 2, epsilons=(4.0,), sweeps=one)
    after = settings.stored(store)
    assert after.keys() == before.keys()
    for case, runs in after.items():
        for seed, values in runs.items():
            assert values | {"seconds": 0.0} == before[case][seed] | {"seconds": 0.0}


def test_every_setting_has_a_name_of_its_own_that_needs_no_quotes() -> None:
    every = {setting for lines in sweeps.SWEEPS.values() for line in lines.values() for setting in line.values()}
    names = {setting.name for setting in every}
    assert len(names) == len(every) == len(settings.settings_of(sweeps.SWEEPS))
    assert not any("," in name or '"' in name for name in names)


def test_a_seed_has_all_of_its_settings_before_the_next_and_proofs_come_last() -> None:
    asked = list(settings.tasks(sweeps.SWEEPS, (1.0, 4.0), 8))
    assert len(asked) == len(set(asked))
    quick = [seed for setting, _, seed in asked if not setting.proved]
    proved = [(-epsilon, seed) for setting, epsilon, seed in asked if setting.proved]
    assert quick == sorted(quick)
    assert proved == sorted(proved)
    assert [seed for *_, seed in asked] == quick + [seed for _, seed in proved]
    assert max(quick) == 7
    assert {seed for _, seed in proved} == set(range(sweeps.PROVED))


def test_the_centres_are_the_rules_that_they_say() -> None:
    sigma = PLAN.sigma
    rules = {
        sweeps.DEFAULT: Gape(math.inf, math.inf, spare=2.0, signed=False, noise=sigma),
        sweeps.UNSIGNED: Gape(math.inf, math.inf, spare=2.0, signed=False),
        sweeps.SIGNED: Gape(math.inf, sigma),
        sweeps.HELD: Gape(math.inf, sigma, certify=False),
        sweeps.RANKED: Ranking(),
    }
    assert {setting: setting.select(PLAN) for setting in rules} == rules


@pytest.mark.parametrize("sweep", sweeps.SWEEPS)
def test_a_sweep_varies_one_thing_alone(sweep: str) -> None:
    lines = sweeps.SWEEPS[sweep]
    assert len({tuple(line) for line in lines.values()}) == 1  # one axis for all
    fields = {
        "radius R": "separation", "threshold, in sigma": "threshold", "candidates searched, in m": "rule",
        "variations per survivor": "scales", "scales of seven variations": "scales", "rounds T, same epsilon": "rounds",
    }  # fmt: skip
    for line in lines.values():
        if sweep in fields:
            usual = getattr(sweeps.DEFAULT, fields[sweep])
            assert len({replace(setting, **{fields[sweep]: usual}) for setting in line.values()}) == 1
            assert len(set(line.values())) == len(line)
    if sweep == "scales of seven variations":
        assert {len(setting.scales) for line in lines.values() for setting in line.values()} == {7}
    if sweep == "variations per survivor":
        assert [len(setting.scales) for setting in lines[sweeps.GAPE].values()] == [1, 3, 7, 15]


def test_the_papers_threshold_is_that_of_algorithm_4() -> None:
    rule = sweeps.SWEEPS["threshold, in sigma"][sweeps.ALGORITHM]["paper"].select(PLAN)
    assert isinstance(rule, Gape)
    assert rule.signed
    assert rule.threshold == pytest.approx(PLAN.sigma * math.sqrt(2 * math.log(6 * 10 * 1600 / 0.05)))


def test_more_rounds_at_the_same_epsilon_have_more_noise_in_each() -> None:
    plans = [
        setting.plan(1.0, 1e-5, 200, 0) for setting in sweeps.SWEEPS["rounds T, same epsilon"][sweeps.GAPE].values()
    ]
    assert {plan.epsilon for plan in plans} == {1.0}
    sigmas = np.array([plan.sigma for plan in plans])
    turns = np.array([plan.rounds for plan in plans])
    np.testing.assert_allclose(sigmas / np.sqrt(turns), sigmas[0], rtol=2e-3)


@pytest.mark.parametrize("signed", [False, True])
def test_a_radius_below_all_distances_makes_gape_ranking(signed: bool) -> None:  # noqa: FBT001  (a parameter of pytest)
    rng = np.random.default_rng(1)
    points = rng.standard_normal((60, 8)).astype(np.float32)
    votes = rng.permutation(60) - 20
    ranked = set(Ranking()(votes, points, 12, rng).indices.tolist())
    chosen = {
        radius: set(Gape(radius, 0.0, signed=signed)(votes, points, 12, rng).indices.tolist())
        for radius in (0.1, math.inf)
    }
    assert chosen[0.1] == ranked
    assert chosen[math.inf] != ranked


def published() -> dict[tuple[str, str, str, float], dict[str, str]]:
    with (FOLDER / "results" / "settings.csv").open(newline="") as file:
        return {(row["varied"], row["rule"], row["value"], float(row["epsilon"])): row for row in csv.DictReader(file)}


def test_it_keeps_its_results_and_says_how_to_repeat_them() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert "python experiments/settings_of_gape/run.py" in readme
    figures = sorted((FOLDER / "results").glob("*.png"))
    assert len(figures) == 3
    assert all(is_a_drawing(figure) and figure.name in readme for figure in figures)
    assert all(table.name in readme for table in (FOLDER / "results").glob("*.md"))


def test_the_published_runs_show_what_the_readme_says() -> None:
    rows = published()

    def recall(sweep: str, rule: str, value: str, epsilon: float) -> float:
        return float(rows[sweep, rule, value, epsilon]["recall"])

    votes, turns = "what is made of the votes", "rounds T, same epsilon"
    for epsilon in settings.EPSILONS:
        both = recall(votes, "", "estimated", epsilon)
        assert both > max(recall(votes, "", other, epsilon) for other in ("ranked, est.", "raw"))
        assert min(recall(votes, "", other, epsilon) for other in ("ranked, est.", "raw")) > recall(
            votes, "", "ranked, raw", epsilon
        )
        for value in ("1", "2", "2.5", "3"):
            assert recall("radius R", sweeps.GAPE, value, epsilon) < both
        assert recall("radius R", sweeps.GAPE, "4", epsilon) == recall("radius R", sweeps.GAPE, "none", epsilon)
        assert float(rows["threshold, in sigma", sweeps.K_MEDIAN, "paper", epsilon]["survivors"]) < 100
        assert recall(turns, sweeps.AUGPE, "40", epsilon) < recall(turns, sweeps.AUGPE, "1", epsilon) - 0.05


@pytest.mark.slow
def test_the_script_runs_on_texts_goes_on_and_draws_again(tmp_path: Path) -> None:
    lines = [json.dumps({"text": text}) for text in load_texts(QUESTIONS, "text").texts[:240]]
    (tmp_path / "private.jsonl").write_text("\n".join(lines[:120]))
    (tmp_path / "public.jsonl").write_text("\n".join(lines[120:]))
    out = tmp_path / "out"

    def script(*arguments: object) -> str:
        asked = [sys.executable, str(FOLDER / "run.py"), "--out", str(out), *map(str, arguments)]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    files = ("--private", tmp_path / "private.jsonl", "--corpus", tmp_path / "public.jsonl", "--text", "text")
    common = (*files, "--cache", tmp_path / "cache", "--samples", 8, "--epsilons", 4)
    script(*common, "--seeds", 2, "--only", "radius R")
    first = settings.stored(out / "runs.csv")
    script(*common, "--seeds", 2)
    every = settings.stored(out / "runs.csv")
    assert {name for name, _ in every} == set(settings.settings_of(sweeps.SWEEPS))
    assert all(every[case] == runs for case, runs in first.items())  # not made again, their seconds tell
    table = (out / "settings.md").read_text()
    (out / "settings.md").unlink()
    script("--draw", "--epsilons", 4)
    assert (out / "settings.md").read_text() == table
    survivors = every[sweeps.SIGNED.name, 4.0]
    assert all(0 < run["samples"] <= 8 and 0 <= run["recall"] <= 1 for run in survivors.values())
    with (out / "radius.csv").open(newline="") as file:
        assert all(float(row["the paper's R"]) > 3 for row in csv.DictReader(file))
