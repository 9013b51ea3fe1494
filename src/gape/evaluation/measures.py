"""What is measured, group by group, each with what it says in plain words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gape.core.copies import words
from gape.core.errors import InputError
from gape.core.types import Points, as_samples
from gape.evaluation.metrics.foretelling import next_word_accuracy
from gape.evaluation.metrics.intervals import Interval, bootstrap
from gape.evaluation.metrics.memorisation import closest_record_test, longest_shared_runs
from gape.evaluation.metrics.nearest import nearest_distances
from gape.evaluation.metrics.neighbours import members, neighbour_squares
from gape.evaluation.metrics.repetition import Repetition, as_many, repetition
from gape.evaluation.metrics.tables import column_distances, pair_distance
from gape.evaluation.metrics.text import length_distance, near_duplicate_rate, ngram_distance, vocabulary_overlap
from gape.evaluation.metrics.transport import frechet, sinkhorn1, wasserstein1
from gape.evaluation.metrics.usefulness import classify
from gape.modalities import Schema

_ALIKE = 0.05  # above this p-value a test is said to have found nothing


@dataclass(frozen=True)
class Scoring:
    """How points are scored; the defaults are the command's."""

    k: int = 3  # a ball reaches to so many-th nearest other record
    blur: float = 0.05  # of the Sinkhorn divergence
    sample: int = 2000  # most points of each side for W1, Sinkhorn and the n-grams' distances
    seed: int = 0  # of the samples, of the bootstrap, and of who is drawn for the baseline

    def __post_init__(self) -> None:
        if self.k < 1 or self.sample < 1 or self.seed < 0:
            raise InputError(
                f"k and sample must be at least 1 and seed at least 0, got {self.k}, {self.sample} and {self.seed}"
            )
        if not 0 < self.blur < math.inf:
            raise InputError(f"blur must be positive, got {self.blur:g}; 0.05 is usual")


@dataclass(frozen=True)
class Measure:
    """One figure: what it is called, its value and bootstrap interval, and what it says."""

    name: str
    value: float
    says: str
    low: float | None = None
    high: float | None = None
    real: float | None = None  # the same of as many real records

    @classmethod
    def within(cls, name: str, interval: Interval, says: str) -> Measure:
        """Make one with its interval."""
        return cls(name, interval.value, says, interval.low, interval.high)


def beside(measures: Sequence[Measure], real: Sequence[Measure]) -> tuple[Measure, ...]:
    """Put the values of real records beside those of synthetic ones."""
    values = {each.name: each.value for each in real}
    return tuple(replace(each, real=values.get(each.name, each.real)) for each in measures)


def of_points(real: Points, points: Points, scoring: Scoring) -> tuple[Measure, ...]:
    """Score points by the records at `real`, (n, d): how much is reached, how well, and how far away the whole is."""
    rng = np.random.default_rng([scoring.seed, *b"points"])
    k = scoring.k
    inside, around = members(real, neighbour_squares(real, k)[:, -1], points)
    gaps = nearest_distances(real, points)
    few, some = (each[rng.permutation(len(each))[: scoring.sample]] for each in (real, points))
    divergence = sinkhorn1(few, some, scoring.blur)
    recall, precision, gap = (bootstrap(each, rng) for each in (inside > 0, around > 0, gaps))
    sizes = f"{len(few):,} records against {len(some):,} texts"
    nth = {1: "", 2: "2nd ", 3: "3rd "}.get(k, f"{k}th ")
    return (
        Measure.within(
            "recall", recall, f"{recall.value:.0%} of the records have a text as near as their {nth}nearest record"
        ),
        Measure.within("precision", precision, f"{precision.value:.0%} of the texts are that near to some record"),
        Measure(
            "density",
            float(around.sum() / (k * len(points))),
            "how crowded the places of the texts are with records; about 1 for real ones",
        ),
        Measure.within(
            "mean nearest distance", gap, "from a record to the nearest text; of unit vectors, 1.4 is unrelated"
        ),
        Measure("coverage error", float(gaps.max()), "the same for the record that is worst off"),
        Measure("W1", wasserstein1(few, some), f"how far the texts must move to become the records; {sizes}"),
        Measure(
            "Sinkhorn W1",
            divergence.value,
            f"the same with a blur of {scoring.blur:g}, less what chance adds"
            + ("" if divergence.converged else "; NOT converged"),
        ),
        Measure("Fréchet distance", frechet(real, points), "between means and covariances alone"),
    )


def of_texts(real: Sequence[str], texts: Sequence[str], scoring: Scoring) -> tuple[Measure, ...]:
    """Compare texts as words: how long, which, how varied, and how many almost the same.

    Distances between frequencies grow as samples get smaller, so both sides have as many texts where they can.
    """
    rng = np.random.default_rng([scoring.seed, *b"texts"])
    count = min(len(real), len(texts), scoring.sample)
    few = [real[place] for place in rng.permutation(len(real))[:count]]
    some = [texts[place] for place in rng.permutation(len(texts))[:count]]
    mine, theirs = (float(np.mean([len(words(text)) for text in each])) for each in (texts, real))
    one_word = any(all(len(words(text)) < 2 for text in each) for each in (few, some))
    measures = [
        Measure("mean length", mine, f"words of a text; the records have {theirs:.3g}"),
        Measure("length distance", length_distance(few, some), "0 where lengths are spread alike, 1 where none agrees"),
        Measure("word distance", ngram_distance(few, some, 1), "the same of the frequencies of words"),
    ]
    if not one_word:
        apart = ngram_distance(few, some, 2)
        measures.append(Measure("word pair distance", apart, "the same of pairs of words in a row"))
    shared = vocabulary_overlap(few, some)
    return (*measures, Measure("shared vocabulary", shared, "words that both use, of those that either does"))


def of_repetition(real: Sequence[str], texts: Sequence[str], scoring: Scoring) -> tuple[Measure, ...]:
    """Measure how much texts repeat one another, beside as many real ones of the same lengths."""
    rng = np.random.default_rng([scoring.seed, *b"repetition"])
    compared = as_many(real, texts, rng)
    mine, theirs = repetition(texts), repetition(compared)
    near, usual = near_duplicate_rate(list(texts)), near_duplicate_rate(compared)
    pairs = [] if mine.pairs is None else [_beside("distinct pairs", "pairs", "of words in a row", mine, theirs)]
    return (
        Measure(
            "repeating texts",
            mine.repeating,
            f"{mine.repeating:.0%} of the texts share 8 words in a row with another one",
            real=theirs.repeating,
        ),
        _beside("distinct openings", "openings", "of five words, among all texts", mine, theirs),
        *pairs,
        _beside(
            "compression ratio", "compression", "of all texts packed together; more repetitive if higher", mine, theirs
        ),
        Measure("near duplicates", near, f"{near:.0%} of the texts nearly repeat another one", real=usual),
    )


def _beside(name: str, figure: str, says: str, mine: Repetition, theirs: Repetition) -> Measure:
    return Measure(name, getattr(mine, figure), says, real=getattr(theirs, figure))


def of_rows(real: Sequence[str], rows: Sequence[str], schema: Schema, scoring: Scoring) -> tuple[Measure, ...]:
    """Compare rows column by column, and pair by pair; both sides have as many where they can, see `of_texts`."""
    rng = np.random.default_rng([scoring.seed, *b"texts"])
    count = min(len(real), len(rows), scoring.sample)
    few, some = (
        schema.bins(schema.codes(as_samples([lines[place] for place in rng.permutation(len(lines))[:count]])))
        for lines in (real, rows)
    )
    apart = column_distances(few, some)
    worst = list(schema.columns)[int(apart.argmax())]
    twice = 1 - len(set(rows)) / len(rows)
    return (
        Measure("column distance", float(apart.mean()), "share of the cells of a column that would have to change"),
        Measure("worst column", float(apart.max()), f"the same of the column that is worst off, {worst}"),
        Measure("column pair distance", pair_distance(few, some), "the same of two columns together, on average"),
        Measure("repeated rows", twice, f"{twice:.0%} of the rows repeat another one"),
    )


def of_memory(
    private: tuple[Sequence[str], Points],
    held_out: tuple[Sequence[str], Points] | None,
    synthetic: tuple[Sequence[str], Points],
    scoring: Scoring,
    *,
    rows: bool = False,
) -> tuple[Measure, ...]:
    """Look for private records among the synthetic texts; with records held out, beside what chance brings.

    Rows of a table have no runs of words, and many are equal by chance.
    """
    rng = np.random.default_rng([scoring.seed, *b"memory"])
    texts, points = synthetic
    closest = float(np.median(nearest_distances(points, private[1])))
    copied = len(set(private[0]) & set(texts))
    measures = [
        Measure("texts that are records", float(copied), "cell for cell" if rows else "word for word"),
        Measure("median distance to closest record", closest, "from a synthetic text to the nearest private one"),
        *([] if rows else _shared_runs(private[0], texts)),
    ]
    if held_out is None:
        return tuple(measures)
    test = closest_record_test(private[1], held_out[1], points, rng)
    found = "no more than chance" if test.p_value > _ALIKE else "more than chance: look at the closest pairs"
    by_chance = [] if rows else _runs_by_chance(private[0], held_out[0])
    if rows:
        both = len(set(private[0]) & set(held_out[0]))
        by_chance = [Measure("held-out rows that are records", float(both), f"of {len(set(held_out[0])):,}, by chance")]
    return (
        *measures,
        Measure(
            "closest record is private",
            test.share,
            f"share of the texts; {test.expected:.3g} is expected of texts that saw no record",
        ),
        Measure("p-value of that", test.p_value, found),
        *by_chance,
    )


def _shared_runs(private: Sequence[str], texts: Sequence[str]) -> list[Measure]:
    runs = longest_shared_runs(list(private), list(texts))
    return [
        Measure("longest shared run", float(runs.max()), "most words in a row that a text and a record share"),
        Measure("mean shared run", float(runs.mean()), "the same for every text, on average"),
    ]


def _runs_by_chance(private: Sequence[str], held_out: Sequence[str]) -> list[Measure]:
    usual = longest_shared_runs(list(private), list(held_out))
    return [
        Measure("longest run by chance", float(usual.max()), "that a record which did not vote shares with the others"),
        Measure("mean run by chance", float(usual.mean()), "the same for every such record, on average"),
    ]


def of_next_words(
    real: Sequence[str], texts: Sequence[str], start: Sequence[str], records: Sequence[str], scoring: Scoring
) -> tuple[Measure, ...]:
    """Have a small model learn from texts, from the start and from `records`, and foretell the words of real texts."""
    rng = np.random.default_rng([scoring.seed, *b"words"])
    tested = [real[place] for place in rng.permutation(len(real))[: scoring.sample]]
    if not any(len(words(text)) > 1 for text in tested):
        return ()
    accuracy = bootstrap(next_word_accuracy(texts, tested), rng)
    says = "words of the records that are foretold from those before them, by what the texts teach"
    measures = [replace(Measure.within("next-word accuracy", accuracy, says), real=_mean_accuracy(records, tested))]
    if len(start):
        before = _mean_accuracy(start, tested)
        measures.append(Measure("the same by the start", before or 0.0, "before any record had voted"))
    return tuple(measures)


def _mean_accuracy(texts: Sequence[str], tested: Sequence[str]) -> float | None:
    return float(next_word_accuracy(texts, tested).mean()) if len(texts) else None


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
