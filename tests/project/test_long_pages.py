"""The pages whose blocks take longest, which are run beside the others."""

from contextlib import nullcontext

import pytest

from gape.distributed.cluster import ray_cluster
from project.test_docs import LONG, run_blocks


@pytest.mark.parametrize("page", LONG)
@pytest.mark.usefixtures("here")
def test_every_block_runs(page: str) -> None:
    with ray_cluster() if page == "cluster.md" else nullcontext():  # the blocks use it and start none of their own
        run_blocks(page)
