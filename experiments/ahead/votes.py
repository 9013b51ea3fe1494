"""For how many candidates a record should vote among the texts of a corpus: the default beside one vote and AugPE.

    python experiments/ahead/votes.py --private FILE --corpus FILE --text COLUMN --cache DIR --out DIR

As in `run.py`, a fifth of the private texts is held out and scores, and the noise is drawn from a seed. All ways have
the same split, start and guarantee; the noise of k votes is sqrt(k) times as large.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.ahead.run import Shelf, against, options, read, scores, sizes
from experiments.common import free_account, write_rows
from experiments.corpus_text.run import Data, Looked

from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.privacy.noise import SeededNoise
from gape.runs.advice import suitable_votes, usual_delta
from gape.runs.resolve import VARIATIONS
from gape.runs.selector import make_selector
from gape.runs.settings import Settings
from gape.voting.electorate import LocalElectorate

EPSILONS = (0.5, 1.0, 4.0, 100.0)
SEEDS = 3
# The selector, and the votes of each record; None: as many as suit the noise.
WAYS: dict[str, tuple[str, int | None]] = {"one vote": ("gape", 1), "default": ("gape", None), "AugPE": ("ranking", 1)}

Scores = dict[tuple[str, float], list[dict[str, float]]]


def scored(data: Data, shelf: Shelf, way: str, seed: int, plan: Plan) -> dict[str, float]:
    """Run once, and score the last samples by the held-out texts."""
    selector, votes = WAYS[way]
    voters, held_out = data.split(seed)
    plan = plan.casting(suitable_votes(plan, len(voters), estimated=True) if votes is None else votes)
    select = make_selector(Settings(epsilon=plan.epsilon, selector=selector, generator="corpus:public"), plan)
    cast = plan.votes_per_record
    electorate = LocalElectorate(voters, votes_per_record=cast, votes_per_unit=cast)
    with free_account() as account:
        parts = shelf, shelf.embedder, electorate, select
        *_, last = evolve(plan, *parts, account, noise=SeededNoise(seed))
    return {"votes": cast, **scores(held_out, shelf.embedder.embed(last.synthetic))}


def table(found: Mapping[tuple[str, float], Sequence[dict[str, float]]]) -> list[dict[str, Any]]:
    """Return a row for each epsilon and way: means, and how much better than one vote, with 95% t-intervals."""
    return [
        {"epsilon": epsilon, "way": way, "votes": int(runs[0]["votes"]), "seeds": len(runs)}
        | against(runs, found["one vote", epsilon])
        for (way, epsilon), runs in found.items()
    ]


def run(
    out: Path,
    data: Data,
    seeds: int = SEEDS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    samples: int = 200,
    rounds: int = 10,
) -> list[dict[str, Any]]:
    """Make the table in `out`."""
    shelf = Shelf(data.corpus, Looked({text: place for place, text in enumerate(data.corpus)}, data.points))
    scales, copies = VARIATIONS["corpus"]
    delta = usual_delta(len(data.split(0)[0]))
    found: Scores = {}
    for epsilon in epsilons:
        for way in WAYS:
            plans = [
                Plan(epsilon, delta, rounds, samples, scales=scales, copies=copies, seed=seed) for seed in range(seeds)
            ]
            found[way, epsilon] = [scored(data, shelf, way, plan.seed, plan) for plan in plans]
            print(way, epsilon, found[way, epsilon], flush=True)
    rows = table(found)
    write_rows(out, "votes", rows)
    return rows


def main() -> None:
    """Read the options, and run."""
    chosen = options(__doc__, SEEDS, EPSILONS).parse_args()
    run(chosen.out, read(chosen), chosen.seeds, **sizes(chosen))


if __name__ == "__main__":
    main()
