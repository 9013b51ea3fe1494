"""Measures of synthetic texts against real ones: lengths, vocabulary, repetition, and what a model learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gape.core.copies import words
from gape.metrics.intervals import bootstrap
from gape.metrics.measure import Measure, Scoring
from gape.metrics.memorisation import longest_shared_runs
from gape.metrics.next_word import next_word_accuracy
from gape.metrics.repetition import Repetition, as_many, repetition
from gape.metrics.text import length_distance, near_duplicate_rate, ngram_distance, vocabulary_overlap


def text_measures(real: Sequence[str], texts: Sequence[str], scoring: Scoring) -> tuple[Measure, ...]:
    """Compare the lengths and the words of texts.

    Distances between frequencies grow as samples get smaller, so both sides have as many texts if possible.
    """
    rng = np.random.default_rng([scoring.seed, *b"texts"])
    count = min(len(real), len(texts), scoring.sample)
    some_real = [real[index] for index in rng.permutation(len(real))[:count]]
    some_texts = [texts[index] for index in rng.permutation(len(texts))[:count]]
    length, real_length = (float(np.mean([len(words(text)) for text in side])) for side in (texts, real))
    one_word = any(all(len(words(text)) < 2 for text in side) for side in (some_real, some_texts))
    lengths = length_distance(some_real, some_texts)
    measures = [
        Measure("mean length", length, f"words per text; the records have {real_length:.3g}"),
        Measure("length distance", lengths, "0 if lengths are distributed equally, 1 if they never agree"),
        Measure("word distance", ngram_distance(some_real, some_texts, 1), "the same for the frequencies of words"),
    ]
    if not one_word:
        pairs = ngram_distance(some_real, some_texts, 2)
        measures.append(Measure("word pair distance", pairs, "the same for pairs of consecutive words"))
    shared = vocabulary_overlap(some_real, some_texts)
    return (*measures, Measure("shared vocabulary", shared, "share of all words that both sides use"))


def repetition_measures(real: Sequence[str], texts: Sequence[str], scoring: Scoring) -> tuple[Measure, ...]:
    """Measure how much texts repeat one another, compared with as many real ones of the same lengths."""
    rng = np.random.default_rng([scoring.seed, *b"repetition"])
    compared = as_many(real, texts, rng)
    own, usual = repetition(texts), repetition(compared)
    near, usual_near = near_duplicate_rate(list(texts)), near_duplicate_rate(compared)
    pairs = [] if own.pairs is None else [_compared("distinct pairs", "pairs", "of consecutive words", own, usual)]
    return (
        Measure(
            "repeating texts",
            own.repeating,
            f"{own.repeating:.0%} of the texts share 8 words in a row with another one",
            real=usual.repeating,
        ),
        _compared("distinct openings", "openings", "of five words, among all texts", own, usual),
        *pairs,
        _compared("compression ratio", "compression", "of all texts together; higher is more repetitive", own, usual),
        Measure("near duplicates", near, f"{near:.0%} of the texts nearly repeat another one", real=usual_near),
    )


def _compared(name: str, figure: str, says: str, own: Repetition, usual: Repetition) -> Measure:
    return Measure(name, getattr(own, figure), says, real=getattr(usual, figure))


def shared_runs(private: Sequence[str], texts: Sequence[str]) -> list[Measure]:
    """Measure how many words in a row texts share with private records."""
    runs = longest_shared_runs(list(private), list(texts))
    return [
        Measure("longest shared run", float(runs.max()), "most words in a row that a text and a record share"),
        Measure("mean shared run", float(runs.mean()), "the same, averaged over all texts"),
    ]


def runs_by_chance(private: Sequence[str], held_out: Sequence[str]) -> list[Measure]:
    """Measure the same for records that did not vote."""
    usual = longest_shared_runs(list(private), list(held_out))
    return [
        Measure("longest run by chance", float(usual.max()), "that a held-out record shares with a private one"),
        Measure("mean run by chance", float(usual.mean()), "the same, averaged over all held-out records"),
    ]


def next_word_measures(
    real: Sequence[str], texts: Sequence[str], start: Sequence[str], records: Sequence[str], scoring: Scoring
) -> tuple[Measure, ...]:
    """Train a small model on texts, the start and `records`, and test how well it predicts words of real texts."""
    rng = np.random.default_rng([scoring.seed, *b"words"])
    tested = [real[index] for index in rng.permutation(len(real))[: scoring.sample]]
    if not any(len(words(text)) > 1 for text in tested):
        return ()
    accuracy = bootstrap(next_word_accuracy(texts, tested), rng)
    says = "share of the records' words that a small model trained on the texts predicts"
    measures = [replace(Measure.within("next-word accuracy", accuracy, says), real=_mean_accuracy(records, tested))]
    if len(start):
        before = _mean_accuracy(start, tested)
        measures.append(Measure("the same by the start", before or 0.0, "trained on the texts before any vote"))
    return tuple(measures)


def _mean_accuracy(texts: Sequence[str], tested: Sequence[str]) -> float | None:
    return float(next_word_accuracy(texts, tested).mean()) if len(texts) else None
