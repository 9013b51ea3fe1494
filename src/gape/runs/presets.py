"""The methods that a run can have, as defaults of its settings."""

from collections.abc import Mapping
from typing import Any

from gape.modalities import Modality

# Three methods as published: 7 rephrasings of each sample, m = 2,000, T = 10, a start of 2m. SubsamplePE alone does not
# keep the selected samples among the candidates. What is not listed is as for gape, the default of this package.
_PUBLISHED: Mapping[str, Any] = {
    "samples": 2000,
    "rounds": 10,
    "variation": "rephrase",
    "distinct": False,
    "survey": False,
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "gape": {},
    "gape-paper": {**_PUBLISHED, "selector": "gape-paper", "bare_prompts": True},
    "augpe": {**_PUBLISHED, "selector": "ranking"},
    "subsamplepe": {**_PUBLISHED, "selector": "subsampling", "keep": False},
}
START = {"gape": 1, "gape-paper": 2, "augpe": 2, "subsamplepe": 2}  # the size of S(0), in multiples of m


def survey_defaults(kind: type[Modality], usual: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of records that answer a survey: it replaces the rounds, unless one of them is given."""
    own = values.get("generator", kind.name) == kind.name
    asks = values.get("survey", kind.surveyed and own and "rounds" not in values and usual.get("survey", True))
    return {"survey": asks, "rounds": 0} if asks and kind.surveyed else {}
