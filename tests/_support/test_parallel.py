import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape._support import parallel
from gape._support.parallel import SCRATCH, blocks, cores, tile_side, use_at_most


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


def test_a_process_can_keep_to_fewer_cores_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_most", cores())
    use_at_most(cores() + 1)
    assert cores() >= 1
    use_at_most(1)
    assert cores() == 1
