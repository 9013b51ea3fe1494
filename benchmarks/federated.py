"""The cost of a round of secure aggregation for a device and the server: CPU time and bytes, without the transport.

python benchmarks/federated.py [--devices 10 50 200] [--candidates 2000] [--width 384] [--dropouts 0.1]

All devices and the server run in this process, one after the other. Times are CPU times; that of a device is the mean
over all. The dropouts go silent after dealing shares, which is the most expensive moment for the server. Bytes are
those of the values in messages; Flower's envelope adds to them.
"""

import argparse
import secrets
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gape.core.types import Points
from gape.distributed.federated import Device, Granted, Terms
from gape.distributed.federated.aggregation import Session
from gape.distributed.federated.messages import Reply, Request, to_record
from gape.evolution.plan import Plan


def size(message: Request | Reply) -> int:
    """Return the bytes of a message's values; a number has eight."""
    total = 0
    for value in to_record(message).values():
        for entry in value if isinstance(value, list) else [value]:
            total += 8 if isinstance(entry, int) else len(entry)
    return total


class Meter:
    """Sends requests to devices and records their cost."""

    def __init__(self, devices: Mapping[int, Device]) -> None:
        self.devices = devices
        self.down: dict[str, int] = defaultdict(int)
        self.up: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Reply]:
        replies = {}
        for seat, request in requests.items():
            start = time.process_time()
            replies[seat] = self.devices[seat].answer(request)
            self.seconds[request.step] += (time.process_time() - start) / len(requests)
            self.down[request.step] = max(self.down[request.step], size(request))
            self.up[request.step] = max(self.up[request.step], size(replies[seat]))
        return replies


def measure(count: int, candidates: Points, share: float, folder: Path) -> str:
    plan = Plan(epsilon=1.0, delta=1e-6, rounds=10, samples=1)
    terms = Terms.for_plan(
        plan,
        federation="benchmark",
        devices=count,
        dropouts=int(share * count),
        colluders=int(share * count),
        dimension=candidates.shape[1],
    )
    rng = np.random.default_rng(0)
    devices = {
        seat: Device(
            terms,
            rng.normal(size=(5, terms.dimension)).astype(np.float32),
            Granted(folder / f"{count}-{seat}.sqlite", terms),
        )
        for seat in range(1, count + 1)
    }
    meter = Meter(devices)
    session = Session(terms, secrets.token_bytes(16), 1, candidates)
    adverts = meter.ask(session.call(devices))
    deals = meter.ask(session.roster(adverts))
    polls = session.poll(deals)
    ballots = meter.ask(dict(list(polls.items())[terms.dropouts :]))
    openings = meter.ask(session.tally(ballots))
    start = time.process_time()
    session.result(openings)
    opened = time.process_time() - start
    rows = [
        f"{step:10}{1000 * seconds:14.2f}{meter.down[step]:14,}{meter.up[step]:12,}"
        for step, seconds in meter.seconds.items()
    ]
    heading = (
        f"\n{count} devices, {terms.dropouts} drop out, {terms.colluders} may collude: a vote is {terms.units} units, "
        f"noise {terms.share_scale:.2f} units a device, {terms.noise_with(count):.2f} votes in all "
        f"(sigma {terms.sigma:.2f})"
    )
    names = f"{'step':10}{'ms a device':>14}{'bytes down':>14}{'bytes up':>12}"
    return "\n".join([heading, names, *rows, f"opening at the server: {opened:.2f} s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--dropouts", type=float, default=0.1)
    arguments = parser.parse_args()
    shape = (arguments.candidates, arguments.width)
    candidates = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    print(f"{arguments.candidates:,} candidates in {arguments.width} dimensions")
    with tempfile.TemporaryDirectory() as folder:
        measure(4, candidates, 0.0, Path(folder))  # loads and compiles what a device does once
        for count in arguments.devices:
            print(measure(count, candidates, arguments.dropouts, Path(folder)))


if __name__ == "__main__":
    main()
