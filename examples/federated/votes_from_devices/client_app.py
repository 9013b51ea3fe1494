"""What runs on a device."""

from pathlib import Path

import numpy as np
from flwr.app import Context

from gape import IdentityEmbedder
from gape.distributed.federated import Device, Granted, Secrets
from gape.distributed.federated.flower import client_app
from votes_from_devices.agreement import TERMS


def device(context: Context, remembered: Secrets) -> Device:
    """Make the device from the folder that its SuperNode was started with: --node-config 'folder="..."'."""
    folder = Path(str(context.node_config["folder"]))
    records = np.load(folder / "records.npy")
    return Device(TERMS, IdentityEmbedder().embed(records), Granted(folder / "granted.sqlite", TERMS), remembered)


app = client_app(device)
