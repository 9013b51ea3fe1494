"""Rules that were tried as the default, each beside ranking with as many votes.

    python experiments/frontier/run.py reddit gape balanced --private FILE --model DIR --embedder DIR --out FOLDER

Options and data are those of experiments/varied_text. NOT differentially private.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.frontier.rules import Tried
from experiments.rules import with_centres
from experiments.varied_text.finer import Finer
from experiments.varied_text.listed import Listed
from experiments.varied_text.paced import Paced, PacedListed
from experiments.varied_text.run import VARIANTS, Variant, main

from gape.core.protocols import Selector
from gape.evolution.plan import Plan
from gape.generators.labels import PerLabel
from gape.selection.remembering import Remembering


@dataclass(frozen=True)
class Make:
    """Makes a rule that was tried for a plan."""

    name: str
    remember: bool = False
    spread: float | None = None
    spare: float = 2.0
    centres: float = 0.5
    distinct: bool = True

    def __call__(self, plan: Plan, labels: tuple[str, ...] | None) -> Selector:
        """Make it."""
        scales = tuple(scale for scale in plan.scales for _ in range(plan.copies))
        parts = (self.remember, self.spread, self.spare, self.centres, self.distinct, labels)
        return Tried(self.name, plan.sigma, scales, *parts)


@dataclass(frozen=True)
class Centres:
    """Makes the default before regions: 50 centres survive, the votes near each decide on the rest."""

    def __call__(self, plan: Plan, labels: tuple[str, ...] | None) -> Selector:
        """Make it."""
        rule = with_centres(plan.samples, distinct=True)
        return Remembering(rule if labels is None else PerLabel(rule, labels), plan.sigma)


def tried(name: str, votes: float = 1.0, **settings: Any) -> Variant:
    """Return a variant of the default with another rule."""
    return Variant(rule=Make(name, **settings), votes=votes)


_PLAIN: dict[str, Any] = {"distinct": False, "last_pass": False}
_CHOSEN = tried("balanced", remember=True)


def without(part: str) -> Variant:
    """Return the rule that was chosen with a part of the default as it was before."""
    own = VARIANTS[f"without-{part}"]
    rule = Make("balanced", remember=True, distinct=part != "families")
    return replace(own, rule=rule, votes=1.0)


TRIED = {
    "chosen": _CHOSEN,
    **{f"chosen-without-{part}": without(part) for part in ("operator", "families", "last-pass", "start")},
    "default": VARIANTS["gape"],
    "listed-start": Variant({"start": True}, writer=Listed),
    "listed-all": Variant({"start": True, "parts": True}, writer=Listed),
    "listed-half": Variant({"share": 0.5}, writer=Listed),
    "listed-half-start": Variant({"start": True, "share": 0.5}, writer=Listed),
    "finer": Variant(writer=Finer),
    "paced": Variant(writer=Paced),
    "paced-start": Variant({"lengths": True}, writer=Paced),
    "paced-start-listed-half": Variant({"lengths": True, "share": 0.5}, writer=PacedListed),
    "gape": VARIANTS["without-memory"],
    "centres": Variant(rule=Centres()),
    "regions-share": tried("regions-share", remember=True),
    **{name: VARIANTS[name] for name in ("augpe", "subsamplepe", "gape-paper")},
    "ranking": Variant(selector="ranking", **_PLAIN),
    "gape-half-votes": Variant(votes=0.5, remembers=False),
    "gape-all": tried("gape", centres=1.0),
    "rank": tried("rank"),
    "rank-half-votes": tried("rank", votes=0.5),
    "remember-rank": tried("rank", remember=True),
    "remember-gape": tried("gape", remember=True),
    "balanced": tried("balanced", spread=0.0),
    "balanced-far": tried("balanced", spread=0.8),
    "remember-balanced": tried("balanced", remember=True, spread=0.0),
    "remember-balanced-far": tried("balanced", remember=True, spread=0.8),
}

if __name__ == "__main__":
    main(TRIED, __doc__)
