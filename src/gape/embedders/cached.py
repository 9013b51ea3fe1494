"""Embeddings kept in memory, so that what survives a round is not embedded again."""

from collections import OrderedDict
from hashlib import blake2b

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Embedder
from gape.core.types import Points, Samples
from gape.embedders.privacy import for_public_texts

CACHED = 50_000  # embeddings: 77 MB of MiniLM's


class Cached:
    """An embedder that gives equal samples the embedding it gave the first, as long as it remembers it.

    It is meant for candidates, which are public: the embeddings of private records should be gone after use. It holds
    embeddings and digests, no samples, and forgets those least recently asked for. To whatever identifies a run it
    looks like the embedder inside, whose vectors it gives.
    """

    def __init__(self, embedder: Embedder, size: int = CACHED) -> None:
        """Remember up to `size` embeddings of `embedder`."""
        if size < 1:
            raise InputError(f"a cache must hold at least 1 embedding, got size {size}")
        self.embedder, self.size = for_public_texts(embedder), size
        self._rows: OrderedDict[bytes, Points] = OrderedDict()

    def __repr__(self) -> str:
        return repr(self.embedder)

    @property
    def private_text_may_leave(self) -> bool:
        """What the embedder inside says (see `require_private_embedding`)."""
        return bool(getattr(self.embedder, "private_text_may_leave", True))

    def embed(self, samples: Samples) -> Points:
        """Embed the samples not remembered, each once, and return a row for every sample, (len(samples), d)."""
        keys = [_digest(sample) for sample in samples]
        missing: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if key in self._rows:
                self._rows.move_to_end(key)
            else:
                missing.setdefault(key, place)
        if missing or not keys:
            fresh = self.embedder.embed(samples[list(missing.values())])
            if not keys:
                return fresh
            # Copies: a view would keep the whole array of a round alive for the sake of one row.
            self._rows.update((key, row.copy()) for key, row in zip(missing, fresh, strict=True))
        points = np.stack([self._rows[key] for key in keys])
        while len(self._rows) > self.size:
            self._rows.popitem(last=False)
        return points


def _digest(sample: object) -> bytes:
    """Identify a sample by its content: a text, or a vector with its type and shape."""
    if isinstance(sample, str):
        return blake2b(sample.encode(errors="surrogatepass"), digest_size=16).digest()
    array = np.ascontiguousarray(sample)
    if array.dtype.hasobject:  # its bytes are addresses, which say nothing of its content
        raise InputError(f"a cache knows texts and vectors, got {array.dtype}; put it inside what takes these apart")
    content = blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=16, person=b"vector")
    content.update(array.tobytes())
    return content.digest()
