"""Whether the budget should be spent unevenly over the rounds, and the first round have fewer candidates.

    python experiments/ahead/budgets.py --private FILE --corpus FILE --text COLUMN --cache DIR --out DIR

A release with noise sigma costs 1 / (2 sigma^2) of zCDP whatever the round, so rounds that take shares a_t of the
budget, of mean 1, have noise sigma / sqrt(a_t). GAPE as runs with a model have it by default, from a start of 2m; in
place of a model a variation is a blend of its sample with one of the 500 nearest public texts, at the scales of
resampling. The noise is drawn from a seed: this is for data that may be looked at.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.ahead.run import against, options, read, scores, sizes
from experiments.common import write_rows
from experiments.corpus_text.run import Data

from gape.core.types import Floats, Points
from gape.evolution.plan import Plan
from gape.runs.advice import usual_delta, votes_against
from gape.selection.local_search import Gape
from gape.voting.several import several_nearest

EPSILONS = (0.5, 1.0, 4.0)
SEEDS = 8
SCALES = (0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.9)  # of resampling at the time
NEIGHBOURS = 500  # public texts that a sample is blended with


@dataclass(frozen=True)
class Way:
    """How to spend: the share of a round, by how far it is from the first (0) to the last (1), before it is scaled."""

    share: Callable[[float], float] = lambda _: 1.0
    varied: bool = True  # whether the first round has variations as the others do, or only the start


WAYS = {
    "evenly": Way(),
    "first round thrice": Way(lambda far: 3.0 if far == 0 else 1.0),
    "last round thrice": Way(lambda far: 3.0 if far == 1 else 1.0),
    "falling to a third": Way(lambda far: 3.0 - 2.0 * far),
    "rising to thrice": Way(lambda far: 1.0 + 2.0 * far),
    "rising to nine times": Way(lambda far: 1.0 + 8.0 * far),
    "evenly, the start alone first": Way(varied=False),
    "rising to thrice, the start alone first": Way(lambda far: 1.0 + 2.0 * far, varied=False),
}


def noises(way: Way, evenly: float, rounds: int) -> Floats:
    """Return the noise of every round, which together cost what `evenly` does in each."""
    shares = np.array([way.share(t / max(rounds - 1, 1)) for t in range(rounds)])
    found: Floats = evenly / np.sqrt(shares / shares.mean())
    return found


def vary(samples: Points, public: Points, rng: np.random.Generator) -> Points:
    """Return the samples, and of each at every scale a blend with a public text near it."""
    count = min(NEIGHBOURS, len(public) - 1)
    near = np.argpartition(-(samples @ public.T), count, axis=1)[:, :count]
    parts = [samples]
    for scale in SCALES:
        drawn = public[near[np.arange(len(samples)), rng.integers(0, count, len(samples))]]
        parts.append((1 - scale) * samples + scale * drawn)
    points = np.concatenate(parts)
    unit: Points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return unit


def scored(data: Data, way: Way, epsilon: float, seed: int, samples: int, rounds: int) -> dict[str, float]:
    """Spend in one way, once, and score the last samples by the held-out texts."""
    voters, held_out = data.split(seed)
    evenly = Plan(epsilon, usual_delta(len(voters)), rounds, samples).sigma
    rng, noise = (np.random.default_rng([seed, *name]) for name in (b"vary", b"noise"))
    chosen = data.points[rng.permutation(len(data.points))[: 2 * samples]]
    for turn, sigma in enumerate(noises(way, evenly, rounds)):
        candidates = vary(chosen, data.points, rng) if turn or way.varied else chosen
        votes = votes_against(sigma, len(voters), len(candidates))
        scale = sigma * math.sqrt(votes)
        counts = np.bincount(several_nearest(voters, candidates, votes).ravel(), minlength=len(candidates))
        noisy = counts + np.rint(scale * noise.normal(size=len(counts))).astype(np.int64)
        select = Gape.without_memory(scale)
        chosen = candidates[select(noisy, candidates, samples, rng).indices]
    return scores(held_out, chosen)


def run(
    out: Path,
    data: Data,
    seeds: int = SEEDS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    samples: int = 200,
    rounds: int = 10,
) -> list[dict[str, Any]]:
    """Make the table in `out`: means over seeds, and how much better than evenly, with 95% t-intervals."""
    rows = []
    for epsilon in epsilons:
        found = {
            name: [scored(data, way, epsilon, seed, samples, rounds) for seed in range(seeds)]
            for name, way in WAYS.items()
        }
        for name, runs in found.items():
            rows.append({"epsilon": epsilon, "way": name, "seeds": seeds} | against(runs, found["evenly"]))
        print(f"epsilon {epsilon:g} is done", flush=True)
    write_rows(out, "budgets", rows)
    return rows


def main() -> None:
    """Read the options, and run."""
    chosen = options(__doc__, SEEDS, EPSILONS).parse_args()
    run(chosen.out, read(chosen), chosen.seeds, **sizes(chosen))


if __name__ == "__main__":
    main()
