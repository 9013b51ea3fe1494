"""What settings must satisfy together, beyond their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gape._support.values import brief
from gape.core.errors import InputError

if TYPE_CHECKING:
    from gape.runs.settings import Settings

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY, f"{RAY}:ADDRESS")


def check_paper(settings: Settings) -> None:
    """Refuse settings that do not suit the methods of the paper."""
    if settings.selector == "gape-paper" and settings.separation is None:
        raise InputError(
            "gape-paper needs separation, the paper's R; compute it on public data of the same kind with "
            "gape.paper_separation(points, samples), never on the private data, and give it as separation"
        )
    if settings.bare_prompts and settings.topics is not None:
        raise InputError("topics are given, and with bare_prompts no prompt names a topic; leave out one of them")


def check_engine(settings: Settings) -> None:
    """Refuse an unknown engine, and labels that this process would have to read."""
    kind, colon, address = settings.engine.partition(":")
    if settings.engine != LOCAL and (kind != RAY or bool(colon) != bool(address)):
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {brief(settings.engine)}")
    if settings.on_ray and settings.label is not None and settings.labels is None:
        raise InputError(
            f"with engine {brief(settings.engine)} only the workers read the data; list the possible labels as labels"
        )
