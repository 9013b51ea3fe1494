"""The private data of a run, opened by this process or by the workers of a cluster."""

import glob
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gape.core.errors import InputError
from gape.distributed.cluster import RayElectorate, TextShard, in_parts, ray_cluster
from gape.distributed.cluster.session import cluster_cores
from gape.runs.electorate import Private, open_private
from gape.runs.embedder import make_embedder
from gape.runs.labels import known_labels
from gape.runs.resolve import refuse_unknown
from gape.runs.settings import Settings
from gape.voting.store import is_vector_folder


@contextmanager
def engaged(settings: Settings, source: object, report: Callable[[str], None]) -> Iterator[Private]:
    """Open the private data here, or let the workers of a cluster read and embed it.

    `report` is told what is being done, because either takes a while.
    """
    if not settings.on_ray:
        yield open_private(settings, source, report)
        return
    if source is not None or not settings.data:
        raise InputError(
            "workers read the data themselves and cannot read this process's memory; name a file that they can see"
        )
    if is_vector_folder(settings.data):
        raise InputError(f"{settings.data} holds vectors, which vote from this machine's disk; use engine local for it")
    refuse_unknown(settings)  # before workers are started
    address = settings.engine.partition(":")[2] or None
    with ray_cluster(address, cores=settings.workers):
        report(f"workers read and embed the private {settings.records.nouns}")
        with ray_electorate(settings) as electorate:
            yield electorate


def ray_electorate(settings: Settings) -> RayElectorate:
    """Let each worker of a cluster read one part of the file; together they read what one process would."""
    settings = settings.anchored()  # workers are in another folder
    shard = TextShard(
        glob.escape(settings.data),
        partial(make_embedder, settings),
        settings.text,
        settings.label,
        settings.user,
        known_labels(settings),
        modality=settings.records,
    )
    return RayElectorate(in_parts(shard, workers_of(settings)))


def workers_of(settings: Settings) -> int:
    """Return the number of workers, by default one per core of the connected cluster."""
    return settings.workers or cluster_cores()
