"""Embeddings from an OpenAI-compatible service."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gape.core.errors import InputError, ServiceError
from gape.core.types import Points, Samples
from gape.language.http import Again, Endpoint, Job
from gape.language.spending import Meter, Purse, Tokens

_MARKER_TOKENS = 16  # tokens that an embedding model may add to a text
_LARGEST = 2**20  # bytes of one embedding as JSON: 16,384 numbers of 64 characters
_PUBLIC = 64  # texts per request if none is private


@dataclass(kw_only=True)
class OpenAIEmbedder(Endpoint):
    """Sends texts to a service and returns their embeddings, scaled to length 1.

    The operator of the service can read the texts, and no noise protects them there. Private text is therefore refused
    (see `require_private_embedding`) unless `private_text_may_leave` is set because its owner agrees.

    A request contains one text. If a service pads the texts of a request together, a private text could change the
    vectors of the others, and so more votes than its own. Whether a service batches separate requests cannot be
    controlled from here.
    """

    batch: int = 1  # texts per request
    private_text_may_leave: bool = False
    sent: int = 0  # times that earlier processes of a run have sent the same private texts, which counts under the caps
    counted: Callable[[int], None] | None = field(default=None, repr=False, compare=False)  # tokens of public texts
    begins: Callable[[], None] | None = field(default=None, repr=False, compare=False)  # before private texts are sent
    _public: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, got {self.batch}; use 1 for private texts")

    def __repr__(self) -> str:
        return f"OpenAIEmbedder(model={self.model!r}, base_url={self.base_url!r})"

    def for_public_samples(self) -> "OpenAIEmbedder":
        """Return the same service with many texts per request."""
        other = copy(self)
        other.batch, other._public = max(self.batch, _PUBLIC), True
        if self.purse is not None:
            other._meter = other._new_meter(self.purse)
        return other

    def embed(self, samples: Samples) -> Points:
        """Embed texts, (m,), as float32 rows of length 1, (m, d). Raises ServiceError unless all are embedded."""
        if samples.ndim != 1 or not len(samples) or not all(isinstance(text, str) for text in samples):
            raise InputError(
                f"samples must be one or more texts, got an array of {samples.dtype} of shape {samples.shape}; pass a "
                "list of strings"
            )
        texts = [text or " " for text in samples.tolist()]  # services refuse empty texts
        jobs = [self._job(texts[start : start + self.batch]) for start in range(0, len(texts), self.batch)]
        with self._accounted(jobs):
            rows = dict(self.post("embeddings", jobs))
        if len(rows) < len(jobs):
            raise ServiceError(
                f"{len(jobs) - len(rows)} of {len(jobs)} requests got no embeddings from {self.base_url}; "
                "check that no text is longer than the model allows"
            )
        return np.concatenate([rows[index] for index in range(len(jobs))])

    def _new_meter(self, purse: Purse) -> Meter:
        return Meter(self.prompt_price, 0.0, purse, private=not self._public)

    @contextmanager
    def _accounted(self, jobs: Sequence[Job[Points]]) -> Iterator[None]:
        """Count tokens of public texts, and for private ones also what earlier processes have used.

        That is at most what they can have used until all texts are embedded again, and then what they did use.
        """
        before = self.usage.prompt_tokens
        earlier = Tokens(0 if self._public else self.sent * sum(job.most.prompt for job in jobs))
        while earlier != Tokens() and not self._meter.admit(earlier, retry=False, requests=0):
            time.sleep(0.02)
        if not self._public and self.begins is not None:
            self.begins()
        try:
            yield
        finally:
            used = self.usage.prompt_tokens - before
            self._meter.settle(earlier, Tokens(0 if self._public else self.sent * used))
            if self._public and self.counted is not None:
                self.counted(used)

    def _job(self, texts: Sequence[str]) -> Job[Points]:
        # No common tokenizer makes more tokens than there are bytes.
        most = Tokens(sum(len(text.encode(errors="replace")) + _MARKER_TOKENS for text in texts))
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        return Job(body, most, _LARGEST * len(texts), partial(_read, len(texts)))


def _read(count: int, content: Any, used: Tokens) -> Points:  # noqa: ARG001  (not needed here)
    entries = sorted(content["data"], key=lambda entry: entry["index"])
    rows = np.array([entry["embedding"] for entry in entries], dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(rows) != count or not (np.isfinite(lengths) & (lengths > 0)).all():
        raise Again("embeddings that are missing, not finite or zero")
    points: Points = (rows / lengths).astype(np.float32)
    return points
