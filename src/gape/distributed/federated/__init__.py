"""Votes from devices that keep their data: secure aggregation with distributed noise (`pip install 'gape[federated]'`).

The server sees who takes part, and for each round one sum of votes that already includes its noise. Flower is the
transport; only `gape.distributed.federated.flower` needs it.
docs/federated.md states the guarantee and its assumptions.
"""

from gape.distributed.federated.device import Device, Secrets
from gape.distributed.federated.electorate import Attendance, Channel, FederatedElectorate
from gape.distributed.federated.granted import Granted
from gape.distributed.federated.terms import Terms

__all__ = [
    "Attendance",
    "Channel",
    "Device",
    "FederatedElectorate",
    "Granted",
    "Secrets",
    "Terms",
]
