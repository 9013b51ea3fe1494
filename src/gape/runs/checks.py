"""What settings must satisfy together, beyond their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gape._support.values import brief
from gape.core.errors import InputError
from gape.modalities import is_part
from gape.runs.presets import refuse_survey

if TYPE_CHECKING:
    from gape.runs.settings import Settings

LOCAL, RAY = "local", "ray"
ALSO = ("embedded", "openvino", "hf")  # models on this machine, which may write beside the generator
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
    unknown = settings.on_ray and settings.label is not None and settings.labels is None
    if unknown and settings.records.possible_labels(str(settings.label)) is None:
        raise InputError(
            f"with engine {brief(settings.engine)} only the workers read the data; list the possible labels as labels"
        )


def check_also(settings: Settings) -> None:
    """Refuse further writers that are not models on this machine, or beside what they cannot share the work with."""
    if settings.also is None:
        return
    models = (settings.generator, *settings.also)
    heads = [spec.partition(":")[0] for spec in models]
    if not settings.also or len(set(models)) < len(models) or not set(heads[1:]) <= set(ALSO):
        raise InputError(
            f"also must name other models of the kinds {', '.join(ALSO)} than the generator, got "
            f"{brief(list(settings.also))}; name each once"
        )
    if settings.own_generator or heads[0] not in {*ALSO, "openai"}:
        raise InputError(f"also is for a generator that is a language model, got {brief(settings.generator)}")
    for name, used in (("survey", settings.survey), ("painter", settings.painter), ("engine", settings.on_ray)):
        if used:
            raise InputError(f"also and {name} cannot be combined; leave one of them out")


def check_modality(settings: Settings) -> None:
    """Refuse settings that do not suit the modality."""
    kind = settings.kind
    for name in () if settings.painter else kind.unused:
        if (value := getattr(settings, name)) is not None:
            raise InputError(f"{name} has no meaning for {kind.nouns}, got {brief(value)}; leave it out")
    parts = [("generator", settings.writers), ("embedder", kind.comparers())]
    if settings.painter is not None:
        if not kind.painters:
            raise InputError(f"{kind.nouns} are not drawn, got painter {brief(settings.painter)}; leave it out")
        parts.append(("painter", kind.painters))
    for part, forms in parts:
        spec = getattr(settings, part)
        head = spec.partition(":")[0]
        if head not in {form.partition(":")[0] for form in forms} and is_part(head):
            known = ", ".join(forms) or "your own, in Python"
            raise InputError(f"the {part} {brief(spec)} is not for {kind.nouns}; use {known}")
    refuse_survey(kind, settings.survey, settings.rounds, settings.generator, bare=settings.bare_prompts)
    if settings.on_ray and not kind.on_workers:
        raise InputError(
            f"{kind.nouns} are read by this process, not with engine {brief(settings.engine)}; leave it out"
        )
    kind.refuse(settings.scales)


def check_numbers(settings: Settings) -> None:
    """Refuse numbers out of range, and settings that do nothing."""
    counted = ("samples", "rounds", "initial", "copies", "votes_per_unit", "votes_per_record")
    for name in (*counted, "words", "concurrency", "workers"):
        value, least = getattr(settings, name), 0 if name == "rounds" and settings.survey else 1
        if value is not None and value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    for name in ("epsilon", "budget_epsilon", "separation"):
        value = getattr(settings, name)
        if value is not None and not value > 0:
            remedy = "; use inf for a run without privacy" if "epsilon" in name else "; leave it out for none"
            raise InputError(f"{name} must be positive, got {value:g}{remedy}")
    if settings.seed < 0:
        raise InputError(f"seed must not be negative, got {settings.seed}")
    if not 0 <= settings.temperature <= 10:
        raise InputError(f"temperature must lie between 0 and 10, got {settings.temperature:g}")
    if (
        settings.votes_per_unit is not None
        and settings.votes_per_unit != (settings.votes_per_record or 1)
        and not settings.user
    ):
        raise InputError(
            f"a record casts {settings.votes_per_record or 1} votes, got votes_per_unit {settings.votes_per_unit}; "
            "name a user column, or set votes_per_record alone"
        )
    if (
        settings.budget_epsilon is not None
        and settings.epsilon is not None
        and settings.budget_epsilon < settings.epsilon
    ):
        raise InputError(
            f"budget_epsilon must be at least epsilon, {settings.epsilon:g}, got {settings.budget_epsilon:g}; raise "
            "the budget of the data or lower the epsilon of the run"
        )
    if settings.batch and not settings.generator.startswith("openai:"):
        raise InputError(f"batch is for openai:MODEL, got generator {brief(settings.generator)}; leave it out")
    if settings.label is None and (settings.labels is not None or settings.labels_are_public):
        raise InputError("labels are given without their column; name it as label")
