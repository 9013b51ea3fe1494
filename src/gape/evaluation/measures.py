"""The measures of an evaluation, group by group, each explained in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gape.core.types import Points, Samples
from gape.metrics.intervals import bootstrap
from gape.metrics.measure import Measure, Scoring, nth_nearest
from gape.metrics.memorisation import closest_record_test
from gape.metrics.nearest import nearest_distances
from gape.metrics.neighbours import members, neighbour_squares
from gape.metrics.text import total_variation
from gape.metrics.transport import energy, frechet, sinkhorn1, wasserstein1
from gape.metrics.usefulness import classify
from gape.modalities import Modality

_SIGNIFICANT = 0.05  # a p-value above this counts as chance


def with_real_values(measures: Sequence[Measure], real: Sequence[Measure]) -> tuple[Measure, ...]:
    """Add the values of real records to the measures of synthetic ones."""
    values = {measure.name: measure.value for measure in real}
    return tuple(replace(measure, real=values.get(measure.name, measure.real)) for measure in measures)


def nearness(nouns: str, real: Points, points: Points, scoring: Scoring) -> tuple[Measure, ...]:
    """Measure how many records at `real`, (n, d), the points reach, how closely, and how far the sets are apart."""
    rng = np.random.default_rng([scoring.seed, *b"points"])
    k = scoring.k
    inside, around = members(real, neighbour_squares(real, k)[:, -1], points)
    gaps = nearest_distances(real, points)
    some_real, some_points = (side[rng.permutation(len(side))[: scoring.sample]] for side in (real, points))
    divergence = sinkhorn1(some_real, some_points, scoring.blur)
    recall, precision, gap = (bootstrap(scores, rng) for scores in (inside > 0, around > 0, gaps))
    sizes = f"{len(some_real):,} records against {len(some_points):,} {nouns}"
    return (
        Measure.within(
            "recall",
            recall,
            f"{recall.value:.0%} of the records have one of the {nouns} as near as their {nth_nearest(k)} record",
        ),
        Measure.within("precision", precision, f"{precision.value:.0%} of the {nouns} are that near to some record"),
        Measure(
            "density",
            float(around.sum() / (k * len(points))),
            f"mean number of records around one of the {nouns}, divided by {k}; about 1 for real ones",
        ),
        Measure.within(
            "mean nearest distance",
            gap,
            f"from a record to the nearest of the {nouns}; for unit vectors, 1.4 means unrelated",
        ),
        Measure("coverage error", float(gaps.max()), "the same distance for the worst record"),
        Measure(
            "W1",
            wasserstein1(some_real, some_points),
            f"mean distance the {nouns} must move to become the records; {sizes}",
        ),
        Measure(
            "Sinkhorn W1",
            divergence.value,
            f"the same with a blur of {scoring.blur:g}, corrected for chance"
            + ("" if divergence.converged else "; NOT converged"),
        ),
        *_energy(real, points),
        Measure("Fréchet distance", frechet(real, points), "compares only means and covariances"),
    )


def _energy(real: Points, points: Points) -> tuple[Measure, ...]:
    if min(len(real), len(points)) < 2:
        return ()
    return (
        Measure("energy distance", energy(real, points), "0 on average for real ones, however few; less is better"),
    )


def memorisation(
    kind: Modality,
    private: tuple[Samples, Points],
    held_out: tuple[Samples, Points] | None,
    synthetic: tuple[Samples, Points],
    scoring: Scoring,
) -> tuple[Measure, ...]:
    """Look for copies of private records in the synthetic data; held-out records show what is due to chance."""
    rng = np.random.default_rng([scoring.seed, *b"memory"])
    content, points = synthetic
    closest = float(np.median(nearest_distances(points, private[1])))
    copied = len(set(kind.keys(private[0])) & set(kind.keys(content)))
    measures = [
        Measure(f"{kind.nouns} that are records", float(copied), kind.copied),
        Measure(
            "median distance to closest record", closest, f"from a synthetic {kind.noun} to the nearest private one"
        ),
        *kind.shared(private[0], content),
    ]
    if held_out is None:
        return tuple(measures)
    test = closest_record_test(private[1], held_out[1], points, rng)
    verdict = "no more than chance" if test.p_value > _SIGNIFICANT else "more than chance: look at the closest pairs"
    return (
        *measures,
        Measure(
            "closest record is private",
            test.share,
            f"share of the {kind.nouns}; {test.expected:.3g} is expected if no record was seen",
        ),
        Measure("p-value of that", test.p_value, verdict),
        *kind.shared_by_chance(private[0], held_out[0]),
    )


def label_usefulness(
    real: tuple[Sequence[str], Points], synthetic: tuple[Sequence[str], Points], scoring: Scoring
) -> tuple[Measure, ...]:
    """Train a classifier on the synthetic records, test it on the real ones, and compare the label frequencies."""
    rng = np.random.default_rng([scoring.seed, *b"labels"])
    result = classify(synthetic[1], list(synthetic[0]), real[1], list(real[0]))
    accuracy = bootstrap(result.correct, rng)
    counts, synthetic_counts = Counter(real[0]), Counter(synthetic[0])
    distance = total_variation(counts, synthetic_counts)
    commonest = max(counts.values()) / counts.total()
    return (
        Measure.within(
            "accuracy",
            accuracy,
            f"a classifier trained on the samples labels {accuracy.value:.0%} of the records correctly; always "
            f"guessing the commonest label gives {commonest:.0%}",
        ),
        Measure("balanced accuracy", result.balanced_accuracy, "the same with equal weight for each label"),
        Measure("AUC", result.auc, "area under the ROC curve of that classifier, mean over labels; 0.5 is chance"),
        Measure("label distance", distance, "0 if labels are as frequent among the samples as among the records"),
    )
