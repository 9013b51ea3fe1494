"""A sentence embedder that runs on the CPU of this machine."""

import gzip
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from importlib.resources import files
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gape._support.parallel import cores
from gape.core.errors import InputError
from gape.core.types import Points, Samples
from gape.embedders.watched import Listener, nobody
from gape.language.weights import MINILM, fetch

_DIMENSION = 384
_TOKENS_AT_ONCE = 256  # per call: 20 titles, or 2 abstracts; more is not faster
_TEXTS_AT_ONCE = 1024  # limits memory, because the tokenizer stores far more about a text than its tokens

Tokens: TypeAlias = NDArray[np.int64]


class MiniLM:
    """all-MiniLM-L6-v2: texts to unit vectors, (n, 384), by the mean of the last layer over a text's tokens.

    A text's embedding depends only on the text, not on others embedded with it. Only texts of equal length share a
    call, so nothing is padded; each call runs on one thread; and the weights, 8-bit integers on disk, are used as
    floats, so no scale is shared within a batch. Text beyond `max_tokens` is not read.
    """

    def __init__(self, max_tokens: int = 256) -> None:
        """Load the model, after fetching it if this is the first time (23 MB)."""
        if not 2 <= max_tokens <= 512:
            raise InputError(f"max_tokens must be from 2 to 512, the limit of MiniLM, got {max_tokens}; 256 is usual")
        import onnxruntime  # noqa: PLC0415  (heavy)
        from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415  (heavy)

        onnxruntime.disable_telemetry_events()  # for processes that had imported it before this package
        self.max_tokens = max_tokens
        self._tell: Listener = nobody
        self._tokenizer = BertWordPieceTokenizer(_vocabulary(), lowercase=True)
        self._tokenizer.enable_truncation(max_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # calls run in parallel instead, so that no thread waits for another
        options.log_severity_level = 3  # errors only, and those are raised too
        self._session = onnxruntime.InferenceSession(str(fetch(MINILM)), options, providers=["CPUExecutionProvider"])

    def __repr__(self) -> str:
        return f"MiniLM(weights={MINILM.sha256[:12]}, max_tokens={self.max_tokens})"

    def watched(self, tell: Listener) -> "MiniLM":
        """Return the same model, reporting its progress to `tell`."""
        other = copy(self)
        other._tell = tell
        return other

    def embed(self, samples: Samples) -> Points:
        """Embed texts, (n,), as float32 rows of length 1, (n, 384); a text without words is embedded like any other."""
        if samples.ndim != 1 or not all(isinstance(text, str) for text in samples):
            raise InputError(
                f"MiniLM embeds texts, got an array of {samples.dtype} of shape {samples.shape}; pass a list of strings"
            )
        points = np.empty((len(samples), _DIMENSION), dtype=np.float32)
        tokens = self._tokenize(samples.tolist())
        batches = _batches([len(ids) for ids in tokens])
        with ThreadPoolExecutor(cores()) as pool:
            rows = pool.map(lambda batch: self._run(np.stack([tokens[index] for index in batch])), batches)
            done = 0
            for batch, row in zip(batches, rows, strict=True):
                points[batch] = row
                done += len(batch)
                self._tell(done, len(samples))
        return points

    def _tokenize(self, texts: list[str]) -> list[Tokens]:
        tokens: list[Tokens] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            # The tokenizer refuses lone surrogates, which broken files contain.
            block = [text.encode(errors="replace").decode() for text in texts[start : start + _TEXTS_AT_ONCE]]
            tokens += [np.array(encoding.ids) for encoding in self._tokenizer.encode_batch(block)]
        return tokens

    def _run(self, ids: Tokens) -> Points:  # (b, tokens)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(None, given)  # (b, tokens, 384)
        means = np.asarray(states).mean(axis=1, dtype=np.float64)
        points: Points = (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)
        return points


def _batches(lengths: list[int]) -> list[list[int]]:
    """Divide the indices of texts into batches of equal length, longest first, so that the cores end together."""
    same = defaultdict(list)
    for index, length in enumerate(lengths):
        same[length].append(index)
    batches = []
    for length in sorted(same, reverse=True):
        step = max(1, _TOKENS_AT_ONCE // length)
        batches += [same[length][start : start + step] for start in range(0, len(same[length]), step)]
    return batches


def _vocabulary() -> dict[str, int]:
    # BERT's uncased English vocabulary (Google, Apache-2.0), unchanged, as it comes with all-MiniLM-L6-v2.
    packed = files("gape.embedders").joinpath("bert_vocab.txt.gz").read_bytes()
    return {word: number for number, word in enumerate(gzip.decompress(packed).decode().strip().split("\n"))}
