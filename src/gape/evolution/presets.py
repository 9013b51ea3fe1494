"""Algorithms 3 and 4 with the paper's parameters, ready for `evolve` or `run`.

`theory` computes the parameters and guarantees from the constants of the theorems. A preset turns one of its plans
into a `Plan` and a selector. Nothing here looks at data.
"""

from dataclasses import dataclass

from gape.core.errors import InputError
from gape.core.protocols import Selector
from gape.evolution.plan import Plan
from gape.evolution.theory import GapePlan, WorstCasePlan
from gape.selection.bounded_lipschitz import BoundedLipschitz
from gape.selection.local_search import Gape


@dataclass(frozen=True)
class Preset:
    """The plan and the selector with which `evolve` and `run` are one of the paper's algorithms."""

    plan: Plan
    selector: Selector


def beyond_worst_case(theory: WorstCasePlan, *, without_guarantee: bool = False, seed: int = 0) -> Preset:
    """Beyond Worst-Case Private Evolution (Algorithm 3), as `plan_worst_case` sets it.

    One variation at each scale beside the sample itself (l. 4-5), and m draws from the bounded-Lipschitz projection of
    the noisy votes. A setting that the theorem does not cover is refused, unless `without_guarantee` is set.
    """
    _refuse(theory.violations, without_guarantee=without_guarantee)
    plan = Plan(
        epsilon=theory.epsilon,
        delta=theory.delta,
        rounds=theory.rounds,
        samples=theory.samples,
        scales=theory.scales,
        sigma=theory.votes_sigma,
        seed=seed,
    )
    return Preset(plan, BoundedLipschitz(theory.records))


def gape_with_guarantee(theory: GapePlan, *, without_guarantee: bool = False, seed: int = 0) -> Preset:
    """GAPE (Algorithm 4), as `plan_gape` sets it.

    Each sample is kept and has variations at each scale (l. 3-4), and only candidates with more than tau noisy votes
    can be selected (l. 6). A setting that the theorem does not cover is refused, unless `without_guarantee` is set.
    """
    _refuse(theory.violations, without_guarantee=without_guarantee)
    plan = Plan(
        epsilon=theory.epsilon,
        delta=theory.delta,
        rounds=theory.rounds,
        samples=theory.samples,
        scales=theory.scales,
        copies=theory.copies,
        sigma=theory.sigma,
        seed=seed,
    )
    return Preset(plan, Gape.paper(theory.separation, theory.threshold))


def _refuse(violations: tuple[str, ...], *, without_guarantee: bool) -> None:
    if violations and not without_guarantee:
        raise InputError(
            f"the theorem does not cover this setting: {'; '.join(violations)}; change it, or pass "
            "without_guarantee=True to run without the theorem's guarantee"
        )
