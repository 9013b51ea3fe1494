"""The paper's theory as functions: its parameters, its bounds and its rates, computed before anything is run.

`plans` has one planner per theorem, `bounds` the lemmas and the terms that the theorems are made of, and `rates` the
number of samples and the cluster size that the theorem of cluster discovery comes down to. Nothing here looks at data.
"""

from gape.evolution.theory.bounds import (
    Contraction,
    ErrorBound,
    contraction,
    contraction_term,
    error_bound,
    expected_contraction,
    finest_level,
    gaussian_complexity,
    noise_term,
    sampling_term,
)
from gape.evolution.theory.plans import (
    GapePlan,
    Quantity,
    WorstCasePlan,
    paper_threshold,
    plan_gape,
    plan_worst_case,
)
from gape.evolution.theory.rates import ClusterLimits, cluster_limits

__all__ = [
    "ClusterLimits",
    "Contraction",
    "ErrorBound",
    "GapePlan",
    "Quantity",
    "WorstCasePlan",
    "cluster_limits",
    "contraction",
    "contraction_term",
    "error_bound",
    "expected_contraction",
    "finest_level",
    "gaussian_complexity",
    "noise_term",
    "paper_threshold",
    "plan_gape",
    "plan_worst_case",
    "sampling_term",
]
