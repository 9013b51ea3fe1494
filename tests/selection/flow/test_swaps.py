"""Who is nearest to whom among the selected, followed through swaps."""

import numpy as np
import pytest

from gape.core.types import Costs, Indices
from gape.selection.flow import swaps

ABSENT = 100.0


def check(ranks: swaps.Ranks, kept: swaps.Reserve, rows: Costs, chosen: Indices) -> None:
    """Compare with what sorting says."""
    p = rows.shape[1]
    distances = np.sort(np.vstack([rows[chosen], np.full((1, p), ABSENT)]), axis=0)
    np.testing.assert_array_equal(ranks.first, distances[0])
    np.testing.assert_array_equal(ranks.second, distances[1])
    np.testing.assert_array_equal(rows[chosen[ranks.near], np.arange(p)], ranks.first)
    if len(chosen) > 1:
        assert np.all(ranks.near != ranks.next)
        np.testing.assert_array_equal(rows[chosen[ranks.next], np.arange(p)], ranks.second)
    for x in range(p):
        known = kept.known[x]
        np.testing.assert_array_equal(kept.distances[:known, x], distances[:known, x])
        assert len(set(kept.slots[:known, x].tolist())) == known
        assert np.all(kept.slots[known:, x] == -1)
        assert kept.reach[x] == kept.distances[known - 1, x]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 20])
@pytest.mark.parametrize("ties", [False, True], ids=["all differ", "ties"])
def test_ranks_follow_swaps_as_if_they_were_made_anew(size: int, ties: object) -> None:
    rng = np.random.default_rng(size)
    rows = rng.integers(0, 6, (40, 15)).astype(np.float32) if ties else rng.random((40, 15), dtype=np.float32)
    chosen = rng.permutation(40)[:size]
    kept = swaps.reserve(rows, chosen)
    ranks = swaps.ranks(kept, ABSENT)
    blocked = swaps.reserve(rows, chosen)
    followed = swaps.ranks(blocked, ABSENT)
    refilled = 0
    for _ in range(200):
        slot = int(rng.integers(size))
        chosen[slot] = rng.choice(np.setdiff1d(np.arange(40), chosen))
        swaps.swap(ranks, kept, rows, chosen, slot, ABSENT)
        check(ranks, kept, rows, chosen)
        orphans = swaps.replace_slot(followed, blocked, rows[chosen[slot]], slot, size, ABSENT)
        found = swaps.reserve(rows[:, orphans], chosen)
        swaps.assign(followed, blocked, orphans, found, ABSENT)
        check(followed, blocked, rows, chosen)
        refilled += len(orphans)
    assert refilled > 10  # what is not known any more was found again


def test_blocks_of_sources_are_joined_in_their_order() -> None:
    rows = np.random.default_rng(0).random((12, 9))
    parts = [swaps.reserve(rows[:, some], np.arange(10)) for some in (slice(4), slice(4, 9))]
    for whole, part in zip(swaps.reserve(rows, np.arange(10)), swaps.joined(parts), strict=True):
        np.testing.assert_array_equal(whole, part)
