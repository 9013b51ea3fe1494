"""What worker processes share: the private points, and one embedder and one model that stay with their parent."""

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
    """Points, (n, d), in a file without a name, which processes started with it map into their memory.

    They are held once, however many processes read them. Nothing is left when the last process has ended, however that
    ended, and no other process can open what has no name.
    """

    def __init__(self, points: Points) -> None:
        """Copy the points into the file."""
        self._shape = points.shape
        with tempfile.TemporaryFile() as file:
            np.ascontiguousarray(points, dtype=np.float32).tofile(file)
            file.flush()
            self._descriptor = os.dup(file.fileno())

    def close(self) -> None:
        """Let go of the file; processes that have mapped it keep it."""
        os.close(self._descriptor)

    def read(self) -> Points:
        """Map the points, for reading only."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            mapped = np.memmap(file, dtype=np.float32, mode="r", shape=self._shape)
        return np.asarray(mapped)

    def __getstate__(self) -> tuple[tuple[int, ...], Any]:
        return self._shape, DupFd(self._descriptor)

    def __setstate__(self, state: tuple[tuple[int, ...], Any]) -> None:
        self._shape, descriptor = state
        self._descriptor = descriptor.detach()


class RemoteEmbedder:
    """The parent's embedder, cache included, as a worker has it."""

    def __init__(self, parent: Connection) -> None:
        """Ask over this connection."""
        self._parent = parent

    def embed(self, samples: Samples) -> Points:
        """Have the samples embedded by the parent."""
        self._parent.send(("embed", samples))
        points: Points = self._parent.recv()
        return points


class RemoteModel:
    """The parent's language model, stored answers included, as a worker has it."""

    def __init__(self, parent: Connection, name: str, *, can_continue: bool) -> None:
        """Ask over this connection."""
        self._parent, self.name, self.can_continue = parent, name, can_continue

    def __repr__(self) -> str:
        return self.name

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Have the requests answered by the parent, all before the first is yielded."""
        self._parent.send(("complete", list(requests)))
        yield from self._parent.recv()
