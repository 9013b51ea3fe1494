"""Resolving settings: values left open follow from other settings and from public numbers."""

from pathlib import Path
from typing import Any, cast

from gape.core.errors import InputError, PrivacyError
from gape.distributed.cluster import RayElectorate
from gape.evolution.plan import Plan
from gape.generators.labels import refuse_other_labels
from gape.generators.prompts import load
from gape.generators.topic_survey import times_for
from gape.language.locate import KINDS, check_name
from gape.modalities import Columns
from gape.privacy.accounting import Neighbours
from gape.runs.advice import samples_for, suitable_votes, usual_delta
from gape.runs.electorate import Private, units_of
from gape.runs.generator import generator_kind, kind_of, naming_the_corpus, writes
from gape.runs.labels import known_labels
from gape.runs.presets import START
from gape.runs.selector import estimates_votes, varies_start, votes_suit_noise
from gape.runs.settings import Settings
from gape.runs.spending import refuse_idle_caps
from gape.voting.store import VectorFolder

MOST_SURVEYED = 10_000  # rows that fit a survey; `gape expand` makes more

# Scales and copies of each way to vary a text: seven variations, because their number mattered most. Three of the
# resampled ones are new texts like the sample, which can survive beside it; a new beginning and a new end of it can
# survive beside each other (experiments/varied_text). The scale of a corpus is an exponent: of 10,000 texts, the
# nearest 6 to 1,600.
VARIATIONS: dict[str, tuple[tuple[float, ...], int]] = {
    "resample": ((0.6, 0.6, 0.6, 0.6, 0.9, 0.9, 0.9), 1),
    "rephrase": ((1.0,), 7),
    "corpus": ((0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), 1),
}


def resolved(settings: Settings, private: Private) -> Settings:
    """Return the settings as they will be used, with everything filled in that follows from public numbers."""
    if isinstance(private, VectorFolder):
        settings = _of_folder(settings, private)
    refuse_unknown(settings)
    if settings.neighbours == "add_remove":
        _refuse_what_counts(settings)
    variation, scales, copies = variations_of(settings)
    units = units_of(private)
    delta = usual_delta(units) if settings.delta is None else settings.delta
    samples = (
        settings.samples
        or _surveyed_rows(settings, units)
        or samples_for(
            units,
            _known(settings.epsilon),
            delta,
            settings.rounds,
            len(scales) * copies + int(settings.keep),
            neighbours=cast(Neighbours, settings.neighbours),
            votes_per_unit=(settings.votes_per_unit or 1) // (settings.votes_per_record or 1) or 1,
        )
    )
    labels = _labels(settings, private)
    vary_start = varies_start(settings)
    start = START[settings.preset] if vary_start or not settings.rounds else len(scales) * copies + int(settings.keep)
    settings = settings.with_values(
        labels=labels,
        delta=delta,
        samples=samples,
        initial=settings.initial or max(start * samples, len(labels or ())),
        vary_start=vary_start,
        variation=variation,
        scales=scales,
        copies=copies,
    )
    if labels is not None and _known(settings.initial) < len(labels):
        raise InputError(
            f"initial must be at least {len(labels)}, one text per label, got {settings.initial}; raise it"
        )
    votes = settings.votes_per_record or (_votes_per_record(settings, units) if settings.rounds else 1)
    return settings.with_values(votes_per_record=votes, votes_per_unit=settings.votes_per_unit or votes)


def _surveyed_rows(settings: Settings, units: int) -> int | None:
    """Return the number of rows if a survey alone decides: as many as there are records, up to a limit."""
    return min(max(units, 1), MOST_SURVEYED) if settings.survey and not settings.rounds else None


def _refuse_what_counts(settings: Settings) -> None:
    """Refuse defaults that depend on the number of records if that number is private."""
    for name, example in (("delta", "1e-6"), ("samples", "500")):
        if getattr(settings, name) is None:
            raise InputError(
                f"under neighbours add_remove the number of records is private, and {name} would follow from it; give "
                f"{name}, {example} for instance, or use neighbours replace"
            )


def _votes_per_record(settings: Settings, units: int) -> int:
    if not votes_suit_noise(settings) or settings.neighbours == "add_remove":
        return 1
    plan = make_plan(settings.with_values(votes_per_record=1, votes_per_unit=1))
    kinds = len(settings.labels or ("",))
    return suitable_votes(plan, units, kinds=kinds, estimated=estimates_votes(settings))


def make_plan(settings: Settings, begun: Plan | None = None) -> Plan:
    """Return the plan of resolved settings. A run that was begun keeps its survey, maybe of an earlier version."""
    return Plan(
        epsilon=_known(settings.epsilon),
        delta=_known(settings.delta),
        rounds=settings.rounds,
        samples=_known(settings.samples),
        scales=_known(settings.scales),
        copies=_known(settings.copies),
        keep=settings.keep,
        initial=_known(settings.initial),
        vary_start=_known(settings.vary_start),
        neighbours=cast(Neighbours, settings.neighbours),
        votes_per_unit=_known(settings.votes_per_unit),
        votes_per_record=_known(settings.votes_per_record),
        seed=settings.seed,
        answers=_answers(settings) if begun is None else begun.answers,
    )


def _answers(settings: Settings) -> tuple[int, ...]:
    """Return the number of answers of a unit to each release of the survey."""
    if not settings.survey:
        return ()
    if settings.kind.owns(settings.generator):
        return settings.records.survey_answers()
    return (times_for(settings.survey, settings.rounds * _known(settings.votes_per_unit)),)


def variations_of(settings: Settings) -> tuple[str | None, tuple[float, ...], int]:
    """Return how texts are varied, at which scales, and how often at each."""
    kind = generator_kind(settings)
    own = settings.own_generator
    usual = None if own else {"openai": "rephrase", "corpus": None}.get(kind, "resample")
    variation = settings.variation or usual
    if kind == "corpus":
        _check_corpus(settings)
    for spec in (settings.generator, *(settings.also or ())):
        if kind_of(spec, settings.writers, "generator") in KINDS and not own:
            check_name(spec.partition(":")[2])
    if kind == "openai" and variation == "resample":
        raise InputError(
            "variation 'resample' needs a model that can continue an opening, and a chat service cannot; use 'rephrase'"
        )
    if own:
        scales, copies = settings.records.scales, 1
    else:
        scales, copies = VARIATIONS[variation if variation and writes(settings) else kind]
    if settings.scales is not None:
        scales, copies = settings.scales, 1
    return variation, scales, settings.copies or copies


def _check_corpus(settings: Settings) -> None:
    """Refuse a corpus that is missing, that is the private data, or whose text column is not clear."""
    file = settings.generator.partition(":")[2]
    if not Path(file).exists():
        raise InputError(f"there is no corpus {file}; name a file of public texts after corpus:")
    if settings.data and Path(settings.data).exists() and Path(settings.data).samefile(file):
        raise PrivacyError(
            f"{file} is the private data, and a corpus is published unchanged; name a file of public texts"
        )
    with naming_the_corpus():
        settings.records.check_corpus(file, Columns(settings.corpus_text, settings.label))


def refuse_unknown(settings: Settings) -> None:
    """Refuse settings that are wrong for any data: a missing epsilon, or unknown parts."""
    if settings.epsilon is None:
        raise InputError("epsilon must be given; 1 is a strong guarantee, 8 a weak one, inf none at all")
    kind_of(settings.embedder, settings.kind.comparers(), "embedder")
    if settings.painter is not None:
        kind_of(settings.painter, settings.kind.painters, "painter")
    settings.records  # noqa: B018  (rejects a schema that is not one)
    refuse_idle_caps(settings)
    if settings.prompts is not None:
        named = load(settings.prompts).topics  # refuses unknown prompts
        if settings.survey and writes(settings) and not named:
            raise InputError(
                f"a survey asks for topics, and the prompts {settings.prompts} name none; add {{topic}} to them, or "
                "leave the survey out"
            )
    variations_of(settings)


def _of_folder(settings: Settings, folder: VectorFolder) -> Settings:
    """Merge settings with those of the embedded vectors. A run must not read the data in another way.

    The ledger is that of the texts, which have one budget however they are read.
    """
    origin = folder.manifest.origin
    for name, column in origin.columns.items():
        asked = getattr(settings, name)
        if asked is not None and asked != column:
            had = "without one" if column is None else f"with {column!r}"
            raise InputError(
                f"{folder.path} was embedded {had} as {name}, not {asked!r}; embed the data again for that"
            )
    return settings.with_values(user=origin.columns["user"], ledger=settings.ledger or folder.ledger)


def _labels(settings: Settings, private: Private) -> tuple[str, ...] | None:
    labels = known_labels(settings)
    if settings.label is None or isinstance(private, RayElectorate):
        return labels
    occurring = private.manifest.labels if isinstance(private, VectorFolder) else private.labels
    if occurring is None:
        return labels
    if labels is not None:
        refuse_other_labels(occurring, labels)
        return labels
    if not settings.labels_are_public:
        raise InputError(
            "which labels occur is private; list all possible labels with labels (--labels), or set labels_are_public "
            "(--labels-are-public) if they are public"
        )
    return tuple(sorted(set(occurring)))


def _known(value: Any) -> Any:
    if value is None:
        raise InputError("these settings are not resolved; pass them through gape.runs.resolve.resolved")
    return value
