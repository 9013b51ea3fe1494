"""What a run believes of its survivors is on disk, and a resumed run continues from it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import parts
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.run import run
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.voting.electorate import LocalElectorate

PLAN = Plan(epsilon=4.0, delta=1e-5, rounds=4, samples=25, scales=(0.1, 0.01), copies=2, seed=3)


def remembering_run(place: Path, progress: Callable[[State], None] | None = None) -> State:
    ledger = Ledger(place / "ledger", Budget(PLAN.epsilon, PLAN.delta))
    state, _ = run(
        place / "run",
        PLAN,
        parts.GENERATOR,
        IdentityEmbedder(),
        LocalElectorate(parts.private_points()),
        Remembering(RegionalRanking(), PLAN.sigma),
        ledger,
        noise=SeededNoise(5),
        progress=progress,
    )
    ledger.close()
    return state


def believed(place: Path, turn: int) -> list[float]:
    file = place / "run" / "internal" / "rounds" / f"{turn:03d}" / "synthetic.parquet"
    votes: list[float] = pq.read_table(file)["believed_votes"].to_pylist()
    return votes


@pytest.mark.parametrize("turn", [1, 2, 3])
@pytest.mark.parametrize("voted", [False, True])
def test_a_run_stopped_anywhere_ends_with_the_same_samples_and_beliefs(
    tmp_path: Path, turn: int, *, voted: bool
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    expected = remembering_run(whole)
    shutil.copytree(whole, stopped)
    for later in range(turn + 1, PLAN.rounds + 1):
        folder = stopped / "run" / "internal" / "rounds" / f"{later:03d}"
        if voted and later == turn + 1:  # the candidates stay, as after a kill between votes and selection
            for name in ("votes.parquet", "selection.json", "synthetic.parquet"):
                (folder / name).unlink()
        else:
            shutil.rmtree(folder)
    shutil.rmtree(stopped / "run" / "release")
    assert np.array_equal(remembering_run(stopped).synthetic, expected.synthetic)
    for later in range(1, PLAN.rounds + 1):
        assert believed(stopped, later) == believed(whole, later)


def test_the_beliefs_matter(tmp_path: Path) -> None:
    remembering_run(tmp_path)
    assert len(believed(tmp_path, 2)) == PLAN.samples
    assert len(set(believed(tmp_path, 2))) > 1


def test_the_start_has_none(tmp_path: Path) -> None:
    remembering_run(tmp_path)
    start = tmp_path / "run" / "internal" / "rounds" / "000" / "synthetic.parquet"
    assert "believed_votes" not in pq.read_table(start).column_names
