"""The private data as the engine of a run has it: opened by this process, or by the workers of a cluster."""

import glob
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gape.core.errors import InputError
from gape.distributed.cluster import RayElectorate, TextShard, in_parts, ray_cluster
from gape.distributed.cluster.session import cluster_cores
from gape.runs.electorate import Private, open_private
from gape.runs.embedder import make_embedder
from gape.runs.resolve import refuse_unknown
from gape.runs.settings import Settings
from gape.voting.store import is_vector_folder


@contextmanager
def engaged(settings: Settings, source: object, connected: Callable[[], None]) -> Iterator[Private]:
    """Give the private data as the engine has it: opened here, or read and embedded by the workers of a cluster.

    `connected` is called when the cluster is there and workers are about to begin, which takes its time.
    """
    if not settings.on_ray:
        yield open_private(settings, source)
        return
    if source is not None or not settings.data:
        raise InputError("workers read the data themselves, and what is in memory they cannot; name a file they see")
    if is_vector_folder(settings.data):
        raise InputError(f"{settings.data} holds vectors, which vote from this machine's disk; use engine local for it")
    refuse_unknown(settings)  # before workers are started
    address = settings.engine.partition(":")[2] or None
    with ray_cluster(address, cores=settings.workers):
        connected()
        with ray_electorate(settings) as electorate:
            yield electorate


def ray_electorate(settings: Settings) -> RayElectorate:
    """Have the workers of a cluster read the file of the settings, a part each, as one process would read all of it."""
    settings = settings.anchored()  # workers are in another folder
    shard = TextShard(
        glob.escape(settings.data),
        partial(make_embedder, settings),
        settings.text,
        settings.label,
        settings.user,
        settings.labels,
    )
    return RayElectorate(in_parts(shard, workers_of(settings)))


def workers_of(settings: Settings) -> int:
    """How many workers of the cluster that this process is connected to do the work."""
    return settings.workers or cluster_cores()
