"""How far an embedder is, where it can say so: private texts are many, and each is embedded by itself."""

from collections.abc import Callable
from typing import TypeAlias, cast

from gape.core.protocols import Embedder

Listener: TypeAlias = Callable[[int, int], None]  # is told how many of how many texts are embedded


def nobody(done: int, texts: int) -> None:
    """Listen to nothing."""


def watched(embedder: Embedder, tell: Listener) -> Embedder:
    """Return the embedder with `tell` told how far it is, or as it is where it does not have the method `watched`."""
    watch = getattr(embedder, "watched", None)
    return embedder if watch is None else cast(Embedder, watch(tell))
