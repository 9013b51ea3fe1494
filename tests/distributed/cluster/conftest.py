import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed.cluster.processes import descendants
from gape.distributed.cluster import ray_cluster


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """A cluster of two cores on this machine, of which no process is left afterwards."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        tests = Path(__file__).parents[2]
        patch.setenv("PYTHONPATH", f"{tests}:{tests.parent / 'src'}")  # workers do not inherit sys.path
        stack.enter_context(ray_cluster(cores=2, store=100 * 2**20))
        yield
        processes = descendants()
        assert any("raylet" in command for command in processes.values())
    end = time.monotonic() + 20
    while left := [process for process in processes if Path(f"/proc/{process}").exists()]:
        assert time.monotonic() < end, f"{len(left)} processes of the cluster are left"
        time.sleep(0.1)
