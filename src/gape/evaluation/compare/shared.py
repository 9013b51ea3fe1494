"""What worker processes share: the private points, and the embedder and the model of the parent process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np

from gape.core.types import Points, Samples
from gape.language.request import Completion, Request


class SharedPoints:
    """Points, (n, d), in an unnamed file that worker processes map into their memory.

    The points are held once, however many processes read them. Other processes cannot open the file, because it has no
    name, and nothing is left of it when the last process has ended, for whatever reason.
    """

    def __init__(self, points: Points) -> None:
        """Copy the points into the file."""
        self._shape = points.shape
        with tempfile.TemporaryFile() as file:
            np.ascontiguousarray(points, dtype=np.float32).tofile(file)
            file.flush()
            self._descriptor = os.dup(file.fileno())

    def close(self) -> None:
        """Close the file; processes that have mapped it keep their mapping."""
        os.close(self._descriptor)

    def read(self) -> Points:
        """Map the points read-only."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            mapped = np.memmap(file, dtype=np.float32, mode="r", shape=self._shape)
        return np.asarray(mapped)

    def __getstate__(self) -> tuple[tuple[int, ...], Any]:
        return self._shape, DupFd(self._descriptor)

    def __setstate__(self, state: tuple[tuple[int, ...], Any]) -> None:
        self._shape, descriptor = state
        self._descriptor = descriptor.detach()


class RemoteEmbedder:
    """A worker's proxy of the parent's embedder, which may be cached."""

    def __init__(self, parent: Connection) -> None:
        """Send requests to the parent over this connection."""
        self._parent = parent

    def embed(self, samples: Samples) -> Points:
        """Embed the samples in the parent process."""
        self._parent.send(("embed", samples))
        points: Points = self._parent.recv()
        return points


class RemoteModel:
    """A worker's proxy of the parent's language model, including its stored answers."""

    def __init__(self, parent: Connection, name: str, *, can_continue: bool) -> None:
        """Send requests to the parent over this connection."""
        self._parent, self.name, self.can_continue = parent, name, can_continue

    def __repr__(self) -> str:
        return self.name

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Complete the requests in the parent process; all answers arrive before the first is yielded."""
        self._parent.send(("complete", list(requests)))
        yield from self._parent.recv()
