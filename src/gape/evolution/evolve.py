"""Private Evolution (Algorithm 1) and nothing else."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gape._support.fingerprint import samples_digest
from gape.core.errors import InputError
from gape.core.protocols import (
    AnnealedGenerator,
    Candidates,
    Electorate,
    Embedder,
    Generator,
    InformedSelector,
    Selector,
    SurveyGenerator,
)
from gape.core.types import NoisyVotes
from gape.evolution.plan import Plan
from gape.evolution.state import Proposal, State
from gape.evolution.writers import Judged, start
from gape.evolution.writers import varied as write_variations
from gape.privacy.ledger import Account
from gape.privacy.noise import Noise
from gape.privacy.release import release_answers, release_votes


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
    """Run Private Evolution from `state`, or from the start, and yield each state to be saved (Algorithm 1).

    All states together are (epsilon, delta)-DP, with the values of `plan`: only `release_votes` reads the private
    data, once per round, and the rest is post-processing. A caller that saves each state before asking for the next
    can resume from the last one after any interruption, with the same result and at no further cost.
    """
    account.require(plan.releases)
    account.ledger.bind(electorate.fingerprint, electorate.unit)
    answers: tuple[NoisyVotes, ...] = ()
    if plan.answers and (state is None or state.round < plan.rounds):
        generator, answers = _asked(plan, generator, electorate, account, noise)
    if state is None:
        samples, authors = start(generator, plan.initial, _rng(plan, 0, "random"))  # S(0)
        state = State(0, samples, answers=answers, authors=authors)
        yield state
    while state.round < plan.rounds:
        t = state.round + 1
        proposal = state.proposal
        if proposal is None:
            if state.round or plan.vary_start:
                writer = (
                    generator.annealed_at(state.round / plan.rounds)
                    if isinstance(generator, AnnealedGenerator)
                    else generator
                )
                proposal = _vary(plan, writer, state, _rng(plan, t, "vary"))  # V(t)
            else:
                proposal = _unvaried(state)
            yield replace(state, proposal=proposal)  # saved before votes are paid for, which fit no other candidates
        candidates = proposal.samples
        points = embedder.embed(candidates)
        known_as = samples_digest(candidates)
        votes = release_votes(  # the only private step
            electorate, points, t, plan.release, account, noise, known_as, before=plan.survey
        )
        rule = select.among(_known(proposal, state)) if isinstance(select, InformedSelector) else select
        chosen = rule(votes, points, plan.samples, _rng(plan, t, "select"))
        state = State(t, candidates[chosen.indices], votes=votes, selection=chosen)  # S(t)
        state = replace(state, believed=chosen.believed, label_votes=chosen.label_votes)
        if proposal.authors is not None:
            judged = Judged(proposal.authors, proposal.scales, votes)
            state = replace(state, authors=proposal.authors[chosen.indices], judged=judged)
        yield state


def _asked(
    plan: Plan, generator: Generator, electorate: Electorate, account: Account, noise: Noise | None
) -> tuple[Generator, tuple[NoisyVotes, ...]]:
    """Ask the survey of a generator, and return the generator that knows the noisy answers. Paid answers are reused."""
    if not isinstance(generator, SurveyGenerator):
        raise InputError("the plan has a survey, and the generator asks none; leave answers out of the plan")
    answers: tuple[NoisyVotes, ...] = ()
    for number, most in enumerate(plan.answers, start=1):
        questions = generator.questions(answers, plan.sigma, most)
        turn = number - len(plan.answers)  # ..., -1, 0: before round 1
        noisy = release_answers(electorate, questions, turn, plan.survey[:number], account, noise)
        answers = (*answers, noisy)
    return generator.informed(answers, plan.sigma), answers


def _known(proposal: Proposal, state: State) -> Candidates:
    """Return what is known of the candidates V(t) before their votes: all of it public."""
    before = None if state.believed is None else state.believed[proposal.parents]
    label_votes = None if state.label_votes is None else state.label_votes[proposal.parents]
    return Candidates(proposal.samples, proposal.scales, before, label_votes)


def _vary(plan: Plan, generator: Generator, state: State, rng: np.random.Generator) -> Proposal:
    """Return the candidates VariationAPI(S): `copies` variations at each scale, after the samples if they are kept."""
    samples = state.synthetic
    parents = np.arange(len(samples))
    scales = np.repeat(plan.scales, plan.copies)
    varied = samples[np.tile(parents, len(scales))]
    candidates, authors = write_variations(generator, varied, np.repeat(scales, len(samples)), state.judged, rng)
    if len(candidates) != len(varied):
        raise InputError(
            f"the generator returned {len(candidates)} variations of {len(varied)} samples; return one for each"
        )
    if plan.keep:
        candidates, scales = np.concatenate([samples, candidates]), np.concatenate([[0.0], scales])
        authors = None if authors is None or state.authors is None else np.concatenate([state.authors, authors])
    return Proposal(
        samples=candidates,
        parents=np.tile(parents, len(scales)),
        scales=np.repeat(scales, len(samples)),
        authors=authors,
    )


def _unvaried(state: State) -> Proposal:
    """Return the samples themselves as candidates."""
    count = len(state.synthetic)
    return Proposal(state.synthetic, np.arange(count), scales=np.zeros(count), authors=state.authors)


def _rng(plan: Plan, turn: int, step: str) -> np.random.Generator:
    """Return a generator that depends only on the seed, the round and the step, so that a resumed run repeats it."""
    return np.random.default_rng([plan.seed, turn, *step.encode()])
