"""Private Evolution (Algorithm 1) and nothing else."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gape._support.fingerprint import samples_digest
from gape.core.errors import InputError
from gape.core.protocols import Electorate, Embedder, Generator, SampleSelector, Selector
from gape.core.types import Samples
from gape.evolution.plan import Plan
from gape.evolution.state import Proposal, State
from gape.privacy.ledger import Account
from gape.privacy.noise import Noise
from gape.privacy.release import release_votes


def evolve(
    plan: Plan,
    generator: Generator,
    embedder: Embedder,
    electorate: Electorate,
    select: Selector,
    account: Account,
    *,
    state: State | None = None,
    noise: Noise | None = None,
) -> Iterator[State]:
    """Run Private Evolution from `state`, or from the start, yielding every state worth keeping (Algorithm 1).

    All states together are (epsilon, delta)-DP as `plan` says: the private data is read by `release_votes` alone,
    once a round, and the rest is post-processing. A caller that keeps each state before asking for the next
    can go on from the last one after any interruption, with the same result and no further cost.
    """
    account.require(plan.releases)
    account.ledger.bind(electorate.fingerprint, electorate.unit)
    if state is None:
        state = State(0, synthetic=generator.random(plan.initial, _rng(plan, 0, "random")))  # S(0)
        yield state
    while state.round < plan.rounds:
        t = state.round + 1
        proposal = state.proposal
        if proposal is None:
            if state.round or plan.vary_start:
                proposal = _vary(plan, generator, state.synthetic, _rng(plan, t, "vary"))  # V(t)
            else:
                proposal = _as_it_is(state.synthetic)
            yield replace(state, proposal=proposal)  # kept before votes are paid for: no others could use them
        candidates = proposal.samples
        points = embedder.embed(candidates)
        known_as = samples_digest(candidates)
        votes = release_votes(electorate, points, t, plan.release, account, noise, known_as)  # the only private step
        rule = select.among(candidates) if isinstance(select, SampleSelector) else select
        chosen = rule(votes, points, plan.samples, _rng(plan, t, "select"))
        state = State(t, synthetic=candidates[chosen.indices], votes=votes, selection=chosen)  # S(t)
        yield state


def _vary(plan: Plan, generator: Generator, samples: Samples, rng: np.random.Generator) -> Proposal:
    """Write VariationAPI(S): for each scale its copies, after the samples themselves if they are kept."""
    parents = np.arange(len(samples))
    parts, copied = ([samples], [0.0]) if plan.keep else ([], [])
    varied = np.repeat(plan.scales, plan.copies)
    asked = samples[np.tile(parents, len(varied))]
    variations = generator.vary(asked, np.repeat(varied, len(samples)), rng)
    if len(variations) != len(asked):
        raise InputError(
            f"the generator returned {len(variations)} variations of {len(asked)} samples; return one each"
        )
    return Proposal(
        samples=np.concatenate([*parts, variations]),
        parents=np.tile(parents, len(copied) + len(varied)),
        scales=np.repeat([*copied, *varied], len(samples)),
    )


def _as_it_is(samples: Samples) -> Proposal:
    return Proposal(samples, parents=np.arange(len(samples)), scales=np.zeros(len(samples)))


def _rng(plan: Plan, turn: int, step: str) -> np.random.Generator:
    """A generator that depends on the seed, the round and the step alone, so that a resumed run repeats it."""
    return np.random.default_rng([plan.seed, turn, *step.encode()])
