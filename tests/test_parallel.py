import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.parallel import SCRATCH, blocks, tile_side


@pytest.mark.parametrize("threads", [1, 2, 16, 256])
@pytest.mark.parametrize("width", [1, 768, 100_000])
def test_scratch_stays_small_on_any_machine(threads: int, width: int) -> None:
    side = tile_side(width, threads)
    assert side >= 1
    assert side == 1 or 4 * threads * side * (side + 3 * width) <= SCRATCH


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 70))
def test_blocks_cover_every_row_once(n: int, threads: int, side: int) -> None:
    found = blocks(n, threads, side)
    assert [i for block in found for i in range(n)[block]] == list(range(n))
    assert all(0 < block.stop - block.start <= side for block in found)
