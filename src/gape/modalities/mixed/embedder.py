"""Rows with texts as points: the embedding of their cells beside those of their texts."""

import math
from dataclasses import dataclass

import numpy as np

from gape.core.protocols import Embedder
from gape.core.types import Points, Samples, as_samples
from gape.embedders.privacy import for_public_samples
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.rows.columns import Choices, Column
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.schema import Schema

# Mean squared distance between two texts of one domain, embedded with length 1 by all-MiniLM-L6-v2.
APART = 1.25**2

# A text is embedded in windows of so many words, and so many tokens by estimate, because embedders cut longer ones.
_WINDOW, _TOKENS = 150, 240
_PIECE = 100  # characters; a longer word is divided, as are texts without spaces


@dataclass(frozen=True)
class MixedEmbedder:
    """Embeds rows so that cells and texts count alike: unrelated rows differ as much in the one as in the other.

    The squared distance between two rows is the mean of two parts. That of the texts is the squared distance between
    their embeddings, averaged over the columns of texts. That of the cells is the squared distance of `RowEmbedder`,
    scaled such that two rows drawn uniformly from the schema are `APART` from each other on average, as two unrelated
    texts are. Weights multiply the squared distance of their column. Everything that the scale depends on is public.
    """

    schema: MixedSchema
    texts: Embedder

    @property
    def private_text_may_leave(self) -> bool:
        """The value of the embedder of texts: whether it works on this machine, or may send private text away."""
        return bool(getattr(self.texts, "private_text_may_leave", True))

    def for_public_samples(self) -> "MixedEmbedder":
        """Return the fastest form for rows of which none is private."""
        return MixedEmbedder(self.schema, for_public_samples(self.texts))

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per sample: the cells, then each column of texts."""
        cells, texts = self.schema.split(samples)
        parts = [self._texts(name, column) for name, column in texts.items()]
        share = 0.5 if self.schema.cells is not None else 1.0
        parts = [part * math.sqrt(share / len(parts)) for part in parts]
        if self.schema.cells is not None:
            points = RowEmbedder(self.schema.cells).embed(self.schema.cell_lines(cells))
            parts.insert(0, points * math.sqrt(share) * cell_scale(self.schema.cells))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _texts(self, name: str, texts: list[str | None]) -> Points:
        """Embed a column of texts. A missing one is as far from all others as unrelated texts are from each other."""
        written = [index for index, text in enumerate(texts) if text is not None]
        points = embed_windows(self.texts, [text for text in texts if text is not None])
        full = np.zeros((len(texts), points.shape[1] + 1), dtype=np.float32)
        full[:, -1] = math.sqrt(APART - 1)
        full[written, :-1], full[written, -1] = points, 0.0
        column = full if self.schema.texts[name].missing else full[:, :-1]
        return column * np.float32(math.sqrt(self.schema.weights.get(name, 1.0)))


def cell_scale(schema: Schema) -> float:
    """Return what the points of cells are multiplied by, so that they count as much as texts."""
    columns = schema.columns
    mean_weight = sum(schema.weights.get(name, 1.0) for name in columns) / len(columns)
    # RowEmbedder divides by the sum of the weights; here a heavier column must not make the others lighter.
    return math.sqrt(mean_weight * APART / float(np.mean([expected_distance(each) for each in columns.values()])))


def largest_norm(schema: MixedSchema) -> float:
    """Return a bound on the norm of the embedding of a row, if those of texts and of cells are at most 1."""
    texts = float(np.mean([schema.weights.get(name, 1.0) for name in schema.texts]))
    return math.sqrt(texts if schema.cells is None else (texts + cell_scale(schema.cells) ** 2) / 2)


def embed_windows(embedder: Embedder, texts: list[str]) -> Points:
    """Embed texts, (n, d); a long one as the mean of its windows, with the length that such vectors have on average."""
    windows, owners = [], []
    for index, text in enumerate(texts):
        parts = windows_of(text)
        windows += parts
        owners += [index] * len(parts)
    points = embedder.embed(as_samples(windows))
    if len(windows) == len(texts):
        return points
    sums = np.zeros((len(texts), points.shape[1]), dtype=np.float64)
    lengths = np.zeros(len(texts))
    np.add.at(sums, owners, points)
    np.add.at(lengths, owners, np.linalg.norm(points, axis=1))
    lengths /= np.maximum(np.bincount(owners, minlength=len(texts)), 1)
    norms = np.maximum(np.linalg.norm(sums, axis=1), 1e-12)
    whole: Points = (sums * (lengths / norms)[:, None]).astype(np.float32)
    return whole


def windows_of(text: str) -> list[str]:
    """Divide a text into windows that an embedder reads to their end; a short text is one window, as it is."""
    words = [word[start : start + _PIECE] for word in text.split() for start in range(0, len(word), _PIECE)]
    windows, window, tokens = list[str](), list[str](), 0.0
    for word in words:
        cost = _tokens(word)
        if len(window) == _WINDOW or tokens + cost > _TOKENS:
            windows.append(" ".join(window))
            window, tokens = [], 0.0
        window.append(word)
        tokens += cost
    return [*windows, " ".join(window)] if windows else [text]


def _tokens(word: str) -> float:
    """Estimate the tokens of a word: one or a few for English, and one per character for other scripts."""
    return float(len(word)) if not word.isascii() else max(1.0, len(word) / 3 - 1)


def expected_distance(column: Column) -> float:
    """Return the mean squared distance between two cells that are drawn uniformly from a column."""
    if isinstance(column, Choices):
        return 1 - 1 / column.count
    return 1 / 3  # of the range
