"""The example's server, which keeps what it receives and gives somebody time to kill a device."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from votes_from_devices import example_server_app
from votes_from_devices.exact import EXACT

from gape._support.files import write_json
from gape.distributed.federated import Channel, FederatedElectorate
from gape.distributed.federated.flower import GridChannel
from gape.distributed.federated.messages import Ballot, Reply, Request


class Recording:
    """A channel that keeps every ballot that came in, and stops before the first poll until it may go on."""

    def __init__(self, inner: Channel, folder: Path) -> None:
        self._inner, self._folder, self._sessions = inner, folder, 0

    def devices(self) -> list[int]:
        return self._inner.devices()

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Reply]:
        step = next(iter(requests.values())).step
        if step == "poll" and not (self._folder / "go-on").exists():
            (self._folder / "about-to-poll").touch()
            while not (self._folder / "go-on").exists():
                time.sleep(0.1)
        began = time.monotonic()
        replies = self._inner.ask(requests)
        with (self._folder / "steps.txt").open("a") as log:
            log.write(f"{step} {len(requests)} {len(replies)} {time.monotonic() - began:.1f}\n")
        ballots = [reply.words for reply in replies.values() if isinstance(reply, Ballot)]
        if ballots:
            self._sessions += 1
            words = np.stack([np.frombuffer(ballot, dtype="<u4") for ballot in ballots])
            np.save(self._folder / f"ballots-{self._sessions}.npy", words)
        return replies


def main(grid: Grid, context: Context) -> None:
    folder = Path(str(context.run_config["folder"]))
    folder.mkdir(parents=True, exist_ok=True)
    channel = GridChannel(grid, timeout=float(context.run_config["timeout"]))
    channel.wait(int(context.run_config["wait-for"]))
    recording = Recording(channel, folder)
    if context.run_config["exact"]:
        electorate = FederatedElectorate(EXACT, recording)
        candidates = np.random.default_rng(5).uniform(-2, 2, (300, 2)).astype(np.float32)
        votes = electorate.noisy_count(candidates, 1, 0.0)
        np.savez(folder / "exact.npz", candidates=candidates, votes=votes)
    else:
        electorate = example_server_app.synthesize(recording, folder)
    write_json(folder / "failures.json", [reason for _, reason in channel.failures])
    counted = {str(round_.turn): [str(node) for node in round_.counted] for round_ in electorate.attendance}
    write_json(folder / "counted.json", counted)
    (folder / "done").touch()


app = ServerApp()
app.main()(main)
