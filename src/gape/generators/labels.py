"""Labelled records at no extra privacy cost: one vote names a label and a text at once.

A labelled sample has two fields, label and text (`LABELLED`). The labels that can occur are public. A record votes for
the nearest candidate of its own label, so the noisy votes of a round say how common each label is, and nothing else
needs to be released: label shares are sums of noisy votes, never private counts. One unit still casts the votes that
its electorate allows, however many labels it has records of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, SampleSelector, Selection, Selector
from gape.core.types import Floats, Indices, NoisyVotes, Points, Samples

LABELLED = np.dtype([("label", object), ("text", object)])

# What a point has in the column of its label. Texts of one label are at most 2 apart, those of two labels 2 sqrt 2.
_MARK = np.float32(2.0)

# How far above 1 the norm of an embedding may be; 2 sqrt 2 leaves room for more.
_SLACK = 1e-3


def labelled(labels: Sequence[str] | Samples, texts: Sequence[str] | Samples) -> Samples:
    """Join labels and texts, (n,) each, to labelled samples, (n,)."""
    if len(labels) != len(texts):
        raise InputError(f"every text has one label, got {len(labels)} labels for {len(texts)} texts")
    samples = np.empty(len(texts), dtype=LABELLED)
    samples["label"] = labels
    samples["text"] = texts
    return samples


@dataclass(frozen=True)
class LabelledGenerator:
    """Writes every label's texts with that label's own generator, and never changes the label of a text."""

    generators: Mapping[str, Generator]

    def __post_init__(self) -> None:
        _check_labels(tuple(self.generators))
        object.__setattr__(self, "generators", dict(self.generators))

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` samples, as many of each label as of the next, or one more for the first labels.

        Private shares are not known yet. A label that gets none here, where `count` is too small, will never occur.
        """
        each, more = divmod(count, len(self.generators))
        parts = [np.empty(0, dtype=LABELLED)]
        for place, (label, generator) in enumerate(self.generators.items()):
            if size := each + (place < more):
                parts.append(labelled([label] * size, generator.random(size, rng)))
        return np.concatenate(parts)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Write one variation of every sample, under its label and in its place."""
        _check_samples(samples)
        if unknown := set(samples["label"]) - set(self.generators):
            raise InputError(f"samples have {len(unknown)} labels without a generator; give each label one")
        varied = samples.copy()
        for label, generator in self.generators.items():
            places = np.flatnonzero(samples["label"] == label)
            if not len(places):
                continue
            texts = generator.vary(samples["text"][places], scales[places], rng)
            if len(texts) != len(places):
                raise InputError(
                    f"the generator of a label wrote {len(texts)} variations of {len(places)} samples; return one each"
                )
            varied["text"][places] = texts
        return varied


@dataclass(frozen=True)
class LabelledEmbedder:
    """Embeds a labelled text so that any text of its label is nearer than every text of another, (n, d + labels).

    Behind the embedding of the text, which must have norm 1 or less, stands one column per label: 2 in that of the
    sample's own, 0 elsewhere. A cache belongs around the embedder inside.
    """

    embedder: Embedder
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _check_labels(self.labels))

    @property
    def private_text_may_leave(self) -> bool:
        """What the embedder inside says: whether it works on this machine, or may send private text away."""
        return bool(getattr(self.embedder, "private_text_may_leave", True))

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per sample."""
        _check_samples(samples)
        place = {label: i for i, label in enumerate(self.labels)}
        own = np.array([place.get(label, -1) for label in samples["label"]], dtype=np.int64)
        if (own < 0).any():  # the label itself may be private
            raise InputError(
                f"a record has a label outside the given set of {len(self.labels)} labels; "
                "add the label if it is public knowledge, or leave such records out"
            )
        points = self.embedder.embed(samples["text"])
        if not (np.linalg.norm(points, axis=1) <= 1 + _SLACK).all():
            raise InputError(
                "embeddings of labelled texts must have norms of at most 1, got larger ones or NaN; use an embedder "
                "that scales its vectors to length 1"
            )
        marks = np.zeros((len(samples), len(self.labels)), dtype=np.float32)
        marks[np.arange(len(samples)), own] = _MARK
        return np.concatenate([points.astype(np.float32, copy=False), marks], axis=1)


@dataclass(frozen=True)
class PerLabelSelection(Selection):
    """The survivors of all labels, label after label, with what decided their numbers, by label.

    Labels without candidates are left out.
    """

    noisy_votes: dict[str, int]  # the sum over each label's candidates
    shares: dict[str, int]  # how many each label was to get
    sizes: dict[str, int]  # how many its selector chose
    details: dict[str, dict[str, Any]]  # what the selector said of each label


@dataclass(frozen=True)
class PerLabel:
    """Gives each label its share of the samples by noisy votes, and selects inside it: post-processing, free.

    A label's share follows the sum of its candidates' noisy votes, a negative sum counting as zero; shares are rounded
    by largest remainders. Where all sums are zero, labels share evenly. A label with share zero gets none, and so is
    gone; one with fewer candidates than its share gets no more than those, for moving the rest to other labels would
    distort theirs.
    """

    selector: Selector
    labels: tuple[str, ...]
    samples: Samples | None = field(default=None, repr=False)  # the candidates, where `among` was asked

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _check_labels(self.labels))

    def among(self, samples: Samples) -> "PerLabel":
        """Return the rule for these candidates."""
        return replace(self, samples=samples)

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> PerLabelSelection:
        """Select from candidates embedded by `LabelledEmbedder` with the same labels in the same order."""
        if size < 1:
            raise InputError(f"size must be at least 1, got {size}")
        own = self._own(points)
        present = [place for place in range(len(self.labels)) if (own == place).any()]
        totals = [int(votes[own == place].sum()) for place in present]
        shares = _largest_remainders([max(0, total) for total in totals], size)
        names = [self.labels[place] for place in present]
        chosen, sizes, details = [np.empty(0, dtype=np.int64)], dict.fromkeys(names, 0), {}
        for place, name, share in zip(present, names, shares, strict=True):
            if not share:
                continue
            members = np.flatnonzero(own == place)
            inside = points[members, : -len(self.labels)]
            result = self._rule(members)(votes[members], inside, min(share, len(members)), rng)
            chosen.append(members[result.indices])
            sizes[name] = len(result.indices)
            details[name] = {part.name: getattr(result, part.name) for part in fields(result) if part.name != "indices"}
        return PerLabelSelection(
            np.concatenate(chosen),
            noisy_votes=dict(zip(names, totals, strict=True)),
            shares=dict(zip(names, shares, strict=True)),
            sizes=sizes,
            details=details,
        )

    def _rule(self, members: Indices) -> Selector:
        """Return what selects among the candidates of a label."""
        if self.samples is None or not isinstance(self.selector, SampleSelector):
            return self.selector
        return self.selector.among(self.samples[members])

    def _own(self, points: Points) -> Indices:
        """Read the label of every candidate off its embedding, as a place in `labels`."""
        marks = points[:, -len(self.labels) :]
        own: Indices = np.argmax(marks, axis=1).astype(np.int64)
        expected = _MARK * (own[:, None] == np.arange(len(self.labels)))
        if points.shape[1] <= len(self.labels) or not np.array_equal(marks, expected):
            raise InputError(
                f"the candidates are not embedded with a column for each of {len(self.labels)} labels; "
                "use LabelledEmbedder with the same labels in the same order"
            )
        return own


def _largest_remainders(weights: Sequence[int], size: int) -> list[int]:
    """Divide `size` in proportion to weights, evenly where all are zero; ties go to the first."""
    weights = weights if any(weights) else [1] * len(weights)
    total = sum(weights)
    shares = [size * weight // total for weight in weights]
    remainders = sorted(range(len(weights)), key=lambda place: -(size * weights[place] % total))
    for place in remainders[: size - sum(shares)]:
        shares[place] += 1
    return shares


def _check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    # A set has another order in every process, and a run could not be resumed.
    ordered = isinstance(labels, list | tuple)
    if not ordered or not all(isinstance(label, str) and label for label in labels):
        raise InputError(f"labels must be a list or tuple of texts that are not empty, got {labels!r}")
    if not labels or len(set(labels)) < len(labels):
        raise InputError(f"labels must be different and at least one, got {list(labels)}")
    return tuple(labels)


def _check_samples(samples: Samples) -> None:
    if samples.dtype.names != LABELLED.names:
        raise InputError(
            f"labelled samples have fields label and text, got dtype {samples.dtype}; make them by labelled"
        )
