"""What is varied, one setting at a time, round two centres: GAPE as text runs have it, and the paper's rule."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gape.core.protocols import Selector
from gape.evolution.plan import Plan
from gape.runs.resolve import VARIATIONS
from gape.runs.selector import threshold_of
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking

ROUNDS = 10
PROVED = 5  # at most so many seeds where an optimum is proved, which takes minutes under much noise


@dataclass(frozen=True)
class Setting:
    """A run less its epsilon, seed and size; where nothing is given, it is the default of a text run with a corpus."""

    selector: str = "gape"
    separation: float | None = None  # R
    threshold: float | str = "auto"  # tau, in sigmas
    signed: bool = False
    rule: tuple[tuple[str, Any], ...] = ()  # what else of `Gape` is set otherwise
    scales: tuple[float, ...] = VARIATIONS["corpus"][0]
    rounds: int = ROUNDS  # T
    votes: int = 1  # of a record, each for another candidate

    @property
    def name(self) -> str:
        """What it is told apart by in the stored runs: all that is not as by default."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "rule"}
        changed = {name: value for name, value in values.items() if value != getattr(DEFAULT, name)} | dict(self.rule)
        return "; ".join(f"{name} {_short(value)}" for name, value in changed.items()) or "default"

    @property
    def proved(self) -> bool:
        """Whether it searches to a proven optimum with negative votes."""
        return self.signed and ("certify", False) not in self.rule

    def plan(self, epsilon: float, delta: float, samples: int, seed: int) -> Plan:
        """The plan of one run: the noise follows from epsilon, the rounds and the votes."""
        return Plan(
            epsilon,
            delta,
            self.rounds,
            samples,
            scales=self.scales,
            seed=seed,
            votes_per_unit=self.votes,
            votes_per_record=self.votes,
        )

    def select(self, plan: Plan) -> Selector:
        """Return the rule of a run."""
        if self.selector != "gape":
            return Ranking()
        separation = math.inf if self.separation is None else self.separation
        if self.threshold == "auto":
            made = Gape(separation, plan.sigma, spare=_USUAL_SPARE) if self.signed else Gape.for_corpus(plan.sigma)
            made = replace(made, separation=separation)
        else:
            tau = threshold_of(plan) if self.threshold == "paper" else float(self.threshold) * plan.sigma
            made = Gape(separation, tau, signed=self.signed)
        return replace(made, **dict(self.rule))


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{each:.3g}" for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def spread(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return `count` scales from `low` to `high`, evenly; one alone lies in the middle."""
    values = np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
    return tuple(np.round(values, 4).tolist())


DEFAULT = Setting()
RANKED = Setting(selector="ranking")
UNSIGNED = Setting(rule=(("noise", None),))  # votes as they are, those below zero as zero, the best 2m of them
SIGNED = Setting(
    threshold=1.0, signed=True
)  # Algorithm 5; the threshold of Algorithm 4 leaves too few to tell anything
HELD = replace(SIGNED, rule=(("certify", False),))

HALF = Setting(rule=(("noise", None), ("centres", 0.5)))  # what a model's texts are selected by, with several votes

GAPE, ALGORITHM, K_MEDIAN, AUGPE = "GAPE, default", "GAPE, Algorithm 5 at 1 sigma", "k-median of raw votes", "AugPE"
SEATS = "half centres, half seats"

_LOW, _HIGH = DEFAULT.scales[0], DEFAULT.scales[-1]
_RADII = (1.0, 2.0, 2.5, 3.0, 3.5, 4.0)
_SIGMAS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
_USUAL_SPARE = 2.0
_SPARES = (1.0, 1.3, _USUAL_SPARE, 4.0, 8.0)
_COUNTS = (1, 3, 7, 15)
_TURNS = (1, 2, 5, 10, 20, 40)
_VOTES = (1, 2, 4, 8, 16, 32)
_CENTRES = (0.1, 0.25, 0.5, 0.75)
_SCALES = {
    "0.2-0.4": spread(0.2, 0.4, 7),
    "0.4-0.6": spread(0.4, 0.6, 7),
    "0.6-0.8": spread(0.6, 0.8, 7),
    "0.2-0.8": DEFAULT.scales,
    "0.1-1": spread(0.1, 1.0, 7),
    "all 0.2": (0.2,) * 7,
    "all 0.5": (0.5,) * 7,
    "all 0.8": (0.8,) * 7,
}


def _varied(centres: dict[str, Setting], name: str, values: dict[str, Any]) -> dict[str, dict[str, Setting]]:
    """Vary one field of each centre, and leave its others."""
    return {
        line: {tick: replace(centre, **{name: value}) for tick, value in values.items()}
        for line, centre in centres.items()
    }


def _spare(times: float) -> tuple[tuple[str, float], ...]:
    return () if times == _USUAL_SPARE else (("spare", times),)


_BOTH = {GAPE: DEFAULT, AUGPE: RANKED}

# By sweep, line of its panel, and what stands below its axis.
SWEEPS: dict[str, dict[str, dict[str, Setting]]] = {
    "radius R": _varied(
        {GAPE: DEFAULT, ALGORITHM: SIGNED}, "separation", {**{f"{each:g}": each for each in _RADII}, "none": None}
    ),
    "threshold, in sigma": _varied(
        {ALGORITHM: SIGNED, K_MEDIAN: DEFAULT},  # with a number for a threshold, votes are taken as they are
        "threshold",
        {**{f"{each:g}": each for each in _SIGMAS}, "paper": "paper"},
    ),
    "candidates searched, in m": {
        line: {f"{each:g}": replace(centre, rule=(*centre.rule, *_spare(each))) for each in _SPARES}
        for line, centre in {GAPE: DEFAULT, K_MEDIAN: UNSIGNED}.items()
    },
    "what is made of the votes": {
        "": {
            "ranked, raw": RANKED,
            "ranked, est.": Setting(rule=_spare(1.0)),
            "raw": UNSIGNED,
            "estimated": DEFAULT,
            "signed, held": HELD,
            "signed": SIGNED,
        }
    },
    "variations per survivor": _varied(_BOTH, "scales", {str(count): spread(_LOW, _HIGH, count) for count in _COUNTS}),
    "scales of seven variations": _varied(_BOTH, "scales", dict(_SCALES)),
    "rounds T, same epsilon": _varied(_BOTH, "rounds", {str(turns): turns for turns in _TURNS}),
    "votes of a record": _varied(
        {K_MEDIAN: UNSIGNED, SEATS: HALF, AUGPE: RANKED}, "votes", {str(votes): votes for votes in _VOTES}
    ),
    "share searched for": {
        line: {
            **{f"{each:g}": replace(centre, rule=(*centre.rule, ("centres", each))) for each in _CENTRES},
            "1": centre,
        }
        for line, centre in {GAPE: DEFAULT, K_MEDIAN: UNSIGNED}.items()
    },
}
