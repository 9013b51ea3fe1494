"""From settings to the rule that picks the survivors, and what it asks of the votes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gape.core.protocols import Selector
from gape.evolution.plan import Plan
from gape.evolution.theory import paper_threshold
from gape.runs.generator import generator_kind, writes
from gape.runs.labels import per_label
from gape.runs.settings import Settings
from gape.selection.local_search import CENTRES, QUALIFIED, SPARE, Gape
from gape.selection.ranking import Ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.selection.subsampling import Subsampling

_FAILURE = 0.05  # the beta of the paper's threshold


def make_selector(settings: Settings, plan: Plan, recorded: str | None = None) -> Selector:
    """Return the rule that picks the survivors.

    `recorded` is the description of the selector that a run began with. A run that the default of an earlier version
    began is resumed with that rule.
    """
    rules: dict[str, Callable[[], Selector]] = {
        "gape": lambda: _gape(settings, plan),
        "gape-paper": lambda: per_label(settings, _paper(settings, plan)),
        "ranking": lambda: per_label(settings, Ranking()),
        "subsampling": lambda: per_label(settings, Subsampling()),
    }
    rule = rules[settings.selector]()
    if settings.selector == "gape" and recorded not in {None, repr(rule)}:
        return next((earlier for earlier in _earlier(settings, plan) if recorded == repr(earlier)), rule)
    return rule


def threshold_of(plan: Plan) -> float:
    """Return tau of Algorithm 4 for a plan, with the failure probability beta = 0.05."""
    return paper_threshold(plan.sigma, plan.rounds, plan.candidates, _FAILURE)


def estimates_votes(settings: Settings) -> bool:
    """Whether GAPE estimates votes from all noisy ones before it selects: with the texts of a corpus.

    These are a sample of all texts, so a record near one of them is near others as well. Texts that a model has varied
    are not: the nearest ones belong to one family (experiments/ahead).
    """
    return settings.selector == "gape" and generator_kind(settings) == "corpus"


def keeps_distinct(settings: Settings) -> bool:
    """Whether near copies are kept out and rewritten: by the default rule, for texts that a model writes.

    The published methods stay what they are.
    """
    by_default = settings.distinct and settings.selector == "gape"
    return by_default and settings.records.has_words and writes(settings)


def remembers_votes(settings: Settings) -> bool:
    """Whether noisy votes are combined with those of the round before: by default, for texts that a model writes.

    Among rows of a table it made the result worse (experiments/tables).
    """
    return settings.selector == "gape" and settings.records.has_words and writes(settings)


def varies_start(settings: Settings) -> bool:
    """Whether the first round votes on variations of the start instead of a wide start as it is."""
    if settings.vary_start is not None:
        return settings.vary_start
    return not keeps_distinct(settings)


def votes_suit_noise(settings: Settings) -> bool:
    """Whether the noise decides for how many candidates a record votes: by default."""
    left_open = settings.votes_per_record is None and settings.votes_per_unit is None
    return left_open and settings.selector == "gape"


def _gape(settings: Settings, plan: Plan) -> Selector:
    if estimates_votes(settings):
        return per_label(settings, Gape.for_corpus(plan.sigma, separation=_separation(settings)))
    if not remembers_votes(settings):
        return per_label(settings, Gape.without_memory(plan.sigma, plan.samples, separation=_separation(settings)))
    return per_label(settings, Remembering(_regional(settings), plan.sigma))


def _regional(settings: Settings) -> RegionalRanking:
    return RegionalRanking(
        separation=_separation(settings), distinct=keeps_distinct(settings), wording=settings.records.wording
    )


def _earlier(settings: Settings, plan: Plan) -> Iterator[Selector]:
    """The defaults of earlier versions.

    Half of the survivors were centres of the votes, later 50 of them. Then labels had shares of believed votes.
    """
    chosen: dict[str, Any] = {"separation": _separation(settings), "distinct": keeps_distinct(settings)}
    yield per_label(settings, replace(Gape.without_memory(plan.sigma), **chosen))
    spare, centres = max(SPARE, QUALIFIED / plan.samples), min(1.0, CENTRES / plan.samples)
    rule = Gape(threshold=math.inf, spare=spare, signed=False, centres=centres, **chosen)
    yield Remembering(per_label(settings, replace(rule, wording=settings.records.wording)), plan.sigma)
    yield Remembering(per_label(settings, _regional(settings)), plan.sigma)


def _paper(settings: Settings, plan: Plan) -> Gape:
    return Gape.paper(_separation(settings), threshold_of(plan), certify=True)


def _separation(settings: Settings) -> float:
    return math.inf if settings.separation is None else settings.separation
