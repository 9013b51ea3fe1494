"""The selection rules that the experiments on clusters compare, by name, each with the plan that it runs under."""

import math

from gape.core.protocols import Selector
from gape.evolution.plan import Plan
from gape.evolution.theory import paper_threshold
from gape.runs.advice import suitable_votes
from gape.selection.kmedoids import KMedoids
from gape.selection.local_search import CENTRES, QUALIFIED, SPARE, Gape
from gape.selection.ranking import Ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.selection.subsampling import Subsampling

THRESHOLD_ZERO = "GAPE, threshold 0"  # Algorithm 5 over all candidates with positive noisy votes
PAPER = "GAPE, tau"  # Algorithm 4 as printed
DEFAULT = "Default"  # of `gape run` where a generator writes: several votes, no R, no negative votes
UNSIGNED = "GAPE, unsigned"  # as with threshold 0, but negative votes count as zero
METHODS = ("Ranking", "Subsampling", "K-medoids", THRESHOLD_ZERO, UNSIGNED, PAPER, DEFAULT)
FAILURE = 0.05  # beta of the threshold tau


def rule(method: str, plan: Plan, records: int, separation: float) -> tuple[Plan, Selector]:
    """Return a rule and its plan; the default chooses for how many candidates a record votes, the others have one."""
    if method == DEFAULT:
        plan = plan.casting(suitable_votes(plan, records))
        return plan, Remembering(RegionalRanking(), plan.sigma)
    tau = paper_threshold(plan.sigma, plan.rounds, plan.candidates, FAILURE)
    rules: dict[str, Selector] = {
        "Ranking": Ranking(),
        "Subsampling": Subsampling(),
        "K-medoids": KMedoids(),
        THRESHOLD_ZERO: Gape.paper(separation, 0.0),
        UNSIGNED: Gape(separation, 0.0, signed=False),
        PAPER: Gape.paper(separation, tau),
    }
    return plan, rules[method]


def with_centres(samples: int, *, distinct: bool = False) -> Gape:
    """Return the default before regions, for `Remembering`: up to 50 centres survive, and votes decide on the rest."""
    spare, centres = max(SPARE, QUALIFIED / samples), min(1.0, CENTRES / samples)
    return Gape(math.inf, math.inf, spare=spare, signed=False, centres=centres, distinct=distinct)
