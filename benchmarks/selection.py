"""The cost of the exact local search at the paper's scale, stage by stage, and its benefit.

    python benchmarks/selection.py                                  # 16,000 candidates, m = 2,000, 384 dimensions
    python benchmarks/selection.py --dimension 768 --limit 600 --search    # the search alone
    python benchmarks/selection.py --candidates 80000 --size 10000 --dimension 768 --memory 15e9 --held --limit 1800
    python benchmarks/selection.py --candidates 80000 --size 10000 --default    # what a run with a model selects by

Points are made up, with the intrinsic dimension of text variations (the paper's appendix finds about 20) in the ambient
dimension of their embeddings. Each line is a separate process. A search that reaches `--limit` seconds is stopped, and
its line says so. If the package kmedoids is installed (GPL, hence not a dependency), its FasterPAM on the clipped votes
is shown for comparison.
"""

import argparse
import importlib
import multiprocessing
import resource
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from gape._support.geometry import distances
from gape.core.types import Floats, Indices, NoisyVotes, Points
from gape.privacy.accounting import noise_scale
from gape.selection.flow.effort import SearchProgress
from gape.selection.flow.objective import flow_cost, signed_points
from gape.selection.local_search import local_search
from gape.selection.ranking import ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import believed_votes
from gape.voting.nearest import nearest_votes
from gape.voting.several import several_nearest

COPIES = 8  # a sample and seven variations
CLUSTERS = 60
VOTES_PER_CANDIDATE = 75_000 / 16_000
DELTA = 1.1878e-6
ROUNDS = 10
VOTERS, VOTES = 15_000, 64  # of a run on Reddit's posts at epsilon 1
NAIVE_TOO_LARGE = 20_000  # with more candidates, a separate flow does not fit into memory


@dataclass(frozen=True)
class Case:
    epsilon: float
    threshold: float  # in units of sigma


@dataclass(frozen=True)
class Size:
    candidates: int
    selected: int
    dimension: int
    latent: int


CASES = (Case(1, 2), Case(1, 1), Case(1, 0), Case(8, 2), Case(8, 1), Case(8, 0))


def instance(size: Size, sigma: float) -> tuple[Points, Points, NoisyVotes]:
    """Unbalanced clusters of unit-norm records; candidates are samples near them with their variations."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLUSTERS, size.latent))
    shares = 1 / np.arange(1, CLUSTERS + 1)
    shares /= shares.sum()
    lift = rng.normal(size=(size.latent, size.dimension)) / np.sqrt(size.dimension)

    def near(count: int, spread: float) -> Floats:
        drawn: Floats = centres[rng.choice(CLUSTERS, size=count, p=shares)]
        return drawn + spread * rng.normal(size=(count, size.latent))

    def lifted(latent: Floats) -> Points:
        flat = latent @ lift
        flat += 0.02 * np.sqrt(size.latent / size.dimension) * rng.normal(size=flat.shape)
        unit: Points = (flat / np.linalg.norm(flat, axis=1, keepdims=True)).astype(np.float32)
        return unit

    private = near(round(VOTES_PER_CANDIDATE * size.candidates), 0.7)
    samples = np.repeat(near(-(-size.candidates // COPIES), 0.8), COPIES, axis=0)[: size.candidates]
    moved = samples + 0.6 / np.sqrt(size.latent) * rng.normal(size=samples.shape)
    votes = nearest_votes(private.astype(np.float32), moved.astype(np.float32))
    noise = np.rint(sigma * rng.normal(size=len(votes))).astype(np.int64)  # a benchmark: not a release
    return lifted(private), lifted(moved), votes + noise


class Stages:
    """Records when each effort of the search ends, and stops it at the limit."""

    def __init__(self, limit: float) -> None:
        self.start, self.cpu = time.perf_counter(), time.process_time()
        self.limit = limit
        self.ends: dict[str, tuple[float, float, float, int]] = {}

    def __call__(self, progress: SearchProgress) -> None:
        spent = time.perf_counter() - self.start
        cpu = time.process_time() - self.cpu
        self.ends[progress.effort.name] = (spent, cpu, progress.cost, progress.swaps)
        if spent > self.limit:
            raise KeyboardInterrupt


def measure(case: Case, size: Size, limit: float, memory: float, *, certify: bool, alone: bool) -> None:
    sigma = noise_scale(case.epsilon, DELTA, ROUNDS)
    private, points, votes = instance(size, sigma)
    threshold = case.threshold * sigma
    signed = signed_points(points, votes, np.inf)
    print(f"\nepsilon {case.epsilon:g} (sigma {sigma:.4g}), threshold {case.threshold:g} sigma: ", end="")
    print(f"{len(signed.sources):,} positive, {len(signed.sinks):,} negative, {(votes > threshold).sum():,} above")
    for compile_for in (1_000, 5_000):  # before the clock starts, distances in float64 and in float32
        some = slice(compile_for)
        local_search(points[some], votes[some], 3, separation=np.inf, threshold=2 * sigma)
    stages = Stages(limit)
    result = local_search(
        points, votes, size.selected, separation=np.inf, threshold=threshold, certify=certify, memory=memory,
        progress=stages,
    )  # fmt: skip
    took, cpu = time.perf_counter() - stages.start, time.process_time() - stages.cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, (spent, worked, cost, swaps) in stages.ends.items():
        print(f"  {name.lower():<18} {spent:8.1f} s, {worked:7.1f} s of work  objective {cost:12.2f}  {swaps} swaps")
    state = "certified" if result.certified else f"stopped at {limit:g} s" if result.interrupted else "flow held"
    print(
        f"  {state} after {took:.1f} s, {cpu:.1f} s of work, {result.method}, peak {peak:,.0f} MB, "
        f"objective {result.cost:.2f}",
        flush=True,
    )
    if alone:
        return
    selected = {"exact": result.indices, "ranking": ranking(votes, size.selected)}
    clipped = np.maximum(votes, 0)
    selected["clipped"] = local_search(
        points, clipped, size.selected, separation=np.inf, threshold=max(threshold, 0.0), certify=False, memory=memory
    ).indices
    fasterpam = by_fasterpam(points, clipped, size.selected, threshold)
    if fasterpam is not None:
        selected["kmedoids"] = fasterpam
    if size.candidates <= NAIVE_TOO_LARGE:
        began = time.perf_counter()
        for name, chosen in selected.items():
            cost = flow_cost(points, votes, chosen, np.inf)
            print(f"  objective, {name:<8} {cost:12.2f} ({cost / result.cost - 1:+.2%})")
        one_flow = (time.perf_counter() - began) / len(selected)
        swaps = size.selected * max(result.candidates - size.selected, 0)
        print(f"  naive: {swaps:,} swaps a pass, {one_flow:.1f} s for a flow: {swaps * one_flow / 3600:,.0f} hours")
    for name, chosen in selected.items():
        print(f"  records to nearest selected, {name:<8} {quality(private, points[chosen])}")


def measure_default(size: Size) -> None:
    """Time the default selection of a run with a model at epsilon 1, on votes as a first round believes them."""
    sigma = noise_scale(1, DELTA, ROUNDS) * np.sqrt(VOTES)
    private, points, _ = instance(size, 0.0)
    counts = np.bincount(several_nearest(private[:VOTERS], points, VOTES).ravel(), minlength=len(points))
    votes = counts + np.rint(sigma * np.random.default_rng(0).normal(size=len(counts))).astype(np.int64)
    believed, select = believed_votes(votes, sigma, np.zeros(len(votes)), None), RegionalRanking()
    rng = np.random.default_rng(0)
    for some in (slice(1_000), slice(6_000)):  # before the clock starts
        select(believed[some], points[some], 300, rng)
    began, worked = time.perf_counter(), time.process_time()
    found = select(believed, points, size.selected, rng)
    took, cpu = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{(votes > 0).sum():,} positive of {len(votes):,}, {found.candidates:,} searched, {found.swaps:,} swaps")
    print(f"objective {found.cost:.1f}")
    print(f"{len(found.indices):,} selected after {took:.1f} s, {cpu:.1f} s of work, {found.method}, ", end="")
    print(f"{'certified' if found.certified else 'not certified'}, peak {peak:,.0f} MB")


def by_fasterpam(points: Points, votes: NoisyVotes, size: int, threshold: float) -> Indices | None:
    """Select with the package kmedoids, which has no weights: unweighted, among the candidates above the threshold."""
    above = np.flatnonzero(votes > threshold)
    try:
        kmedoids = importlib.import_module("kmedoids")
    except ImportError:
        print("  kmedoids is not installed: no FasterPAM")
        return None
    if len(above) <= size or len(above) > NAIVE_TOO_LARGE:
        return None
    matrix = distances(points[above], points[above]).astype(np.float32)
    began = time.perf_counter()
    found = kmedoids.fasterpam(matrix, size, random_state=0)
    print(f"  kmedoids' FasterPAM, unweighted: {time.perf_counter() - began:.1f} s")
    return above[np.asarray(found.medoids, dtype=np.int64)]


def quality(private: Points, chosen: Points) -> str:
    """Return mean and largest distance of records to the nearest selected point, and W1 between samples of both."""
    gaps = np.concatenate(
        [
            np.sqrt(np.maximum(2 - 2 * (private[i : i + 2048] @ chosen.T).max(axis=1), 0))
            for i in range(0, min(len(private), 75_000), 2048)
        ]
    )
    rng = np.random.default_rng(1)
    count = min(len(chosen), 2000)
    costs = distances(
        private[rng.choice(len(private), count, replace=False)], chosen[rng.permutation(len(chosen))[:count]]
    )
    wasserstein = costs[linear_sum_assignment(costs)].mean()
    return f"mean {gaps.mean():.4f}, largest {gaps.max():.4f}, W1 of {count:,} and {count:,}: {wasserstein:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=16_000)
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--latent", type=int, default=16, help="intrinsic dimension of the points")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--memory", type=float, default=4e9)
    parser.add_argument("--held", action="store_true", help="stop at the optimum with the flow held")
    parser.add_argument("--search", action="store_true", help="measure the search alone, not what it buys")
    parser.add_argument(
        "--default", action="store_true", help="time what runs with a model select by, and nothing else"
    )
    parser.add_argument("--cases", default="123456", help="which settings, by number")
    asked = parser.parse_args()
    size = Size(asked.candidates, asked.size, asked.dimension, asked.latent)
    print(f"{size.candidates:,} candidates, {size.selected:,} selected, ", end="")
    print(f"{size.latent} dimensions in {size.dimension}, memory {asked.memory:g}", flush=True)
    if asked.default:
        measure_default(size)
        return
    context = multiprocessing.get_context("spawn")  # so that the peak memory is that of one case
    for number in asked.cases:
        arguments = (CASES[int(number) - 1], size, asked.limit, asked.memory)
        settings = {"certify": not asked.held, "alone": asked.search}
        process = context.Process(target=measure, args=arguments, kwargs=settings)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
