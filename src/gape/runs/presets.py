"""The methods that a run can have, as defaults of its settings."""

from collections.abc import Mapping
from typing import Any

from gape._support.values import brief
from gape.core.errors import InputError
from gape.modalities import Modality

# Three methods as published: 7 rephrasings of each sample, m = 2,000, T = 10, a start of 2m. SubsamplePE alone does not
# keep the selected samples among the candidates. What is not listed is as for gape, the default of this package.
_PUBLISHED: Mapping[str, Any] = {
    "samples": 2000,
    "rounds": 10,
    "variation": "rephrase",
    "distinct": False,
    "survey": 0.0,
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "gape": {},
    "gape-paper": {**_PUBLISHED, "selector": "gape-paper", "bare_prompts": True},
    "augpe": {**_PUBLISHED, "selector": "ranking"},
    "subsamplepe": {**_PUBLISHED, "selector": "subsampling", "keep": False},
}
START = {"gape": 1, "gape-paper": 2, "augpe": 2, "subsamplepe": 2}  # the size of S(0), in multiples of m


def survey_defaults(kind: type[Modality], usual: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of records that answer a survey: it replaces the rounds if it has the whole budget."""
    own = kind.surveyed and values.get("generator", kind.name) == kind.name
    share = values.get("survey", usual.get("survey", 1.0) if own and "rounds" not in values else 0.0)
    return {"survey": share, "rounds": 0} if share == 1 else {}


def refuse_survey(kind: type[Modality], share: float, rounds: int, generator: str, *, bare: bool) -> None:
    """Reject a survey that the records cannot answer, or whose share does not suit them."""
    if not 0 <= share <= 1:
        raise InputError(f"survey must be a share of the budget, from 0 to 1, got {share:g}; use 0 for none")
    own = kind.surveyed and generator == kind.name
    if not share:
        return
    if not own and (not kind.has_words or kind.owns(generator)):
        raise InputError(f"{kind.nouns} by the generator {brief(generator)} answer no survey; leave it out")
    if own and share < 1:
        raise InputError(f"{kind.nouns} answer a survey with the whole budget or none, got {share:g}; use 1 or 0")
    if not own and (share == 1 or rounds == 0):
        raise InputError(
            f"{kind.nouns} need rounds after a survey, got survey {share:g} and rounds {rounds}; use a share below 1"
        )
    if bare and not own:
        raise InputError("a survey asks for topics, and with bare_prompts no prompt names one; leave out one of them")
