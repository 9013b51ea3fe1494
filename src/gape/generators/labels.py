"""Labelled records at no extra privacy cost: one vote covers a label and a text, an image or a row at once.

A label is the value of one column of choices that is strict. A labelled sample has two fields, label and text
(`LABELLED`); the text of a row is all of the row, and its label is one of the cells. The set of labels is public. A
record votes for the nearest candidate of its own label, so the noisy votes of a round show how common each label is,
and nothing else needs to be released: label shares are sums of noisy votes, never private counts. A unit still casts
only the votes that its electorate allows, however many labels its records have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import (
    Candidates,
    ConditionalGenerator,
    Embedder,
    Generator,
    InformedSelector,
    Selection,
    Selector,
    TopicGenerator,
)
from gape.core.types import Floats, Indices, NoisyVotes, Points, Samples

LABELLED = np.dtype([("label", object), ("text", object)])

# The value of a point in the column of its label, in norms of the longest embedding. Records of one label are at most
# 2 of them apart, those of two labels 2 sqrt 2.
_MARK = 2.0

_SLACK = 1e-3  # share by which a norm may be above the largest one; 2 sqrt 2 leaves room for more


def labelled(labels: Sequence[str] | Samples, texts: Sequence[str] | Samples) -> Samples:
    """Combine labels, (n,), and texts, (n,), or vectors, (n, d), into labelled samples, (n,)."""
    if len(labels) != len(texts):
        raise InputError(
            f"each text needs one label, got {len(labels)} labels for {len(texts)} texts; give as many of both"
        )
    shape = texts.shape[1:] if isinstance(texts, np.ndarray) else ()
    samples = np.empty(len(texts), dtype=[("label", object), ("text", np.float32, shape)] if shape else LABELLED)
    samples["label"] = labels
    samples["text"] = texts
    return samples


@dataclass(frozen=True)
class LabelledGenerator:
    """Writes the texts of each label with the label's own generator, and never changes the label of a text."""

    generators: Mapping[str, Generator]
    column: str = field(default="label", repr=False)  # that holds the labels

    def __post_init__(self) -> None:
        _check_labels(tuple(self.generators))
        object.__setattr__(self, "generators", dict(self.generators))

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` samples, equally many of each label, or one more for the first labels.

        Private shares are not known yet. A label that gets none here, because `count` is too small, will never occur.
        """
        per_label, more = divmod(count, len(self.generators))
        parts = [
            labelled([label] * size, generator.random(size, rng))
            for index, (label, generator) in enumerate(self.generators.items())
            if (size := per_label + (index < more))
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=LABELLED)

    def topics(self) -> Samples:
        """Return the topics of each label, label by label."""
        parts = [np.empty(0, dtype=LABELLED)]
        for label, generator in self.generators.items():
            topics = generator.topics() if isinstance(generator, TopicGenerator) else parts[0]["text"]
            parts.append(labelled([label] * len(topics), topics))
        return np.concatenate(parts)

    def favouring(self, shares: Floats) -> "LabelledGenerator":
        """Return the generator that draws the topics of a label in proportion to their shares."""
        favoured, start = dict(self.generators), 0
        for label, generator in self.generators.items():
            if isinstance(generator, TopicGenerator):
                own = shares[start : start + len(generator.topics())]
                start += len(own)
                favoured[label] = generator.favouring(own / own.sum())
        return LabelledGenerator(favoured, self.column)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Write one variation of each sample, with the same label and in the same order."""
        _check_samples(samples)
        if unknown := set(samples["label"]) - set(self.generators):
            raise InputError(f"samples have {len(unknown)} labels without a generator; give each label one")
        varied = samples.copy()
        for label, generator in self.generators.items():
            members = np.flatnonzero(samples["label"] == label)
            if not len(members):
                continue
            texts = generator.vary(samples["text"][members], scales[members], rng)
            if len(texts) != len(members):
                raise InputError(
                    f"a label's generator returned {len(texts)} variations of {len(members)} samples; return one each"
                )
            varied["text"][members] = texts
        return varied

    def vary_to(
        self, samples: Samples, scales: Floats, wanted: Sequence[Mapping[str, str]], rng: np.random.Generator
    ) -> Samples:
        """Write a variation of each sample with the wanted label and cells.

        A generator that cannot write to given cells varies a sample of its label, and replaces any other by a new one.
        A sample that stays as it is keeps its label.
        """
        _check_samples(samples)
        labels = [cells.get(self.column, own) for cells, own in zip(wanted, samples["label"], strict=True)]
        written = labelled(labels, samples["text"])
        for label in dict.fromkeys(labels):
            generator, members = self.generators[label], np.flatnonzero(written["label"] == label)
            if isinstance(generator, ConditionalGenerator):
                cells = [wanted[index] for index in members.tolist()]
                texts = generator.vary_to(samples["text"][members], scales[members], cells, rng)
                written["text"][members] = texts
                stayed = members[texts == samples["text"][members]]
                written["label"][stayed] = samples["label"][stayed]
                continue
            same = samples["label"][members] == label
            kept, others = members[same], members[~same]
            written["text"][kept] = generator.vary(samples["text"][kept], scales[kept], rng)
            written["text"][others] = generator.random(len(others), rng)
        return written


@dataclass(frozen=True)
class LabelledEmbedder:
    """Embeds labelled texts, (n, d + labels), so that any text of the same label is nearer than any of another label.

    The embedding of the text, whose norm must be `longest` or less, is followed by one column per label: in the column
    of the sample's own label twice `longest`, 0 elsewhere. To cache embeddings, wrap the inner embedder.
    """

    embedder: Embedder
    labels: tuple[str, ...]
    longest: float = field(default=1.0, repr=False)  # a public bound, `Modality.longest`

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _check_labels(self.labels))

    @property
    def private_text_may_leave(self) -> bool:
        """The value of the inner embedder: whether it works on this machine, or may send private text away."""
        return bool(getattr(self.embedder, "private_text_may_leave", True))

    def embed(self, samples: Samples) -> Points:
        """Return one float32 row per sample."""
        _check_samples(samples)
        refuse_other_labels(samples["label"], self.labels)
        index = {label: i for i, label in enumerate(self.labels)}
        own = np.array([index[label] for label in samples["label"]], dtype=np.int64)
        points = self.embedder.embed(samples["text"])
        if not (np.linalg.norm(points, axis=1) <= self.longest * (1 + _SLACK)).all():
            raise InputError(
                f"embeddings of labelled records must have norms of at most {self.longest:g}, got larger ones or NaN; "
                "use an embedder that scales its vectors to length 1"
            )
        marks = np.zeros((len(samples), len(self.labels)), dtype=np.float32)
        marks[np.arange(len(samples)), own] = _MARK * self.longest
        return np.concatenate([points.astype(np.float32, copy=False), marks], axis=1)


def refuse_other_labels(labels: Iterable[str], possible: Sequence[str]) -> None:
    """Refuse labels that are not among the possible ones, without naming any, because a label may be private."""
    if not set(possible).issuperset(labels):
        raise InputError(
            f"a record has a label outside the given set of {len(possible)} label{'s' * (len(possible) != 1)}; "
            "add the label if it is public knowledge, or leave such records out"
        )


def embed_with_labels(
    embedder: Embedder,
    content: Samples,
    labels: Sequence[str] | Samples | None,
    possible: tuple[str, ...] | None,
    longest: float = 1.0,
) -> Points:
    """Embed private records, with their labels if there are any: as `LabelledEmbedder` embeds candidates."""
    if labels is None or possible is None:
        return embedder.embed(content)
    return LabelledEmbedder(embedder, possible, longest).embed(labelled(labels, content))


@dataclass(frozen=True)
class PerLabelSelection(Selection):
    """The survivors of all labels, label by label, with the votes and sizes of each label.

    Labels without candidates are left out.
    """

    noisy_votes: dict[str, int]  # the sum over each label's candidates
    shares: dict[str, int]  # the number of samples that each label was allotted
    sizes: dict[str, int]  # the number that its selector chose
    details: dict[str, dict[str, Any]]  # the selector's diagnostics for each label


@dataclass(frozen=True)
class PerLabel:
    """Gives each label its share of the samples by noisy votes, and selects within it. Post-processing, at no cost.

    A label's share is proportional to the sum of its candidates' noisy votes in all rounds so far, where a negative sum
    counts as zero; records vote for candidates of their own label alone, so each round measures the same shares, and
    all of them together have less noise. Shares are rounded by largest remainders. If all sums are zero, labels share
    equally. A label with share zero gets no samples and disappears. A label with fewer candidates than its share gets
    only those, because moving the rest to other labels would distort their shares.
    """

    selector: Selector
    labels: tuple[str, ...]
    candidates: Candidates | None = field(default=None, repr=False)  # set by `among`

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _check_labels(self.labels))

    def among(self, candidates: Candidates) -> "PerLabel":
        """Return the rule for these candidates."""
        return replace(self, candidates=candidates)

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> PerLabelSelection:
        """Select from candidates embedded by `LabelledEmbedder` with the same labels in the same order."""
        if size < 1:
            raise InputError(f"size must be at least 1, got {size}; ask for one sample or more")
        own = self._own(points)
        present = {name: np.flatnonzero(own == label) for label, name in enumerate(self.labels)}
        present = {name: members for name, members in present.items() if len(members)}
        totals = {name: int(votes[members].sum()) for name, members in present.items()}
        so_far = {name: total + self._before(present[name]) for name, total in totals.items()}
        allotted = _largest_remainders([max(0, total) for total in so_far.values()], size)
        shares = dict(zip(present, allotted, strict=True))
        results: dict[str, Selection] = {}
        for name, members in present.items():
            if share := shares[name]:
                inside = points[members, : -len(self.labels)]
                results[name] = self._rule(members)(votes[members], inside, min(share, len(members)), rng)
        sizes = {name: len(results[name].indices) if name in results else 0 for name in present}
        believed = [result.believed for result in results.values() if result.believed is not None]
        return PerLabelSelection(
            np.concatenate([present[name][result.indices] for name, result in results.items()]),
            believed=np.concatenate(believed) if len(believed) == len(results) else None,
            label_votes=np.concatenate([np.full(sizes[name], float(so_far[name])) for name in results]),
            noisy_votes=totals,
            shares=shares,
            sizes=sizes,
            details={name: _diagnostics(result) for name, result in results.items()},
        )

    def _before(self, members: Indices) -> int:
        """Return the noisy votes that the label of these candidates had in all rounds before."""
        if self.candidates is None or self.candidates.label_votes is None:
            return 0
        return int(self.candidates.label_votes[members][0])

    def _rule(self, members: Indices) -> Selector:
        """Return the rule that selects among the candidates of a label."""
        if self.candidates is None or not isinstance(self.selector, InformedSelector):
            return self.selector
        return self.selector.among(self.candidates.take(members))

    def _own(self, points: Points) -> Indices:
        """Read the label of each candidate from its embedding, as an index into `labels`."""
        marks = points[:, -len(self.labels) :]
        own: Indices = np.argmax(marks, axis=1).astype(np.int64)
        mark = marks.max(initial=0) or 1  # the same for all candidates
        expected = mark * (own[:, None] == np.arange(len(self.labels)))
        if points.shape[1] <= len(self.labels) or not np.array_equal(marks, expected):
            raise InputError(
                f"candidates must be embedded with a column for each of {len(self.labels)} labels and are not; "
                "use LabelledEmbedder with the same labels in the same order"
            )
        return own


def _diagnostics(result: Selection) -> dict[str, Any]:
    own = {part.name for part in fields(result)} - {part.name for part in fields(Selection)}
    return {part: getattr(result, part) for part in sorted(own)}


def _largest_remainders(weights: Sequence[int], size: int) -> list[int]:
    """Divide `size` in proportion to weights, or equally if all are zero; ties go to the first."""
    weights = weights if any(weights) else [1] * len(weights)
    total = sum(weights)
    shares = [size * weight // total for weight in weights]
    remainders = sorted(range(len(weights)), key=lambda index: -(size * weights[index] % total))
    for index in remainders[: size - sum(shares)]:
        shares[index] += 1
    return shares


def _check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    # A set has a different order in each process, so a run with it could not be resumed.
    ordered = isinstance(labels, list | tuple)
    if not ordered or not all(isinstance(label, str) and label for label in labels):
        raise InputError(f"labels must be a list or tuple of non-empty strings, got {labels!r}; list the labels")
    if not labels or len(set(labels)) < len(labels):
        raise InputError(f"labels must be one or more different strings, got {list(labels)}; name each label once")
    return tuple(labels)


def _check_samples(samples: Samples) -> None:
    if samples.dtype.names != LABELLED.names:
        raise InputError(
            f"labelled samples must have the fields label and text, got dtype {samples.dtype}; use labelled()"
        )
