from pathlib import Path

import numpy as np
import pytest

from gape.core.errors import RunError
from gape.core.types import Floats, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.evolution.writers import EVEN, Judged, assigned, shares_of
from gape.generators.several import SeveralWriters
from gape.generators.vectors import GaussianGenerator, StartFromBox
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.run import run
from gape.selection.local_search import Gape
from gape.voting.electorate import LocalElectorate

PLAN = Plan(epsilon=2.0, delta=1e-5, rounds=3, samples=10, scales=(0.1, 0.1), copies=2, seed=11)
SELECT = Gape.paper(separation=3.0, threshold=0.0)


class Away:
    """Writes far from all records."""

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        return (9 + rng.random((count, 2))).astype(np.float32)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        return self.random(len(samples), rng)

    def __repr__(self) -> str:
        return "Away()"


NEAR = GaussianGenerator.isotropic(StartFromBox((-2.0, -2.0), (2.0, 2.0)), 2)
BOTH = SeveralWriters((Away(), NEAR))


def electorate() -> LocalElectorate:
    return LocalElectorate(np.random.default_rng(3).standard_normal((600, 2)).astype(np.float32))


def states() -> list[State]:
    ledger = Ledger(":memory:", Budget(PLAN.epsilon, PLAN.delta))
    account = Account(ledger, "run")
    return list(evolve(PLAN, BOTH, IdentityEmbedder(), electorate(), SELECT, account, noise=SeededNoise(5)))


def test_the_writer_whose_samples_get_votes_writes_more() -> None:
    start, *later = states()
    assert start.authors is not None
    assert np.bincount(start.authors).tolist() == [len(start.synthetic) // 2] * 2
    proposals = [state.proposal for state in later if state.proposal is not None]
    near = [float((p.authors[p.scales > 0] == 1).mean()) for p in proposals if p.authors is not None]
    assert len(near) == PLAN.rounds
    assert near[0] == 0.5  # nobody has voted yet
    assert min(near[1:]) > 0.8
    assert max(near) <= 1 - EVEN / 2  # the other one keeps a part


def test_each_candidate_and_each_survivor_knows_its_writer() -> None:
    start, *later = states()
    np.testing.assert_array_equal(start.authors == 0, start.synthetic.min(axis=1) > 6)
    for state in later:
        if state.proposal is not None:
            by_away = state.proposal.samples[state.proposal.authors == 0]
            assert len(by_away) > 0
            assert (by_away > 6).all()
    before, after = later[-2], later[-1]
    assert before.proposal is not None
    assert before.proposal.authors is not None
    assert after.selection is not None
    np.testing.assert_array_equal(after.authors, before.proposal.authors[after.selection.indices])


class TestShares:
    def judged(self, votes: list[int], scales: list[float]) -> Judged:
        return Judged(np.array([0, 0, 1, 1, 1, 2]), np.array(scales), np.array(votes))

    def test_they_follow_the_mean_votes_of_new_candidates(self) -> None:
        judged = self.judged([100, 2, 6, 6, 6, -7], [0.0, 1, 1, 1, 1, 1])
        np.testing.assert_allclose(shares_of(judged, 3), EVEN / 3 + (1 - EVEN) * np.array([0.25, 0.75, 0.0]))

    @pytest.mark.parametrize("votes", [[0] * 6, [-1] * 6])
    def test_without_votes_they_are_equal(self, votes: list[int]) -> None:
        np.testing.assert_allclose(shares_of(self.judged(votes, [1.0] * 6), 3), 1 / 3)

    def test_a_start_that_was_not_varied_counts(self) -> None:
        assert shares_of(self.judged([3, 3, 1, 1, 1, 1], [0.0] * 6), 3).argmax() == 0

    def test_they_are_rounded_by_largest_remainders(self) -> None:
        authors = assigned(np.array([0.55, 0.25, 0.2]), 10, np.random.default_rng(0))
        assert np.bincount(authors).tolist() == [6, 2, 2]
        assert len(assigned(np.array([0.5, 0.5]), 0, np.random.default_rng(0))) == 0


def test_a_run_that_is_stopped_after_any_state_ends_the_same(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def whole(folder: Path, stop: int | None) -> Samples:
        ledger = Ledger(tmp_path / f"{folder.name}.sqlite", Budget(PLAN.epsilon, PLAN.delta), keep=True)
        seen = 0

        def progress(_: State) -> None:
            nonlocal seen
            seen += 1
            if seen == stop:
                raise StoppedError

        try:
            parts = (BOTH, IdentityEmbedder(), electorate(), SELECT, ledger)
            return run(folder, PLAN, *parts, noise=SeededNoise(5), progress=progress)[0].synthetic
        finally:
            ledger.close()

    expected = whole(tmp_path / "whole", None)
    for stop in range(1, 2 * PLAN.rounds + 1):
        folder = tmp_path / str(stop)
        with pytest.raises(StoppedError):
            whole(folder, stop)
        np.testing.assert_array_equal(whole(folder, None), expected)
    with pytest.raises(RunError, match="was started with generator"):
        run(
            tmp_path / "1",
            PLAN,
            NEAR,
            IdentityEmbedder(),
            electorate(),
            SELECT,
            Ledger(tmp_path / "1.sqlite", keep=True),
        )
