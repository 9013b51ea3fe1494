"""The method of a run in words. Plan, report and dataset card say the same, because they all ask here."""

from dataclasses import dataclass

from gape.runs.selector import estimates_votes, remembers_votes
from gape.runs.settings import Settings

_SURVEY = (
    "Noisy counts of columns and of pairs of columns, and rows that fit them; there are no rounds of Private Evolution."
)
_REGIONS = "the candidate with the most votes in each of up to 50 regions survives before the rest are ranked"
_SHARES = "beyond the first half, survivors are chosen in proportion to the votes"
_DEPARTS = "no theorem of the paper covers it"


@dataclass(frozen=True)
class Method:
    """How a run selects its survivors."""

    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.name}. {self.sentence}"


def method_in_words(settings: Settings) -> Method:
    """Name the method that settings describe, and say in one sentence how it relates to the paper."""
    if settings.survey and not settings.rounds:
        return Method("Survey", _SURVEY)
    methods = {"gape": _default, "gape-paper": _paper, "ranking": _ranking, "subsampling": _subsampling}
    if settings.selector not in methods:
        return Method(settings.selector, "This version does not describe it.")
    return methods[settings.selector](settings)


def _default(settings: Settings) -> Method:
    estimated, remembered = estimates_votes(settings), remembers_votes(settings)
    departures = [
        "a survey decides which topics the first texts are about"
        if settings.survey and settings.kind.has_words
        else "",
        _votes(settings) if settings.votes_per_record != 1 else "",
        "votes are estimated from all noisy votes" if estimated else "",
        "noisy votes are combined with those of the previous round" if remembered else "",
        "negative votes are dropped",
        "distances are not truncated at R/3" if settings.separation is None else "",
        "there is no fixed threshold for votes",
        "" if estimated else _REGIONS if remembered else _SHARES,
    ]
    *others, last = (departure for departure in departures if departure)
    return Method(
        "GAPE, variant for a corpus" if estimated else "GAPE, practical variant",
        f"It departs from the paper's GAPE: {', '.join(others)}, and {last}; {_DEPARTS}.",
    )


def _paper(settings: Settings) -> Method:
    several = settings.votes_per_record not in {None, 1}
    departure = f", except that {_votes(settings)}, so {_DEPARTS}" if several else ""
    return Method(
        "GAPE as in the paper",
        "Algorithms 4 and 5 as printed: signed votes, the paper's threshold, distances truncated at R/3 with R = "
        f"{settings.separation:g}, and local search to a certified optimum{departure}.",
    )


def _ranking(settings: Settings) -> Method:
    return Method("Ranking, as in AugPE", f"The candidates with the most noisy votes survive; {_votes(settings)}.")


def _subsampling(settings: Settings) -> Method:
    return Method(
        "Subsampling, as in SubsamplePE",
        f"Survivors are drawn at random in proportion to their noisy votes; {_votes(settings)}.",
    )


def _votes(settings: Settings) -> str:
    if settings.votes_per_record is None:
        return "a record may vote for several candidates"
    count = settings.votes_per_record
    return "each record votes for one candidate" if count == 1 else f"each record votes for {count} candidates"
