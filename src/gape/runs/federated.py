"""A run whose votes come from devices."""

from collections.abc import Callable
from pathlib import Path

from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder, Generator, Selector
from gape.distributed.federated.electorate import FederatedElectorate
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.modalities import Modality
from gape.privacy.ledger import Ledger
from gape.privacy.statement import PrivacyStatement
from gape.runs.run import run


def run_federated(
    folder: str | Path,
    plan: Plan,
    generator: Generator,
    embedder: Embedder,
    electorate: FederatedElectorate,
    select: Selector,
    ledger: Ledger,
    *,
    progress: Callable[[State], None] | None = None,
    modality: Modality | None = None,
) -> tuple[State, PrivacyStatement]:
    """Run Private Evolution as `gape.run` does, with votes that arrive with their noise.

    The published data is (epsilon, delta)-DP as stated, for everything on one device, as long as no more devices
    collude than the terms allow. Against the server the guarantee is `terms.epsilon`, which also counts spare ballots.
    If too few devices can be reached, the run stops, and the same call resumes it.
    """
    if plan.answers:
        raise InputError(f"devices vote and answer no survey, got answers {plan.answers}; make the plan without them")
    terms = electorate.terms
    agreed = (terms.sigma, terms.delta, terms.neighbours)
    if (plan.sigma, plan.delta, plan.neighbours) != agreed or plan.rounds > terms.ballots:
        raise PrivacyError(
            f"the plan has {plan.rounds} rounds, sigma {plan.sigma:g}, delta {plan.delta:g} and {plan.neighbours!r}, "
            f"the terms {terms.ballots}, {terms.sigma:g}, {terms.delta:g} and {terms.neighbours!r}; make the terms "
            "with Terms.for_plan"
        )
    if ledger.budget.delta < terms.delta:  # the shares cost nothing only at a delta of this size
        raise PrivacyError(
            f"the ledger counts at delta {ledger.budget.delta:g} and the terms are for {terms.delta:g}; make the plan "
            "and the terms with the delta of the ledger"
        )
    if not electorate.secure:
        raise PrivacyError("terms with exact_sums_for_tests_only release exact counts; use terms with noise")
    return run(folder, plan, generator, embedder, electorate, select, ledger, progress=progress, modality=modality)
