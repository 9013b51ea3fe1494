"""Diagnostics of a generator: how its variations spread, and whether they move towards the data."""

from gape.evaluation.diagnostics.measures import (
    IntrinsicDimension,
    PointEstimate,
    Reachability,
    doubling_dimension,
    intrinsic_dimension,
    reachability,
)
from gape.evaluation.diagnostics.study import Diagnosis, ScaleDiagnosis, diagnose

__all__ = [
    "Diagnosis",
    "IntrinsicDimension",
    "PointEstimate",
    "Reachability",
    "ScaleDiagnosis",
    "diagnose",
    "doubling_dimension",
    "intrinsic_dimension",
    "reachability",
]
