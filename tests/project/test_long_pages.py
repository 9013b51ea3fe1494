"""The pages whose blocks take longest, which are run beside the others."""

import pytest

from project.test_docs import LONG, run_blocks


@pytest.mark.parametrize("page", LONG)
@pytest.mark.usefixtures("here")
def test_every_block_runs(page: str) -> None:
    run_blocks(page)
