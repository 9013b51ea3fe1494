from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

import parts
from gape.core.errors import BudgetError, InputError
from gape.core.protocols import Candidates, Selection, Selector
from gape.core.types import Floats, NoisyVotes, Points, Samples
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import reference_nearest

FREE = Plan(epsilon=float("inf"), delta=1e-5, rounds=4, samples=3, scales=(0.1, 0.01), copies=2, seed=2)


def states(plan: Plan, select: Selector, ledger: Ledger | None = None) -> list[State]:
    electorate = LocalElectorate(parts.private_points())
    ledger = ledger or Ledger(":memory:", Budget(plan.epsilon, plan.delta))
    account = Account(ledger, "run")
    noise = SeededNoise(1)
    return list(evolve(plan, parts.GENERATOR, IdentityEmbedder(), electorate, select, account, noise=noise))


def finished(history: list[State]) -> list[State]:
    """The states S(0), ..., S(T)."""
    return [state for state in history if state.proposal is None]


def test_it_is_algorithm_1() -> None:
    """Without noise, and with ranking, every round can be checked against the definition."""
    history = states(FREE, Ranking())
    private = parts.private_points()
    assert [state.round for state in finished(history)] == [0, 1, 2, 3, 4]
    for proposed, after in pairwise(history):
        if proposed.proposal is None or after.votes is None:
            continue
        candidates = proposed.proposal.samples
        votes = np.bincount(reference_nearest(private, candidates), minlength=len(candidates))
        assert np.array_equal(after.votes, votes)
        best = sorted(range(len(votes)), key=lambda i: (-votes[i], i))[:3]
        assert np.array_equal(after.synthetic, candidates[best])


def test_candidates_are_kept_before_their_votes_are_released() -> None:
    ledger = Ledger(":memory:", parts.BUDGET)
    electorate = LocalElectorate(parts.private_points())
    loop = evolve(parts.PLAN, parts.GENERATOR, IdentityEmbedder(), electorate, Ranking(), Account(ledger, "run"))
    charged = [len(ledger.releases()) for _ in loop]
    assert charged == [0, 0, 1, 1, 2]


def test_a_proposal_holds_the_samples_and_their_variations_at_every_scale() -> None:
    before, proposed = states(FREE, Ranking())[:2]
    assert proposed.proposal is not None
    samples, scales = proposed.proposal.samples, proposed.proposal.scales
    assert len(samples) == FREE.candidates == 15
    assert np.array_equal(samples[:3], before.synthetic)
    assert scales.tolist() == [0.0] * 3 + [0.1] * 6 + [0.01] * 6
    assert proposed.proposal.parents.tolist() == [0, 1, 2] * 5
    moved = np.linalg.norm(samples - before.synthetic[proposed.proposal.parents], axis=1)
    assert (moved[3:] > 0).all()
    assert moved[scales == 0.1].mean() > moved[scales == 0.01].mean()


def test_a_wide_start_is_voted_on_as_it_is() -> None:
    plan = replace(FREE, initial=15, vary_start=False)
    history = states(plan, Ranking())
    start, proposed = history[0], history[1].proposal
    assert proposed is not None
    assert np.array_equal(proposed.samples, start.synthetic)
    assert proposed.parents.tolist() == list(range(15))
    assert set(proposed.scales) == {0.0}
    assert [len(state.synthetic) for state in finished(history)] == [15, 3, 3, 3, 3]
    second = history[3].proposal
    assert second is not None
    assert len(second.samples) == 15


def test_a_selector_that_wants_to_see_the_candidates_does() -> None:
    seen: list[Candidates] = []

    class Looking(Ranking):
        def among(self, candidates: Candidates) -> Selector:
            seen.append(candidates)
            return Ranking()

    proposals = [state.proposal for state in states(FREE, Looking()) if state.proposal is not None]
    assert len(proposals) == FREE.rounds
    for candidates, proposal in zip(seen, proposals, strict=True):
        assert np.array_equal(candidates.samples, proposal.samples)
        assert np.array_equal(candidates.scales, proposal.scales)
        assert candidates.before is None  # ranking remembers nothing


def test_what_is_believed_of_a_survivor_reaches_its_variations() -> None:
    seen: list[Candidates] = []

    class Believing(Ranking):
        def among(self, candidates: Candidates) -> Selector:
            seen.append(candidates)

            def select(votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
                chosen = Ranking()(votes, points, size, rng)
                return replace(chosen, believed=np.arange(len(chosen.indices), dtype=np.float64) + 0.5)

            return select

    proposals = [state.proposal for state in states(FREE, Believing()) if state.proposal is not None]
    assert seen[0].before is None
    for candidates, proposal in zip(seen[1:], proposals[1:], strict=True):
        assert candidates.before is not None
        assert np.array_equal(candidates.before, proposal.parents + 0.5)


def test_samples_need_not_be_kept() -> None:
    plan = Plan(epsilon=float("inf"), delta=1e-5, rounds=1, samples=3, keep=False, initial=6)
    first, proposed, _ = states(plan, Ranking())
    assert proposed.proposal is not None
    assert len(first.synthetic) == len(proposed.proposal.samples) == 6
    assert not np.isin(proposed.proposal.samples, first.synthetic).any()


@pytest.mark.parametrize("select", [Ranking(), Subsampling(), parts.SELECT])
def test_a_seeded_run_repeats_and_another_seed_differs(select: Selector) -> None:
    first, again = (states(parts.PLAN, select)[-1].synthetic for _ in range(2))
    assert np.array_equal(first, again)
    other = Plan(epsilon=2.0, delta=1e-5, rounds=2, samples=3, scales=(0.1, 0.01), copies=2, seed=12)
    assert not np.array_equal(first, states(other, select)[-1].synthetic)


@pytest.mark.parametrize("stop_at", range(9))
def test_going_on_from_any_state_gives_the_same_end(stop_at: int) -> None:
    whole = states(FREE, Subsampling())
    assert len(whole) == 9
    state = whole[stop_at]
    account = Account(Ledger(":memory:", Budget(float("inf"), 1e-5)), "run")
    electorate = LocalElectorate(parts.private_points())
    rest = list(evolve(FREE, parts.GENERATOR, IdentityEmbedder(), electorate, Subsampling(), account, state=state))
    end = rest[-1] if rest else state
    assert np.array_equal(end.synthetic, whole[-1].synthetic)
    assert len(rest) == 8 - stop_at


def test_a_plan_beyond_the_budget_is_refused_before_anything_is_generated() -> None:
    ledger = Ledger(":memory:", Budget(1.0, 1e-5))
    with pytest.raises(BudgetError):
        states(parts.PLAN, Ranking(), ledger)
    assert ledger.releases() == ()


@dataclass(frozen=True)
class Forgetful:
    """Loses the last sample of every batch."""

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        return rng.normal(size=(count, 2)).astype(np.float32)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        return samples[:-1]


def test_a_generator_that_loses_samples_is_refused() -> None:
    account = Account(Ledger(":memory:", Budget(float("inf"), 1e-5)), "run")
    electorate = LocalElectorate(parts.private_points())
    with pytest.raises(InputError, match="11 variations of 12 samples"):
        list(evolve(FREE, Forgetful(), IdentityEmbedder(), electorate, Ranking(), account))
