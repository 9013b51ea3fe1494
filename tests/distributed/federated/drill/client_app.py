"""The example's device, which may be told not to answer, or to fail with something private on its lips."""

import time
from pathlib import Path

from flwr.app import Context
from votes_from_devices import example_client_app
from votes_from_devices.exact import EXACT

from gape.distributed.federated import Device, Granted, Secrets, Terms
from gape.distributed.federated.flower import client_app
from gape.distributed.federated.messages import Reply, Request


class Unreliable(Device):
    """A device that fails at some steps: "1:poll:silent" for longer than anybody waits, "2:roster:error" aloud."""

    failing: frozenset[str]
    seconds: float

    def answer(self, request: Request) -> Reply:
        now = f"{self.remembered.turn}:{request.step}"
        if f"{now}:silent" in self.failing:
            time.sleep(self.seconds)
        if f"{now}:error" in self.failing:
            raise RuntimeError("private words")
        return super().answer(request)


def device(context: Context, remembered: Secrets) -> Device:
    folder = Path(str(context.node_config["folder"]))
    (folder / "node").write_text(str(context.node_id))
    own = example_client_app.device(context, remembered)
    terms: Terms = EXACT if context.run_config["exact"] else own._terms
    made = Unreliable(terms, own._private, Granted(folder / f"granted-{terms.sigma}.sqlite", terms), remembered)
    made.failing = frozenset(str(context.run_config["failing"]).split() if (folder / "may-fail").exists() else [])
    made.seconds = float(context.run_config["timeout"]) + 3
    return made


app = client_app(device)
