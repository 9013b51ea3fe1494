"""Auditing: attacks on the release step, and checks of the books of a run.

`audit_plan` measures how much a plan reveals, through the code that a run would use. `audit_run` recomputes what an
existing run should have recorded, and compares. Neither touches private data.
"""

from gape.audit.books import RunAudit, audit_run
from gape.audit.bounds import CONFIDENCE, Attack, Bounds, Scores, at_most, largest_sigma, lower_bounds, shown_mu
from gape.audit.canaries import ElectorateMaker, Entries, Game
from gape.audit.checks import Check
from gape.audit.mechanism import PlanAudit, audit_plan, usual_trials

__all__ = [
    "CONFIDENCE",
    "Attack",
    "Bounds",
    "Check",
    "ElectorateMaker",
    "Entries",
    "Game",
    "PlanAudit",
    "RunAudit",
    "Scores",
    "at_most",
    "audit_plan",
    "audit_run",
    "largest_sigma",
    "lower_bounds",
    "shown_mu",
    "usual_trials",
]
