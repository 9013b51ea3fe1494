"""The labels of a run: which there are, and how its records and candidates are marked with them."""

from collections.abc import Sequence
from typing import TypeAlias

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Selector
from gape.core.types import Points, Samples
from gape.generators.labels import LabelledEmbedder, PerLabel, embed_with_labels
from gape.modalities import Modality
from gape.runs.settings import Settings

Names: TypeAlias = Sequence[str] | Samples


def known_labels(settings: Settings) -> tuple[str, ...] | None:
    """Return all possible labels as far as they are known without the data: those given, or the choices of a schema."""
    choices = None if settings.label is None else settings.records.possible_labels(settings.label)
    if choices is None:
        return settings.labels
    if settings.labels not in {None, choices} or settings.labels_are_public:
        raise InputError(f"the labels are the choices of {settings.label!r} in the schema; leave out any others")
    return choices


def is_a_cell(settings: Settings, records: Modality) -> bool:
    """Whether the label of a record is also shown as one of its cells: if it is a column of the schema."""
    return settings.label is not None and records.possible_labels(settings.label) is not None


def candidate_embedder(settings: Settings, embedder: Embedder) -> Embedder:
    """Return the embedder as candidates meet it, with their labels if there are any."""
    if settings.labels is None:
        return embedder
    return LabelledEmbedder(embedder, settings.labels, settings.records.longest)


def embed_private(settings: Settings, embedder: Embedder, content: Samples, labels: Names | None) -> Points:
    """Embed private records as they vote, with their labels if there are any."""
    return embed_with_labels(embedder, content, labels, settings.labels, settings.records.longest)


def per_label(settings: Settings, rule: Selector) -> Selector:
    """Return the rule that selects within each label, if there are any."""
    return rule if settings.labels is None else PerLabel(rule, settings.labels)
