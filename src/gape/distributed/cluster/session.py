"""Connections to a Ray cluster: one that is already running, or one that this process starts."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gape._support.parallel import cores as available_cores
from gape.core.errors import InputError, ServiceError, in_one_line

_STORE = 256 * 2**20  # bytes; only candidates go into the object store, and what does not fit is written to disk

# Read by Ray when it is imported or started: output of its processes stays in its log files, and workers do not print
# warnings about future versions.
_QUIET = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def ray_cluster(address: str | None = None, *, cores: int | None = None, store: int = _STORE) -> Iterator[None]:
    """Connect to the Ray cluster at `address`, or start one on this machine that ends with this context.

    An address is "auto" for the cluster that this machine is part of, host:port of a head node, or ray://host:port of
    its client server. Without an address, a cluster starts on this machine with `cores` cores, by default all of them,
    and `store` bytes for its object store, at least 75 MiB; it has no dashboard. If this process is already connected,
    it stays connected, and its cluster is left running.
    """
    ray = import_ray()
    if ray.is_initialized():
        if address is not None:
            raise InputError(
                f"this process is connected to a Ray cluster already, got the address {address!r}; leave the address "
                "out to use that cluster, or call ray.shutdown() first"
            )
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            # "local", because without an address Ray would look for a running cluster of someone else.
            own = {"num_cpus": cores or available_cores(), "object_store_memory": store, "include_dashboard": False}
            ray.init("local", **own, **quiet)
        else:
            ray.init(address, **quiet)
    except (OSError, RuntimeError, ValueError, ImportError, TimeoutError) as error:
        where = "on this machine" if address is None else f"at {address!r}"
        raise ServiceError(
            f"no Ray cluster could be reached or started {where} ({in_one_line(error)}); start one with "
            "`ray start --head` and give its address, check that it accepts this process, or leave the address out to "
            "start one on this machine"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def cluster_cores() -> int:
    """Count the cores of the cluster that this process is connected to."""
    return int(connected_ray().cluster_resources().get("CPU", 1))


def import_ray() -> Any:
    """Return the ray module, with its usage statistics and its output turned off."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray  # noqa: PLC0415  (heavy, and an optional extra)
    except ImportError as error:
        raise InputError(f"a cluster needs Ray ({error}); run `pip install 'gape[ray]'`") from error
    return ray


def connected_ray() -> Any:
    """Return the ray module if this process is connected to a cluster; Ray itself would silently start one."""
    ray = import_ray()
    if not ray.is_initialized():
        raise InputError("this process is not connected to a Ray cluster; do this inside `with ray_cluster():`")
    return ray
