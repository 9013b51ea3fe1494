"""What the exact local search costs at the paper's scale, stage by stage, and what it buys.

    python benchmarks/selection.py                      # 16,000 candidates, m = 2,000, 384 dimensions
    python benchmarks/selection.py --dimension 768 --limit 600

Every line is a run of its own process. A search that reaches `--limit` seconds is stopped, and its line says so.
"""

import argparse
import multiprocessing
import resource
import time
from dataclasses import dataclass

import numpy as np

from gape.privacy.accounting import noise_scale
from gape.selection.effort import Progress
from gape.selection.local_search import local_search
from gape.selection.objective import flow_cost, signed_points
from gape.selection.ranking import ranking
from gape.types import Floats, NoisyVotes, Points
from gape.voting.nearest import nearest_votes

COPIES = 8  # a sample and seven variations
CLUSTERS = 60
VOTES_PER_CANDIDATE = 75_000 / 16_000
DELTA = 1.1878e-6
ROUNDS = 10


@dataclass(frozen=True)
class Case:
    epsilon: float
    threshold: float  # in units of sigma


CASES = (Case(1, 2), Case(1, 1), Case(8, 2), Case(8, 0), Case(1, 0))


def instance(candidates: int, dimension: int, sigma: float) -> tuple[Points, Points, NoisyVotes]:
    """Unbalanced clusters of unit-norm records; candidates are samples near them with their variations."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLUSTERS, dimension))
    shares = 1 / np.arange(1, CLUSTERS + 1)
    shares /= shares.sum()

    def near(count: int, spread: float) -> Points:
        drawn = centres[rng.choice(CLUSTERS, size=count, p=shares)] + spread * rng.normal(size=(count, dimension))
        return unit(drawn)

    private = near(round(VOTES_PER_CANDIDATE * candidates), 0.7)
    samples = np.repeat(near(-(-candidates // COPIES), 0.8), COPIES, axis=0)[:candidates]
    moved = samples + 0.6 / np.sqrt(dimension) * rng.normal(size=samples.shape)
    points = unit(moved)
    noise = np.rint(sigma * rng.normal(size=candidates)).astype(np.int64)  # a benchmark: not a release
    return private, points, nearest_votes(private, points) + noise


def unit(vectors: Floats) -> Points:
    scaled: Points = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


class Stages:
    """Notes when each effort of the search ends, and stops it at the limit."""

    def __init__(self, limit: float) -> None:
        self.start = time.perf_counter()
        self.limit = limit
        self.ends: dict[str, tuple[float, float, int]] = {}

    def __call__(self, progress: Progress) -> None:
        spent = time.perf_counter() - self.start
        self.ends[progress.effort.name] = (spent, progress.cost, progress.swaps)

        if spent > self.limit:
            raise KeyboardInterrupt


def measure(case: Case, candidates: int, size: int, dimension: int, limit: float) -> None:
    sigma = noise_scale(case.epsilon, DELTA, ROUNDS)
    private, points, votes = instance(candidates, dimension, sigma)
    threshold = case.threshold * sigma
    signed = signed_points(points, votes, np.inf)
    print(f"\nepsilon {case.epsilon:g} (sigma {sigma:.4g}), threshold {case.threshold:g} sigma: ", end="")
    print(f"{len(signed.sources):,} positive, {len(signed.sinks):,} negative, {(votes > threshold).sum():,} above")
    local_search(points[:50], votes[:50], 3, separation=np.inf, threshold=0.0)  # compiled before the clock starts
    began = time.perf_counter()
    start = ranking(votes, size)
    by_rank = flow_cost(points, votes, start, np.inf)
    one_flow = time.perf_counter() - began
    stages = Stages(limit)
    result = local_search(points, votes, size, separation=np.inf, threshold=threshold, progress=stages)
    took = time.perf_counter() - stages.start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    clipped = local_search(
        points, np.maximum(votes, 0), size, separation=np.inf, threshold=max(threshold, 0.0), certify=False
    )
    free = max(result.candidates - size, 0)
    print(f"  {'ranking':<18} {one_flow:8.1f} s  objective {by_rank:12.2f}  (distances and one flow)")
    for name, (spent, cost, swaps) in stages.ends.items():
        print(f"  {name.lower():<18} {spent:8.1f} s  objective {cost:12.2f}  {swaps} swaps")
    state = "certified" if result.certified else f"stopped at {limit:g} s, not certified"
    print(f"  {state} after {took:.1f} s, peak {memory:,.0f} MB")
    print(
        f"  naive: {size * free:,} swaps a pass, a flow each: about {size * free * one_flow / 3600:,.0f} hours a pass"
    )
    exact_clipped = flow_cost(points, votes, clipped.indices, np.inf)
    print(f"  negatives clipped to zero: objective {exact_clipped:.2f} ({exact_clipped / result.cost - 1:+.2%})")
    for name, chosen in (("ranking", start), ("clipped", clipped.indices), ("exact", result.indices)):
        mean, worst = distances_to(private, points[chosen])
        print(f"  records to nearest selected, {name:<8} mean {mean:.4f}, largest {worst:.4f}")


def distances_to(private: Points, chosen: Points) -> tuple[float, float]:
    """Mean and largest distance of the records to the nearest selected point."""
    least = [
        np.sqrt(np.maximum(2 - 2 * (private[i : i + 2048] @ chosen.T).max(axis=1), 0))
        for i in range(0, len(private), 2048)
    ]
    gaps = np.concatenate(least)
    return float(gaps.mean()), float(gaps.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=16_000)
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many settings")
    asked = parser.parse_args()
    print(f"{asked.candidates:,} candidates, {asked.size:,} selected, {asked.dimension} dimensions, float64")
    context = multiprocessing.get_context("spawn")  # so that the peak memory is that of one case
    for case in CASES[: asked.cases]:
        arguments = (case, asked.candidates, asked.size, asked.dimension, asked.limit)
        process = context.Process(target=measure, args=arguments)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
