"""What is measured, group by group, each with what it says in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gape.core.types import Points, Samples
from gape.metrics.intervals import bootstrap
from gape.metrics.measure import Measure, Scoring
from gape.metrics.memorisation import closest_record_test
from gape.metrics.nearest import nearest_distances
from gape.metrics.neighbours import members, neighbour_squares
from gape.metrics.transport import frechet, sinkhorn1, wasserstein1
from gape.metrics.usefulness import classify
from gape.modalities import Modality, keys

_ALIKE = 0.05  # above this p-value a test is said to have found nothing


def beside(measures: Sequence[Measure], real: Sequence[Measure]) -> tuple[Measure, ...]:
    """Put the values of real records beside those of synthetic ones."""
    values = {each.name: each.value for each in real}
    return tuple(replace(each, real=values.get(each.name, each.real)) for each in measures)


def of_points(nouns: str, real: Points, points: Points, scoring: Scoring) -> tuple[Measure, ...]:
    """Score points by the records at `real`, (n, d): how much is reached, how well, and how far away the whole is."""
    rng = np.random.default_rng([scoring.seed, *b"points"])
    k = scoring.k
    inside, around = members(real, neighbour_squares(real, k)[:, -1], points)
    gaps = nearest_distances(real, points)
    few, some = (each[rng.permutation(len(each))[: scoring.sample]] for each in (real, points))
    divergence = sinkhorn1(few, some, scoring.blur)
    recall, precision, gap = (bootstrap(each, rng) for each in (inside > 0, around > 0, gaps))
    sizes = f"{len(few):,} records against {len(some):,} {nouns}"
    nth = {1: "", 2: "2nd ", 3: "3rd "}.get(k, f"{k}th ")
    return (
        Measure.within(
            "recall",
            recall,
            f"{recall.value:.0%} of the records have one of the {nouns} as near as their {nth}nearest record",
        ),
        Measure.within("precision", precision, f"{precision.value:.0%} of the {nouns} are that near to some record"),
        Measure(
            "density",
            float(around.sum() / (k * len(points))),
            f"how crowded the places of the {nouns} are with records; about 1 for real ones",
        ),
        Measure.within(
            "mean nearest distance",
            gap,
            f"from a record to the nearest of the {nouns}; of unit vectors, 1.4 is unrelated",
        ),
        Measure("coverage error", float(gaps.max()), "the same for the record that is worst off"),
        Measure("W1", wasserstein1(few, some), f"how far the {nouns} must move to become the records; {sizes}"),
        Measure(
            "Sinkhorn W1",
            divergence.value,
            f"the same with a blur of {scoring.blur:g}, less what chance adds"
            + ("" if divergence.converged else "; NOT converged"),
        ),
        Measure("Fréchet distance", frechet(real, points), "between means and covariances alone"),
    )


def of_memory(
    kind: Modality,
    private: tuple[Samples, Points],
    held_out: tuple[Samples, Points] | None,
    synthetic: tuple[Samples, Points],
    scoring: Scoring,
) -> tuple[Measure, ...]:
    """Look for private records among the synthetic ones; with held-out records, beside what chance brings."""
    rng = np.random.default_rng([scoring.seed, *b"memory"])
    made, points = synthetic
    closest = float(np.median(nearest_distances(points, private[1])))
    copied = len(set(keys(private[0])) & set(keys(made)))
    measures = [
        Measure(f"{kind.nouns} that are records", float(copied), kind.copied),
        Measure(
            "median distance to closest record", closest, f"from a synthetic {kind.noun} to the nearest private one"
        ),
        *kind.shared(private[0], made),
    ]
    if held_out is None:
        return tuple(measures)
    test = closest_record_test(private[1], held_out[1], points, rng)
    verdict = "no more than chance" if test.p_value > _ALIKE else "more than chance: look at the closest pairs"
    return (
        *measures,
        Measure(
            "closest record is private",
            test.share,
            f"share of the {kind.nouns}; {test.expected:.3g} is expected where no record was seen",
        ),
        Measure("p-value of that", test.p_value, verdict),
        *kind.shared_by_chance(private[0], held_out[0]),
    )


def of_labels(
    real: tuple[Sequence[str], Points], synthetic: tuple[Sequence[str], Points], scoring: Scoring
) -> tuple[Measure, ...]:
    """Train a classifier on the synthetic texts and have it label the records; compare how common labels are."""
    rng = np.random.default_rng([scoring.seed, *b"labels"])
    found = classify(synthetic[1], list(synthetic[0]), real[1], list(real[0]))
    accuracy = bootstrap(found.correct, rng)
    shares = [
        {label: share / len(labels) for label, share in Counter(labels).items()} for labels in (real[0], synthetic[0])
    ]
    apart = sum(abs(shares[0].get(label, 0.0) - shares[1].get(label, 0.0)) for label in {*shares[0], *shares[1]}) / 2
    commonest = max(shares[0].values())
    return (
        Measure.within(
            "accuracy",
            accuracy,
            f"{accuracy.value:.0%} of the records are labelled rightly by what the texts teach; always the commonest "
            f"label would give {commonest:.0%}",
        ),
        Measure("balanced accuracy", found.balanced_accuracy, "the same with every label counting alike"),
        Measure("label distance", apart, "0 where labels are as common among texts as among records"),
    )
