"""Votes from devices that keep their data: secure aggregation, noise in shares (`pip install 'gape[federated]'`).

The server sees who takes part, and for every round one sum of votes that already has its noise in it. Flower is the
transport, in `gape.distributed.federated.flower` alone: nothing else here needs it.
docs/federated.md says what that promises and what it rests on.
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
