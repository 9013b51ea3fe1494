"""Reaching clusters: one of this process's own, and one that another process has started."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gape.core.errors import InputError, ServiceError
from gape.distributed.cluster import PointShard, RayElectorate, in_parts, ray_cluster
from gape.voting.electorate import LocalElectorate

# A cluster in a process of its own, which ends when its input does.
HEAD = """
import sys
import ray
from gape.distributed.cluster import ray_cluster
with ray_cluster(cores=2, store=100 * 2**20):
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""
# What a user sees: a worker dies and is started again, and nothing but the line at the end is printed.
QUIET = """
import os, signal, sys
from gape.distributed.cluster import PointShard, RayElectorate, in_parts, ray_cluster
import numpy as np
with ray_cluster(cores=2, store=100 * 2**20), RayElectorate(in_parts(PointShard(sys.argv[1]), 2)) as electorate:
    os.kill(electorate.pids[0], signal.SIGKILL)
    counts = electorate.count(np.eye(3, dtype=np.float32), 1)
    print(counts.sum(), electorate.replaced)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32))
    return str(tmp_path / "points.npy")


def test_without_ray_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'gape\[ray\]'"), ray_cluster():
        pass


def test_outside_a_cluster_nothing_is_started(file: str) -> None:
    with pytest.raises(InputError, match="with ray_cluster"):
        RayElectorate([PointShard(file)])


@pytest.mark.slow
def test_a_cluster_is_reached_by_its_address_and_left_running(file: str) -> None:
    head = subprocess.Popen([sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert head.stdout is not None
        address = head.stdout.readline().strip()
        for _ in range(2):
            with ray_cluster(address), RayElectorate(in_parts(PointShard(file), 2)) as electorate:
                candidates = np.eye(3, dtype=np.float32)
                counts = electorate.count(candidates, 1)
                assert np.array_equal(counts, LocalElectorate(np.load(file)).count(candidates, 1))
                with pytest.raises(InputError, match="connected to a Ray cluster already"), ray_cluster(address):
                    pass
                with ray_cluster():  # the same one
                    assert electorate.units == 200
                assert electorate.units == 200
        assert head.poll() is None
    finally:
        head.communicate("", timeout=60)
    assert head.returncode == 0


@pytest.mark.slow
def test_a_cluster_that_is_not_there() -> None:
    with pytest.raises(ServiceError, match=r"at 'auto'.*ray start --head"), ray_cluster("auto"):
        pass


@pytest.mark.slow
def test_ray_prints_nothing_even_when_a_worker_dies(file: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", QUIET, file], capture_output=True, text=True, check=False, env=environment, timeout=300
    )
    assert (done.stdout, done.stderr, done.returncode) == ("200 1\n", "", 0)
