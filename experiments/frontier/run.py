"""Rules that were tried as the default, each beside ranking with as many votes.

    python experiments/frontier/run.py reddit gape balanced --private FILE --model DIR --embedder DIR --out FOLDER

Options and data are those of experiments/varied_text. NOT differentially private.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.frontier.rules import Tried
from experiments.varied_text.run import VARIANTS, Variant, main

from gape.core.protocols import Selector
from gape.evolution.plan import Plan


@dataclass(frozen=True)
class Make:
    """Makes a rule that was tried for a plan."""

    name: str
    remember: bool = False
    spread: float = 0.0
    spare: float = 2.0
    centres: float = 0.5

    def __call__(self, plan: Plan) -> Selector:
        """Make it."""
        scales = tuple(scale for scale in plan.scales for _ in range(plan.copies))
        return Tried(self.name, plan.sigma, scales, self.remember, self.spread, self.spare, self.centres)


def tried(name: str, votes: float = 1.0, **settings: Any) -> Variant:
    """Return a variant of the default with another rule."""
    return Variant(rule=Make(name, **settings), votes=votes)


_PLAIN: dict[str, Any] = {"distinct": False, "last_pass": False}

TRIED = {
    "gape": VARIANTS["gape"],
    "augpe": VARIANTS["augpe"],
    "ranking": Variant(selector="ranking", **_PLAIN),
    "gape-half-votes": Variant(votes=0.5),
    "gape-all": Variant(centres=1.0),
    "rank": tried("rank"),
    "rank-half-votes": tried("rank", votes=0.5),
    "remember-rank": tried("rank", remember=True),
    "remember-gape": tried("gape", remember=True),
    "balanced": tried("balanced"),
    "balanced-far": tried("balanced", spread=0.8),
    "remember-balanced": tried("balanced", remember=True),
    "remember-balanced-far": tried("balanced", remember=True, spread=0.8),
    "remember-balanced-half-votes": tried("balanced", remember=True, votes=0.5),
    "remember-balanced-4": tried("balanced", remember=True, spare=4.0),
}

if __name__ == "__main__":
    main(TRIED, __doc__)
