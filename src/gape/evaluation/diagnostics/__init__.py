"""Diagnostics of a generator: how its variations spread, and whether they move towards the data."""

from gape.evaluation.diagnostics.measures import (
    IntrinsicDimension,
    Moments,
    PointEstimate,
    Reachability,
    WarmStart,
    doubling_dimension,
    intrinsic_dimension,
    moments,
    reachability,
    warm_start,
)
from gape.evaluation.diagnostics.study import Diagnosis, ScaleDiagnosis, diagnose

__all__ = [
    "Diagnosis",
    "IntrinsicDimension",
    "Moments",
    "PointEstimate",
    "Reachability",
    "ScaleDiagnosis",
    "WarmStart",
    "diagnose",
    "doubling_dimension",
    "intrinsic_dimension",
    "moments",
    "reachability",
    "warm_start",
]
