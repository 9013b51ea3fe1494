"""A large run still makes a page that opens."""

from pathlib import Path

import numpy as np
import pytest

from gape.core.protocols import Selection
from gape.core.types import Samples
from gape.evolution.plan import Plan
from gape.evolution.state import Proposal, State
from gape.report import write_report
from gape.runs.folder.rounds import RunFolder
from report.reading import data_of, words_of

SAMPLES, ROUNDS, VARIATIONS, WORDS = 2000, 10, 7, 90


def large_run(path: Path, words: int = WORDS) -> Path:
    """A run of 2,000 samples, 10 rounds, 8 candidates of each, every variation a text of its own; made-up votes."""
    rng = np.random.default_rng(0)
    vocabulary = np.array(["".join(rng.choice(list("abcdefghijklmnoprstuw"), 6)) for _ in range(3000)], dtype=object)

    def texts(count: int) -> Samples:
        made = np.empty(count, dtype=object)
        made[:] = [" ".join(vocabulary[row]) for row in rng.integers(0, len(vocabulary), (count, words))]
        return made

    plan = Plan(epsilon=1.0, delta=1e-6, rounds=ROUNDS, samples=SAMPLES, scales=(0.5,), copies=VARIATIONS)
    parts = {"generator": "Written()", "embedder": "MiniLM()", "selector": "Ranking()"}
    folder = RunFolder.find(path, plan, parts, "ledger")
    folder.prepare()
    state = State(0, texts(SAMPLES))
    folder.save(state)
    parents = np.tile(np.arange(SAMPLES), 1 + VARIATIONS)
    scales = np.repeat([0.0] + [0.5] * VARIATIONS, SAMPLES)
    for turn in range(1, ROUNDS + 1):
        candidates = np.concatenate([state.synthetic, texts(VARIATIONS * SAMPLES)])
        folder.save(State(turn - 1, state.synthetic, Proposal(candidates, parents, scales)))
        votes = rng.poisson(4, len(candidates)) + np.rint(20 * rng.standard_normal(len(candidates))).astype(np.int64)
        chosen = np.argsort(-votes, kind="stable")[:SAMPLES]
        state = State(turn, candidates[chosen], votes=votes, selection=Selection(chosen))
        folder.save(state)
    return path


def test_two_thousand_samples_of_ten_rounds_stay_under_ten_megabytes(tmp_path: Path) -> None:
    path = write_report(large_run(tmp_path / "run"), tmp_path / "report.html", with_map=False)
    assert path.stat().st_size < 10_000_000
    data = data_of(path)
    assert len(data["rounds"][-1]["text"]) == SAMPLES
    assert min(len(data["texts"][place].split()) for place in data["rounds"][-1]["text"]) == WORDS  # whole


@pytest.mark.slow
def test_long_texts_are_shortened_and_it_is_said(tmp_path: Path) -> None:
    path = write_report(large_run(tmp_path / "run", words=350), tmp_path / "report.html", with_map=False)
    assert path.stat().st_size < 10_000_000
    assert "long texts, ancestors included, are shortened here" in words_of(path)
    assert all(text.endswith(" …") for text in data_of(path)["texts"][:SAMPLES])


@pytest.mark.slow
def test_the_map_of_a_large_run_draws_some_of_it(tmp_path: Path) -> None:
    path = write_report(large_run(tmp_path / "run", words=12), tmp_path / "report.html")
    assert path.stat().st_size < 10_000_000
    drawn = [len(each["drawn"]) for each in data_of(path)["rounds"]]
    assert drawn == [300] * (ROUNDS + 1)
    assert "At most 300 texts of a round are drawn" in words_of(path)
    assert "a random sample of 2,000 candidates" in words_of(path) or "Noise hides" in words_of(path)
