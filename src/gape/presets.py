"""Algorithms 3 and 4 with the paper's parameters, ready for `evolve` or `run`.

Both take the constants of the theorems as public arguments: nothing here looks at data. `gape.theory` says what follows
from them, and what the theorems promise.
"""

from dataclasses import dataclass

from gape.errors import InputError
from gape.plan import Plan
from gape.protocols import Selector
from gape.selection.bounded_lipschitz import BoundedLipschitz
from gape.selection.local_search import Gape
from gape.theory import GapePlan, WorstCasePlan, plan_gape, plan_worst_case


@dataclass(frozen=True)
class Preset:
    """What `evolve` and `run` need to be one of the paper's algorithms."""

    plan: Plan
    selector: Selector
    theory: WorstCasePlan | GapePlan


def beyond_worst_case(
    records: int,
    epsilon: float,
    delta: float,
    *,
    doubling_dimension: float,
    effective_rank: float,
    anticoncentration: float,
    rounds: int | None = None,
    without_guarantee: bool = False,
    seed: int = 0,
) -> Preset:
    """Beyond Worst-Case Private Evolution (Algorithm 3), as `plan_worst_case` sets it.

    One variation at each scale beside the sample itself (l. 4-5), and m draws from the bounded-Lipschitz projection of
    the noisy votes. A setting that the theorem does not cover is refused, unless it is to go on `without_guarantee`.
    """
    theory = plan_worst_case(
        records,
        epsilon,
        delta,
        doubling_dimension=doubling_dimension,
        effective_rank=effective_rank,
        anticoncentration=anticoncentration,
        rounds=rounds,
    )
    _refuse(theory.violations, without_guarantee)
    plan = Plan(
        epsilon=epsilon,
        delta=delta,
        rounds=theory.rounds,
        samples=theory.samples,
        scales=theory.scales,
        sigma=theory.votes_sigma,
        seed=seed,
    )
    return Preset(plan, BoundedLipschitz(records), theory)


def gape_with_guarantee(
    records: int,
    epsilon: float,
    delta: float,
    *,
    samples: int,
    separation: float,
    diameter: float,
    effective_rank: float,
    anticoncentration: float,
    failure_probability: float,
    rounds: int | None = None,
    smallest_cluster: int | None = None,
    without_guarantee: bool = False,
    seed: int = 0,
) -> Preset:
    """GAPE (Algorithm 4), as `plan_gape` sets it.

    Each sample is kept and has its variations at each scale (l. 3-4), and what has more than tau noisy votes can be
    selected (l. 6). A setting that the theorem does not cover is refused, unless it is to go on `without_guarantee`.
    """
    theory = plan_gape(
        records,
        epsilon,
        delta,
        samples=samples,
        separation=separation,
        diameter=diameter,
        effective_rank=effective_rank,
        anticoncentration=anticoncentration,
        failure_probability=failure_probability,
        rounds=rounds,
        smallest_cluster=smallest_cluster,
    )
    _refuse(theory.violations, without_guarantee)
    plan = Plan(
        epsilon=epsilon,
        delta=delta,
        rounds=theory.rounds,
        samples=samples,
        scales=theory.scales,
        copies=theory.copies,
        sigma=theory.sigma,
        seed=seed,
    )
    return Preset(plan, Gape(separation, theory.threshold), theory)


def _refuse(violations: tuple[str, ...], without_guarantee: bool) -> None:  # noqa: FBT001  (a setting passed on)
    if violations and not without_guarantee:
        raise InputError(
            f"the theorem does not cover this setting: {'; '.join(violations)}; change it, or pass "
            "without_guarantee=True to go on without the theorem"
        )
