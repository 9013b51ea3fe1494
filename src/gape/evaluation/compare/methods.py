"""The methods of a comparison by name: presets, selectors, either with a number of votes per record, and a survey."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, Selector
from gape.evaluation.compare.grid import VOTES, Method
from gape.evolution.plan import Plan
from gape.generators.prompts import Prompts
from gape.language.request import LanguageModel
from gape.runs.generator import make_generator, make_prompts, public_texts, writes
from gape.runs.labels import candidate_embedder
from gape.runs.presets import PRESETS
from gape.runs.resolve import make_plan
from gape.runs.selector import estimates_votes, keeps_distinct, make_selector, remembers_votes
from gape.runs.settings import CHOICES, OPERATIONAL, Settings
from gape.selection.local_search import CENTRES

METHODS = ("gape", "augpe", "subsamplepe")
SURVEY = "survey"  # the method that asks the records questions and has no rounds

# Fields of the plan in which a method as published may differ from the others. Samples and rounds stay common: scores
# depend on the number of samples, and the noise on the rounds.
_PUBLISHED = ("scales", "copies", "keep", "initial", "vary_start", "answers")
# The settings in which the generator of a method as published may differ.
_GENERATOR = ("variation", "prompts", "bare_prompts", "distinct")
# Settings that vary between cells, that the plan already holds, or that do not change a result.
_NOT_DESCRIBED = (
    OPERATIONAL | {"epsilon", "seed", "preset", "selector", "prompts", "text"} | {part.name for part in fields(Plan)}
)


@dataclass(frozen=True)
class TextSelector:
    """Makes the selector that the settings name, for the plan of a cell."""

    settings: Settings

    def __call__(self, plan: Plan, units: int) -> Selector:  # noqa: ARG002  (some rules need it)
        """Make the selector."""
        return make_selector(self.settings, plan)

    def __repr__(self) -> str:
        return self._rule() + ("" if self.settings.labels is None else ", labels by the votes of all rounds")

    def _rule(self) -> str:
        chosen = self.settings
        if chosen.selector == "gape-paper":
            return f"gape-paper(separation={chosen.separation!r})"
        if chosen.selector != "gape":
            return chosen.selector
        votes = "remembered" if remembers_votes(chosen) else "estimated" if estimates_votes(chosen) else "noisy"
        distinct = ", distinct" if keeps_distinct(chosen) else ""
        search = f"up to {CENTRES} regions" if remembers_votes(chosen) else f"at least {CENTRES} centres"
        return f"gape(separation={chosen.separation!r}) of {votes} votes, {search}{distinct}"


@dataclass(frozen=True)
class TextBuilder:
    """Makes a worker's generator, and the embedder of its candidates, from the shared model and embedder."""

    settings: Settings
    prompts: Prompts | None = None  # None: made with the shared model, which may be asked for topics

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        """Make both."""
        prompts = self.prompts or make_prompts(self.settings, model, embedder)
        generator = make_generator(self.settings, model, prompts, embedder)
        return generator, candidate_embedder(self.settings, embedder)

    def __repr__(self) -> str:
        """Say what distinguishes the generator. The repr is stored, so it has neither paths nor prompts."""
        described = described_settings(self.settings)
        return ", ".join(f"{name} {described[name]}" for name in _GENERATOR if name in described)


def described_settings(settings: Settings) -> dict[str, str]:
    """Describe settings besides the plan, by name, or by content where a name says too little."""
    described = {
        setting.name: str(value)
        for setting in fields(settings)
        if setting.name not in _NOT_DESCRIBED and (value := getattr(settings, setting.name)) is not None
    }
    if writes(settings):
        prompts = make_prompts(settings, None)
        return described | {"prompts": f"{prompts.name}, {sha256(repr(prompts).encode()).hexdigest()[:12]}"}
    described |= settings.records.describe()
    if settings.own_generator:
        return described
    return described | {"generator": f"corpus of {public_texts(settings)!r}"}


def methods_named(
    names: Sequence[str], settings: Settings, *, by_noise: bool, published: Callable[[str], Settings] | None
) -> tuple[Method, ...]:
    """Return the methods of these names under resolved settings.

    A preset sets its selector, and whether survivors compete with their variations. A selector that is not a preset
    casts the votes of the default, so that the two differ in the rule alone. `NAME:K` casts K votes per record. If
    `by_noise`, the default chooses its votes to suit the noise. `published` resolves the settings of a preset; None if
    all methods share one generator.
    """
    return tuple(_method(name, settings, by_noise=by_noise, published=published) for name in names)


def usual_methods(settings: Settings) -> tuple[str, ...]:
    """Return the methods that are compared unless some are named."""
    return METHODS if settings.rounds else ("gape",)


def given(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from the defaults."""
    values = {setting.name: (getattr(settings, setting.name), setting.default) for setting in fields(settings)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _method(name: str, settings: Settings, *, by_noise: bool, published: Callable[[str], Settings] | None) -> Method:
    base, votes = _parsed(name, settings)
    if base in settings.kind.baselines:
        return _baseline(name, settings)
    if base == SURVEY or not settings.rounds:
        return _without_rounds(name, settings)
    preset = PRESETS.get(base)
    if published and preset:  # gape, the default, has no values of its own
        own = published(base)
        changes = _differences(make_plan(own), make_plan(settings))
    else:
        values = preset or {}
        selector = base if preset is None else values.get("selector", "gape")
        own = settings.with_values(selector=selector, distinct=values.get("distinct", settings.distinct))
        changes = {"keep": values["keep"]} if "keep" in values else {}
    if votes is not None:
        changes |= {"votes_per_record": votes, "votes_per_unit": make_plan(settings).casting(votes).votes_per_unit}
    suits_noise = by_noise and votes is None and (preset is None or own.selector == "gape")
    has_generator = bool(published and preset) and writes(own)
    return Method(
        name,
        TextSelector(own),
        changes,
        len(settings.labels or ("",)) if suits_noise else None,
        estimated=estimates_votes(own.with_values(selector="gape")),  # ranking casts as many votes as the default
        build=TextBuilder(own) if has_generator else None,
        last_pass=keeps_distinct(own),
        described={name: described_settings(own)[name] for name in _GENERATOR} if has_generator else {},
    )


def _without_rounds(name: str, settings: Settings) -> Method:
    """Return the method that decides by a survey alone, which is also the default where there are no rounds."""
    if name not in {SURVEY, "gape"}:
        raise InputError(f"{name} selects by votes, and there are no rounds; give rounds, such as 20, or leave it out")
    own = settings.with_values(survey=1.0, rounds=0)
    changes = {"rounds": 0, "answers": make_plan(own).answers, "votes_per_record": 1, "votes_per_unit": 1}
    return Method(name, TextSelector(own), changes, build=TextBuilder(own))


def _baseline(name: str, settings: Settings) -> Method:
    """Return a method of another library."""
    if settings.user is not None:
        raise InputError(f"{name} protects records, got user {settings.user!r}; leave one of the two out")
    return Method(name, None, baseline=settings.records.baseline(name))


def _parsed(name: str, settings: Settings) -> tuple[str, int | None]:
    """Split a name into a preset or a selector, and its votes per record if it has them."""
    surveyed = [SURVEY] if settings.kind.surveyed and settings.kind.owns(settings.generator) else []
    known = dict.fromkeys([*PRESETS, *CHOICES["selector"], *surveyed, *settings.kind.baselines])
    base, colon, votes = name.partition(VOTES)
    if base not in known:
        raise InputError(
            f"methods must be among {', '.join(known)}, or NAME{VOTES}K to cast K votes per record, got {name!r}"
        )
    if colon and not re.fullmatch(r"[1-9][0-9]{0,5}", votes):
        raise InputError(f"the votes per record of a method must be a whole number from 1 to 999999, got {name!r}")
    return base, int(votes) if colon else None


def _differences(own: Plan, common: Plan) -> dict[str, Any]:
    return {name: getattr(own, name) for name in _PUBLISHED if getattr(own, name) != getattr(common, name)}
