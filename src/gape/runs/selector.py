"""From settings to the rule that picks the survivors, and what it asks of the votes."""

import math
from collections.abc import Callable
from dataclasses import replace

from gape.core.protocols import Selector
from gape.evolution.plan import Plan
from gape.generators.labels import PerLabel
from gape.runs.generator import generator_kind, writes
from gape.runs.settings import Settings
from gape.selection.bounded_lipschitz import BoundedLipschitz
from gape.selection.kmedoids import KMedoids
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling

_FAILURE = 0.05  # the beta of the paper's threshold


def make_selector(settings: Settings, plan: Plan, units: int) -> Selector:
    """Return the rule that picks the survivors."""
    rules: dict[str, Callable[[], Selector]] = {
        "gape": lambda: _gape(settings, plan),
        "ranking": Ranking,
        "subsampling": Subsampling,
        "kmedoids": KMedoids,
        "bounded-lipschitz": lambda: BoundedLipschitz(units * plan.votes_per_unit),
    }
    rule = rules[settings.selector]()
    return rule if settings.labels is None else PerLabel(rule, settings.labels)


def estimates_votes(settings: Settings) -> bool:
    """Whether GAPE estimates votes from all noisy ones before it selects: among texts of a corpus.

    Those are a sample of what there is, so that whom many are near to is known to many. Among texts that a model has
    varied it is not: the nearest are of one family (experiments/ahead).
    """
    return _is_usual(settings) and generator_kind(settings) == "corpus"


def keeps_distinct(settings: Settings) -> bool:
    """Whether near copies are kept out and rewritten: of texts that a model writes, by GAPE as it is by default.

    Other rules, and GAPE as the paper has it, stay what they are.
    """
    usual = settings.selector == "gape" and _is_usual(settings)
    return settings.distinct and usual and settings.records.has_words and writes(settings)


def varies_start(settings: Settings) -> bool:
    """Whether the first round votes on variations of the start, and not on a wide start as it is."""
    if settings.vary_start is not None:
        return settings.vary_start
    return not keeps_distinct(settings)


def votes_suit_noise(settings: Settings) -> bool:
    """Whether it is left to the noise for how many candidates a record votes: where votes are not estimated."""
    open_still = settings.votes_per_record is None and settings.votes_per_unit is None
    usual = settings.selector == "gape" and _is_usual(settings) and not estimates_votes(settings)
    return open_still and usual


def _is_usual(settings: Settings) -> bool:
    return settings.threshold == "auto" and not settings.signed  # an estimate has no negative votes to cancel others


def _gape(settings: Settings, plan: Plan) -> Gape:
    separation = math.inf if settings.separation is None else settings.separation
    if estimates_votes(settings):
        return Gape.for_corpus(plan.sigma, separation=separation)
    if _is_usual(settings):
        return Gape.for_model(plan.sigma, separation=separation, distinct=keeps_distinct(settings))
    if settings.threshold == "auto":
        return Gape(separation, plan.sigma, spare=2.0)
    if settings.threshold == "paper":  # Algorithm 4, line 6
        sigmas = math.sqrt(2 * math.log(6 * plan.rounds * plan.candidates / _FAILURE))
    else:
        sigmas = float(settings.threshold)
    return replace(Gape.paper(separation, sigmas * plan.sigma), signed=settings.signed)
