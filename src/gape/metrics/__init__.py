"""Metrics of how close synthetic data is to the private data.

All metrics read the private data without noise: NOTHING RETURNED HERE IS DIFFERENTIALLY PRIVATE. The results are for
people who may see the private data. Publishing one, or using it to choose what to publish, costs privacy that no ledger
counts. docs/metrics.md says what each metric is good for and how it can be fooled.

Points are embeddings, (n, d): numpy arrays, or torch tensors, which stay on their device. Real points are the first
argument. Distances are those between points as float32, summed in float64.
"""

from gape.metrics.balls import Balls, balls, classical_recall, coverage, density, precision, recall
from gape.metrics.intervals import Interval, bootstrap
from gape.metrics.memorisation import ClosestRecord, closest_record_test, longest_shared_runs
from gape.metrics.nearest import mean_nearest_distance, nearest_distances
from gape.metrics.text import (
    distinct,
    length_distance,
    near_duplicate_rate,
    ngram_distance,
    vocabulary_overlap,
)
from gape.metrics.transport import Sinkhorn, energy, frechet, sinkhorn1, wasserstein1
from gape.metrics.usefulness import Classification, classify

__all__ = [
    "Balls",
    "Classification",
    "ClosestRecord",
    "Interval",
    "Sinkhorn",
    "balls",
    "bootstrap",
    "classical_recall",
    "classify",
    "closest_record_test",
    "coverage",
    "density",
    "distinct",
    "energy",
    "frechet",
    "length_distance",
    "longest_shared_runs",
    "mean_nearest_distance",
    "near_duplicate_rate",
    "nearest_distances",
    "ngram_distance",
    "precision",
    "recall",
    "sinkhorn1",
    "vocabulary_overlap",
    "wasserstein1",
]
