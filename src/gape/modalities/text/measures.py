"""How synthetic texts compare with real ones as words: lengths, vocabulary, repetition, and what they teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gape.core.copies import words
from gape.metrics.foretelling import next_word_accuracy
from gape.metrics.intervals import bootstrap
from gape.metrics.measure import Measure, Scoring
from gape.metrics.memorisation import longest_shared_runs
from gape.metrics.repetition import Repetition, as_many, repetition
from gape.metrics.text import length_distance, near_duplicate_rate, ngram_distance, vocabulary_overlap


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


def shared_runs(private: Sequence[str], texts: Sequence[str]) -> list[Measure]:
    """Measure how many words in a row texts share with private records."""
    runs = longest_shared_runs(list(private), list(texts))
    return [
        Measure("longest shared run", float(runs.max()), "most words in a row that a text and a record share"),
        Measure("mean shared run", float(runs.mean()), "the same for every text, on average"),
    ]


def runs_by_chance(private: Sequence[str], held_out: Sequence[str]) -> list[Measure]:
    """Measure the same for records that did not vote."""
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
