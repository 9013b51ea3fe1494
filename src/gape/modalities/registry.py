"""Modalities by name: those of this package, registered ones, and those of installed packages.

A package provides a modality by an entry point in the group `gape.modalities`, with the name of the modality:

    [project.entry-points."gape.modalities"]
    series = "my_package:Series"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path

from gape._support.values import brief
from gape.core.errors import InputError
from gape.core.types import Samples
from gape.modalities.base import Modality
from gape.modalities.images import Images
from gape.modalities.mixed import Mixed
from gape.modalities.rows import Rows
from gape.modalities.rows.columns import holds_texts
from gape.modalities.rows.schema import column_tables, file_state
from gape.modalities.text import Text
from gape.modalities.vectors import Vectors

GROUP = "gape.modalities"

_KNOWN: dict[str, type[Modality]] = {kind.name: kind for kind in (Text, Rows, Mixed, Images, Vectors)}


def register(kind: type[Modality]) -> type[Modality]:
    """Register a modality by its name in this process; usable as a decorator."""
    if kind.name in _KNOWN and _KNOWN[kind.name] is not kind:
        raise InputError(f"there is already a modality {kind.name!r}; give this one another name")
    _KNOWN[kind.name] = kind
    return kind


def known_kinds() -> tuple[type[Modality], ...]:
    """Return the modalities of this package, and those that were registered or loaded."""
    return tuple(_KNOWN.values())


def kind_named(name: str) -> type[Modality]:
    """Return the modality of this name."""
    if name not in _KNOWN:
        for entry in entry_points(group=GROUP, name=name):
            loaded = entry.load()
            if isinstance(loaded, type) and issubclass(loaded, Modality) and loaded.name == name:
                return register(loaded)
        names = ", ".join(sorted({*_KNOWN, *(entry.name for entry in entry_points(group=GROUP))}))
        raise InputError(f"there is no modality {brief(name)}; use one of {names}, or install the package that adds it")
    return _KNOWN[name]


def usual_modality(schema: object) -> str:
    """Return the default modality: with a schema rows, or mixed if it has a column of texts; otherwise text."""
    if not isinstance(schema, str | Path):
        return Text.name if schema is None else Rows.name
    try:
        tables = column_tables(schema)
    except InputError:
        return Rows.name  # which raises the error
    return Mixed.name if any(map(holds_texts, tables.values())) else Rows.name


def is_part(head: str) -> bool:
    """Return whether some modality has a generator or an embedder of this name."""
    known = {form.partition(":")[0] for kind in _KNOWN.values() for form in (*kind.writers(), *kind.comparers())}
    return head in known or head in _KNOWN or any(entry.name == head for entry in entry_points(group=GROUP))


def modality(name: str, schema: str | None = None) -> Modality:
    """Return the modality of this name with its schema, which is read again only if the file changes."""
    return _opened(name, schema, None if schema is None else file_state(schema))


@lru_cache(16)
def _opened(name: str, schema: str | None, state: object) -> Modality:  # noqa: ARG001  (part of the key)
    return kind_named(name)(schema)


def modality_of(given: Modality | None, parts: Mapping[str, str], samples: Samples) -> Modality:
    """Return the modality of a run: the given one, or, if the run did not record one, that of its samples.

    `parts` are the reprs of generator, embedder and selector.
    """
    if given is not None:
        return given
    if samples.ndim == 2:
        return modality(Vectors.name)
    return modality(Rows.name if parts["embedder"].startswith("RowEmbedder(") else Text.name)
