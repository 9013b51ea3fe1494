"""A cache of embeddings, so that survivors of a round are not embedded again."""

from collections import OrderedDict
from hashlib import blake2b

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Embedder
from gape.core.types import Points, Samples
from gape.embedders.privacy import for_public_samples

CACHED = 50_000  # embeddings: 77 MB of MiniLM's


class Cached:
    """An embedder that caches the embeddings of another, so that equal samples are embedded once.

    It is meant for candidates, which are public: embeddings of private records should not be kept after use. It stores
    embeddings and digests, no samples, and drops the least recently used. Its repr is that of the inner embedder,
    whose vectors it returns, so a run is identified by that one.
    """

    def __init__(self, embedder: Embedder, size: int = CACHED) -> None:
        """Keep up to `size` embeddings of `embedder`."""
        if size < 1:
            raise InputError(f"size must be at least 1 embedding, got {size}; the default is {CACHED}")
        self.embedder, self.size = for_public_samples(embedder), size
        self._rows: OrderedDict[bytes, Points] = OrderedDict()

    def __repr__(self) -> str:
        return repr(self.embedder)

    @property
    def private_text_may_leave(self) -> bool:
        """The value of the inner embedder (see `require_private_embedding`)."""
        return bool(getattr(self.embedder, "private_text_may_leave", True))

    def embed(self, samples: Samples) -> Points:
        """Embed the samples that are not cached, each once, and return one row per sample, (len(samples), d)."""
        keys = [_digest(sample) for sample in samples]
        missing: dict[bytes, int] = {}
        for index, key in enumerate(keys):
            if key in self._rows:
                self._rows.move_to_end(key)
            else:
                missing.setdefault(key, index)
        if missing or not keys:
            fresh = self.embedder.embed(samples[list(missing.values())])
            if not keys:
                return fresh
            # Copies, because a view of one row would keep the whole array of a round alive.
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
    if array.dtype.hasobject:  # its bytes are addresses, not content
        raise InputError(
            f"only texts and vectors can be cached, got {array.dtype}; put the cache around the inner embedder"
        )
    content = blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=16, person=b"vector")
    content.update(array.tobytes())
    return content.digest()
