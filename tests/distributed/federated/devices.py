"""Devices in this process, which may fail at any step: the whole protocol without a network."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from gape.core.errors import GapeError
from gape.core.types import Points
from gape.distributed.federated import Device, Granted, Terms
from gape.distributed.federated.messages import Reply, Request

STEPS = ("call", "roster", "poll", "tally")

TERMS = Terms(
    federation="test", devices=5, dropouts=1, colluders=1, dimension=2, sigma=6.0, delta=1e-5, rounds=2, spare=1
)


def exact(terms: Terms) -> Terms:
    """The same terms without noise, and with ballots enough for any test."""
    return replace(terms, sigma=0.0, exact_sums_for_tests_only=True, spare=10_000)


def records(devices: int, each: int = 3) -> list[Points]:
    rng = np.random.default_rng(4)
    return [rng.normal(size=(each, 2)).astype(np.float32) for _ in range(devices)]


def make_devices(terms: Terms, folder: Path, private: list[Points] | None = None) -> dict[int, Device]:
    """Devices by address, which is 100 and up."""
    own = private or records(terms.devices)
    return {
        100 + place: Device(terms, points, Granted(folder / f"{place}.sqlite", terms))
        for place, points in enumerate(own)
    }


class InMemory:
    """A channel to devices in this process; at (address, step) a device does not answer, from then on."""

    def __init__(self, devices: Mapping[int, Device], failing: set[tuple[int, str]] | None = None) -> None:
        self.nodes, self.failing = devices, failing or set()
        self.replies: list[Reply] = []

    def devices(self) -> list[int]:
        return list(self.nodes)

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Reply]:
        replies = {}
        for address, request in requests.items():
            try:
                if (address, request.step) not in self.failing:
                    replies[address] = self.nodes[address].answer(request)
            except GapeError:
                continue  # a refusal is silence to the server
        self.replies += replies.values()
        return replies
