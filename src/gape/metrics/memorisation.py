"""Signs that synthetic data copies private records. Only for people who may see the private data.

Differential privacy bounds what any test can find. These tests detect what a faulty implementation, or a generator that
has seen the data elsewhere, would leave behind. Finding nothing proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gape.core.copies import words
from gape.core.errors import InputError
from gape.core.types import Indices
from gape.metrics.arrays import Array, check_pair, on_host
from gape.metrics.nearest import nearest_distances
from gape.metrics.text import check_texts
from gape.voting.nearest import nearest


@dataclass(frozen=True)
class ClosestRecord:
    """Whether synthetic points are nearer to the private records than to held-out records."""

    share: float  # share of synthetic points whose closest record, of both sets together, is private
    expected: float  # the same share if the run had seen neither set: the private share of the records
    p_value: float  # probability of so large a share if it does not matter which records the run has seen
    median_to_private: float
    median_to_held_out: float  # comparable with the former only for sets of equal size


def closest_record_test(
    private: Array, held_out: Array, synthetic: Array, rng: np.random.Generator, *, permutations: int = 9999
) -> ClosestRecord:
    """Test whether synthetic points are closer to private records than to held-out ones (a permutation test).

    Null hypothesis: private and held-out records come from the same source, and the synthetic points do not depend on
    which records were private. Then the share of synthetic points whose closest record is private has exactly the
    distribution of that share over random `permutations` of the two sets, however similar the synthetic points are. A
    run that learns from individual records, as Private Evolution does within its epsilon, deviates slightly from the
    hypothesis: a share a little above the expected one is normal, copies are not.

    private: (n, d), held_out: (h, d), synthetic: (m, d); n and h may differ. Ties are broken at random.
    """
    X, Y = map(on_host, check_pair(private, synthetic))
    Z, _ = map(on_host, check_pair(held_out, synthetic))
    if permutations < 1:
        raise InputError(f"permutations must be at least 1, got {permutations}; use the default of 9999")
    records = np.concatenate([X, Z])
    order = rng.permutation(len(records))  # ties go to the first record in this order
    closest = np.bincount(nearest(Y, records[order]), minlength=len(records))
    observed = int(closest[order < len(X)].sum())
    # Most records are closest to no synthetic point and add nothing to the sum.
    as_large = sum(int(closest[rng.permutation(len(records))[: len(X)]].sum()) >= observed for _ in range(permutations))
    return ClosestRecord(
        share=observed / len(Y),
        expected=len(X) / len(records),
        p_value=(1 + as_large) / (1 + permutations),
        median_to_private=float(np.median(nearest_distances(Y, X))),
        median_to_held_out=float(np.median(nearest_distances(Y, Z))),
    )


def longest_shared_runs(private: Sequence[str], synthetic: Sequence[str]) -> Indices:
    """Return, for each synthetic text, the exact length of its longest run of words in any private text, (m,).

    Common phrases and words of the prompt are shared without copying: compare with the runs that held-out texts share
    with the private ones. Words are those of `metrics.text`, so punctuation does not hide a copy.
    """
    check_texts(private=private, synthetic=synthetic)
    numbers: dict[str, int] = {}
    texts = [[numbers.setdefault(word, len(numbers)) for word in words(text)] for text in (*private, *synthetic)]
    # One sequence, in which each text ends with a unique mark, so that no run extends beyond a text.
    sequence = np.concatenate([[*text, len(numbers) + i] for i, text in enumerate(texts)])
    owner = np.repeat(np.arange(len(texts)), [len(text) + 1 for text in texts])
    levels = _runs_of_powers(sequence, max(map(len, texts)))
    # Suffix order: a position shares its longest run with the private position just before or just after it.
    order = np.argsort(levels[-1], kind="stable")
    is_private = owner[order] < len(private)
    ranks = np.arange(len(order))
    before = np.maximum.accumulate(np.where(is_private, ranks, -1))
    after = np.minimum.accumulate(np.where(is_private, ranks, len(order))[::-1])[::-1]
    runs = np.zeros(len(texts), dtype=np.int64)
    for neighbour in (before, after):
        synthetic_ranks = np.flatnonzero(~is_private & (neighbour >= 0) & (neighbour < len(order)))
        positions, others = order[synthetic_ranks], order[neighbour[synthetic_ranks]]
        np.maximum.at(runs, owner[positions], _shared(levels, positions, others))
    return runs[len(private) :]


def _runs_of_powers(sequence: Indices, longest: int) -> list[Indices]:
    """Rank the runs of 1, 2, 4... words from each position: equal runs have equal ranks, and ranks are in order."""
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
    """Return the number of words that agree from the positions `here` and `there` on."""
    run = np.zeros(len(here), dtype=np.int64)
    last = len(levels[0]) - 1
    for power in range(len(levels) - 1, -1, -1):
        a, b = here + run, there + run
        inside = np.maximum(a, b) <= last
        same = levels[power][np.minimum(a, last)] == levels[power][np.minimum(b, last)]
        run += (inside & same) << power
    return run
