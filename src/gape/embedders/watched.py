"""Progress of embedders that can report it: private records are many, and each is embedded by itself."""

from collections.abc import Callable
from typing import TypeAlias, cast

from gape.core.protocols import Embedder

Listener: TypeAlias = Callable[[int, int], None]  # called with the samples embedded so far and in total


def nobody(done: int, samples: int) -> None:
    """Ignore the progress."""


def watched(embedder: Embedder, tell: Listener) -> Embedder:
    """Return the embedder with its progress reported to `tell`, or unchanged if it has no method `watched`."""
    watch = getattr(embedder, "watched", None)
    return embedder if watch is None else cast(Embedder, watch(tell))
