"""Signs that synthetic data repeats private records. For those who may see the private data, and nobody else.

Differential privacy bounds what any test can find; these find what a fault in an implementation, or a generator that
has read the data elsewhere, would leave behind. Finding nothing proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape.core.copies import words
from gape.core.errors import InputError
from gape.core.types import Indices
from gape.metrics.arrays import Array, check_pair, on_host
from gape.metrics.nearest import nearest_distances
from gape.voting.nearest import nearest


@dataclass(frozen=True)
class ClosestRecord:
    """Whether synthetic points are nearer to the private records than to records held out from the run."""

    share: float  # of synthetic points whose closest record, of both sets together, is private
    expected: float  # the same if the run had seen neither set: the private share of the records
    p_value: float  # of so large a share, if it does not matter which of the records the run has seen
    median_to_private: float
    median_to_held_out: float  # comparable to the former only for sets of one size


def closest_record_test(
    private: Array, held_out: Array, synthetic: Array, rng: np.random.Generator, *, permutations: int = 9999
) -> ClosestRecord:
    """Compare the distance to the closest private record with that to the closest held-out one.

    Hypothesis: private and held-out records are of one source, and the synthetic points do not depend on which were
    which. Then the labels can be dealt again: the share of synthetic points whose closest record is private has the
    distribution of its `permutations`, exactly and however alike the synthetic points are. A run that learns anything
    from records in particular, as private evolution does within its epsilon, is not quite of the hypothesis: a share a
    little above the expected one is no scandal, copies are.

    private: (n, d), held_out: (h, d), synthetic: (m, d); n and h may differ. Equal distances are decided by lot.
    """
    X, Y = map(on_host, check_pair(private, synthetic))
    Z, _ = map(on_host, check_pair(held_out, synthetic))
    if permutations < 1:
        raise InputError(f"permutations must be at least 1, got {permutations}; use the default of 9999")
    records = np.concatenate([X, Z])
    order = rng.permutation(len(records))  # ties go to the first
    closest = np.bincount(nearest(Y, records[order]), minlength=len(records))
    observed = int(closest[order < len(X)].sum())
    # Records without a synthetic point do not move the sum, and most have none.
    as_large = sum(int(closest[rng.permutation(len(records))[: len(X)]].sum()) >= observed for _ in range(permutations))
    return ClosestRecord(
        share=observed / len(Y),
        expected=len(X) / len(records),
        p_value=(1 + as_large) / (1 + permutations),
        median_to_private=float(np.median(nearest_distances(Y, X))),
        median_to_held_out=float(np.median(nearest_distances(Y, Z))),
    )


def longest_shared_runs(private: Sequence[str], synthetic: Sequence[str]) -> Indices:
    """Return, for every synthetic text, the most words in a row that some private text has as well, (m,). Exact.

    Phrases of the trade and what the prompt says are shared innocently: compare with the runs that held-out texts
    share with the private ones. Words are those of `metrics.text`, so punctuation does not hide a copy.
    """
    if isinstance(private, str) or isinstance(synthetic, str) or not len(private) or not len(synthetic):
        raise InputError("private and synthetic must be lists of at least one text, got a single text or none")
    numbers: dict[str, int] = {}
    texts = [[numbers.setdefault(word, len(numbers)) for word in words(text)] for text in (*private, *synthetic)]
    # One sequence, in which every text ends with a mark of its own: no run goes on beyond it.
    sequence = np.concatenate([[*text, len(numbers) + i] for i, text in enumerate(texts)])
    owner = np.repeat(np.arange(len(texts)), [len(text) + 1 for text in texts])
    levels = _runs_of_powers(sequence, max(map(len, texts)))
    # In the order of what follows them, a place shares most with a private place just before or just after it.
    order = np.argsort(levels[-1], kind="stable")
    is_private = owner[order] < len(private)
    places = np.arange(len(order))
    before = np.maximum.accumulate(np.where(is_private, places, -1))
    after = np.minimum.accumulate(np.where(is_private, places, len(order))[::-1])[::-1]
    runs = np.zeros(len(texts), dtype=np.int64)
    for beside in (before, after):
        held = np.flatnonzero(~is_private & (beside >= 0) & (beside < len(order)))
        here, there = order[held], order[beside[held]]
        np.maximum.at(runs, owner[here], _shared(levels, here, there))
    return runs[len(private) :]


def _runs_of_powers(sequence: Indices, longest: int) -> list[Indices]:
    """Number the runs of 1, 2, 4... words from every place by their rank: equal where the runs are, and in order."""
    levels = [np.unique(sequence, return_inverse=True)[1]]
    length = 1
    while length < longest:
        rank = levels[-1]
        following = np.zeros_like(rank)
        following[:-length] = rank[length:] + 1
        levels.append(np.unique(rank * (len(rank) + 1) + following, return_inverse=True)[1])
        length *= 2
    return levels


def _shared(levels: list[Indices], here: Indices, there: Indices) -> Indices:
    """Return how many words from `here` on are those from `there` on."""
    run = np.zeros(len(here), dtype=np.int64)
    last = len(levels[0]) - 1
    for power in range(len(levels) - 1, -1, -1):
        a, b = here + run, there + run
        inside = np.maximum(a, b) <= last
        same = levels[power][np.minimum(a, last)] == levels[power][np.minimum(b, last)]
        run += (inside & same) << power
    return run
