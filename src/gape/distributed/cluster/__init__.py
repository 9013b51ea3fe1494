"""Votes and texts on the machines of a Ray cluster, or on all cores of one machine (`pip install 'gape[ray]'`).

Private records are read, embedded and compared by the worker that has access to their files. Only integers and digests
under a secret salt leave it. Nothing private is put into Ray's object store, an exception or a log.
"""

from gape.distributed.cluster.electorate import RayElectorate
from gape.distributed.cluster.model import RayModel
from gape.distributed.cluster.session import ray_cluster
from gape.distributed.cluster.shards import Block, PointShard, Shard, TextShard, in_parts

__all__ = ["Block", "PointShard", "RayElectorate", "RayModel", "Shard", "TextShard", "in_parts", "ray_cluster"]
